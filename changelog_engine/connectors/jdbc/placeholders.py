"""The ``?`` of JDBC's SQL as the placeholders of a Python driver.

Invariant: nothing inside quotes, quoted names and comments is a placeholder.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from changelog_engine.errors import ConfigurationError

_QUOTED = r"'(?:[^']|'')*'"
_QUOTED_NAME = r'"(?:[^"]|"")*"'
_WITH_BACKSLASHES = r"'(?:[^'\\]|\\.|'')*'"
_NAME_WITH_BACKSLASHES = r'"(?:[^"\\]|\\.|"")*"'
_BACKTICKS = r"`(?:[^`]|``)*`"
_COMMENT = r"/\*.*?\*/"
_BROKEN = r"(?P<broken>'|\"|`|/\*)"


class Grammar(NamedTuple):
    """How a database's SQL is cut into pieces."""

    verbatim: tuple[str, ...]  # pieces in which a ``?`` is only a ``?``
    placeholder: str
    escaped: bool = False  # ``??`` means an operator's ``?``, as in PostgreSQL's JDBC driver


POSTGRESQL = Grammar(
    (
        rf"(?<![A-Za-z0-9_$])[eE]{_WITH_BACKSLASHES}",
        _QUOTED,
        _QUOTED_NAME,
        r"(?<![A-Za-z0-9_$])\$(?P<tag>(?:[A-Za-z_]\w*)?)\$.*?\$(?P=tag)\$",
        r"--[^\n]*",
        r"/\*(?:[^*/]|\*(?!/)|/(?!\*)|/\*(?:[^*/]|\*(?!/)|/(?!\*))*\*/)*\*/",  # comments nest; once is enough
    ),
    "%s",
    escaped=True,
)
MYSQL = Grammar(
    (_WITH_BACKSLASHES, _NAME_WITH_BACKSLASHES, _BACKTICKS, r"--(?=\s|$)[^\n]*", r"#[^\n]*", _COMMENT), "%s"
)
SQLITE = Grammar((_QUOTED, _QUOTED_NAME, _BACKTICKS, r"\[[^\]]*\]", r"--[^\n]*", _COMMENT), "?")


def translated(sql: str, grammar: Grammar) -> tuple[str, int]:
    """SQL for the Python driver, and how many placeholders it has.

    Raises:
        ConfigurationError: a quote or comment has no end.

    Example:
        >>> translated("INSERT INTO t VALUES (?, '50%?')", POSTGRESQL)
        ("INSERT INTO t VALUES (%s, '50%%?')", 1)
    """
    pattern = re.compile("|".join((*grammar.verbatim, r"\?\?|\?", _BROKEN)), re.DOTALL)
    pieces: list[str] = []
    count = end = 0
    for found in pattern.finditer(sql):
        if found["broken"] and not (found[0] == "`" and grammar is POSTGRESQL):
            raise ConfigurationError(f"the SQL of a JDBC sink has a {found[0]} without an end: {sql}")
        piece = found[0]
        pieces.append(_verbatim(sql[end : found.start()], grammar))
        end = found.end()
        if piece == "?" or (piece == "??" and not grammar.escaped):
            pieces.append(grammar.placeholder * len(piece))
            count += len(piece)
        else:
            pieces.append("?" if piece == "??" else _verbatim(piece, grammar))
    return "".join(pieces) + _verbatim(sql[end:], grammar), count


def _verbatim(piece: str, grammar: Grammar) -> str:
    return piece.replace("%", "%%") if grammar.placeholder == "%s" else piece
