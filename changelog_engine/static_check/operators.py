"""Constants of a program that are put together out of others, such as ``60 * 1000`` and ``folder + "/x.jar"``."""

from __future__ import annotations

import ast
import operator

from changelog_engine.static_check.values import PLAIN, UNKNOWN, Foreign, Known, Value

_NUMBERS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
_LARGEST = 1 << 62


def folded(sign: ast.operator, left: Value, right: Value) -> Value:
    """What an operator makes of two values."""
    if isinstance(left, Known) and isinstance(right, Known):
        a, b = left.found, right.found
        apply = _NUMBERS.get(type(sign))
        if apply is not None and all(type(each) in (int, float) and abs(each) < _LARGEST for each in (a, b)):
            return Known(apply(a, b))
        if isinstance(sign, ast.Add) and isinstance(a, str) and isinstance(b, str):
            return Known(a + b)
    plain = all(isinstance(each, (Foreign, Known)) for each in (left, right))
    return PLAIN if plain else UNKNOWN


def negated(sign: ast.unaryop, value: Value) -> Value:
    """What a sign before a value makes of it."""
    if isinstance(sign, ast.USub) and isinstance(value, Known) and type(value.found) in (int, float):
        return Known(-value.found)
    return PLAIN
