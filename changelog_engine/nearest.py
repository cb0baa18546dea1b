"""What is most like something that is not there."""

from __future__ import annotations

import heapq
import itertools
import math
import re
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from typing import Any

_NEAREST = 3
_FEW = 5  # that are all named
_LOOKED_AT = 20_000  # that are compared letter by letter
_COMPARED = 200  # letters of each
_BETWEEN_WORDS = re.compile("[._-]+")


def nearest(known: Iterable[Any], wanted: str) -> list[Any]:
    """The few that are most like what was asked for: by value if both are numbers, by their letters otherwise.

    Example:
        >>> nearest([1, 70, 8, 6, 700], "7")
        [6, 8, 1]
    """
    try:
        number: float | None = float(wanted)
    except ValueError:
        number = None
    matcher = SequenceMatcher(b=wanted)

    def distance(key: Any) -> tuple[int, float, str]:
        try:
            text = str(key)
        except Exception:  # an object's own, or a number that Python refuses to write
            text = type(key).__name__
        if number is not None and isinstance(key, (int, float)):
            try:
                return 0, abs(key - number), text
            except OverflowError:  # too large for a float
                return 0, math.inf, text
        matcher.set_seq1(text[:_COMPARED])
        return 1, 1 - matcher.ratio(), text

    return heapq.nsmallest(_NEAREST, itertools.islice(known, _LOOKED_AT), key=distance)


def did_you_mean(wanted: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """The end of a message about a name that is not there; nothing where no known one is like it.

    Args:
        likeness: the least, from 0 to 1.

    Example:
        >>> did_you_mean("cuont", ["count", "places"]), did_you_mean("x", ["count"])
        ("; did you mean 'count'?", '')
    """
    near = get_close_matches(wanted[:_COMPARED], itertools.islice(known, _LOOKED_AT), 1, likeness)
    return f"; did you mean {near[0]!r}?" if near else ""


def most_alike(wanted: str, known: Iterable[str]) -> str:
    """Of names made of words, such as options, the one that shares most with another: its words, then its letters.

    Example:
        >>> most_alike("log.base.path", ["changelog.packs", "state.log.dfs.base-path"])
        'state.log.dfs.base-path'
    """
    matcher = SequenceMatcher(b=_BETWEEN_WORDS.sub(".", wanted))
    words = set(_BETWEEN_WORDS.split(wanted))

    def likeness(name: str) -> float:
        matcher.set_seq1(_BETWEEN_WORDS.sub(".", name))
        return matcher.ratio() + len(words.intersection(_BETWEEN_WORDS.split(name))) / len(words)

    return max(known, key=likeness)


def public_names(of: object) -> list[str]:
    """The names that a module, a class or an object shows."""
    return [name for name in dir(of) if not name.startswith("_")]


def named(what: str, wanted: str, known: Iterable[str]) -> str:
    """What to say of a name that is not there: which there are; of many, the nearest.

    Example:
        >>> named("state", "cuont", ["count", "places"])
        "there is no state 'cuont'; there are count, places"
        >>> named("state", "n3", [f"n{number}" for number in range(10, 40)])
        "there is no state 'n3'; the nearest of 30: n13, n23, n30"
    """
    names = list(dict.fromkeys(known))
    if len(names) <= _FEW:
        return f"there is no {what} {wanted!r}; there are {', '.join(names) or 'none'}"
    return f"there is no {what} {wanted!r}; the nearest of {len(names)}: {', '.join(nearest(names, wanted))}"
