"""Names and literals of SQL, out of names that people gave to jobs, operators and states.

Invariants:
    * Names are of ASCII letters, digits and ``_``, as Spark's catalogs want, and begin with no digit: they need no quotes.
    * No two views share a name, also for catalogs that don't tell upper from lower case.
    * Nothing of a literal is read as SQL, whatever the session's settings of escapes and variables.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable

RESERVED = ("mutations", "checkpoints", "snapshots", "lineage", "states")
HISTORY_SUFFIX = "_history"
TIMERS = "timers"
_MAX_LENGTH = 80
_PLAIN = re.compile(r"[A-Za-z0-9 _.,:\[\]{}\"()/+*=<>|%-]*")


def sql_name(name: str) -> str:
    """A name as SQL takes it without quotes: what is not a letter, a digit or ``_`` becomes ``_``.

    Args:
        name: any text; a long one is cut and gets a hash.

    Example:
        >>> sql_name("word-count"), sql_name("2nd try"), sql_name("état")
        ('word_count', '_2nd_try', '_tat')
    """
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if not plain or plain[0].isdigit():
        plain = f"_{plain}"
    return plain if len(plain) <= _MAX_LENGTH else f"{plain[: _MAX_LENGTH - 11]}_{digest(name)}"


def digest(*parts: str) -> str:
    """Ten hex digits that tell names apart."""
    text = "\0".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]


def view_names(
    states: Iterable[tuple[str, str]], timers: Iterable[str] = ()
) -> dict[tuple[str, str | None], str]:
    """The names of the views of states and of timers.

    Args:
        states: (operator uid, state name).
        timers: uids of operators that may have timers; they come as (uid, None).

    Returns:
        For each its name; ``<name>_history`` is free, too. Names that clash get a hash, all of them.

    Example:
        >>> view_names([("visits", "count"), ("a", "b_c"), ("a_b", "c")])["visits", "count"]
        'visits_count'
    """
    simple: dict[tuple[str, str | None], str] = {
        (uid, name): sql_name(f"{uid}_{name}") for uid, name in states
    }
    simple |= {(uid, None): sql_name(f"{uid}_{TIMERS}") for uid in timers}
    wanted = Counter(
        name for each in simple.values() for name in (each.lower(), each.lower() + HISTORY_SUFFIX)
    )
    wanted.update(RESERVED)
    named = {}
    for state, name in simple.items():
        clashes = wanted[name.lower()] > 1 or wanted[name.lower() + HISTORY_SUFFIX] > 1
        named[state] = f"{name}_{digest(*(part for part in state if part is not None))}" if clashes else name
    return named


def quoted(name: str) -> str:
    """An identifier in backticks."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A string literal: plain where it can be, else its UTF-8 bytes.

    Example:
        >>> literal("visits"), literal("it's")
        ("'visits'", "CAST(X'69742773' AS STRING)")
    """
    if _PLAIN.fullmatch(text):
        return f"'{text}'"
    return f"CAST(X'{text.encode('utf-8', 'surrogatepass').hex()}' AS STRING)"
