"""Names and paths that can be written down: in a table, a file's name, JSON."""

from __future__ import annotations

from changelog_engine.errors import ConfigurationError


def names_of(names: str, prefix: str = "") -> frozenset[str]:
    """The names in a string that separates them by blanks, each with the prefix before it."""
    return frozenset([prefix + name for name in names.split()])


def writable(text: str, what: str) -> str:
    r"""The text itself, if it can be written as UTF-8.

    Python's str may hold lone surrogates (halves of characters, such as ``"\ud800"``, or bytes of a file name that are not
    UTF-8). Nothing that is written can hold them, so they are refused where a name comes in, before anything is made of it.

    Raises:
        ConfigurationError: it has a lone surrogate.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ConfigurationError(
            f"{what} cannot be written as UTF-8: character {error.start + 1} of {text!r} is a lone surrogate; use another "
            "name, or decode it right where it comes from"
        ) from None
    return text
