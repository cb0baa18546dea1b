"""Which variable or attribute of a function holds what cannot be pickled: the pickler's own error names its class alone."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

from changelog_engine.codec import by_value
from changelog_engine.types.foreign import attributes_of

_MOST = 200  # values that are tried
_OURS = ("changelog_engine", "api")


def holder(function: Any) -> str:
    """What holds it, as the program writes it: ``db``, ``self.client``, ``settings['lock']``; "" where it is not found."""
    return _Search().within(function, "")


class _Search:
    def __init__(self) -> None:
        self._tried: list[Any] = []  # kept, so that no id is used again

    def within(self, value: Any, name: str) -> str:
        for part_name, part in _parts(value, name):
            if len(self._tried) >= _MOST:
                break
            if any(part is each for each in self._tried):
                continue
            self._tried.append(part)
            if _fails(part):
                return self.within(part, part_name) or part_name
        return ""


def _parts(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, FunctionType):
        for variable, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            try:
                yield variable, cell.cell_contents
            except ValueError:  # it has no value yet
                continue
        for variable in sorted(_names(value.__code__) & value.__globals__.keys()):
            yield variable, value.__globals__[variable]
    elif isinstance(value, MethodType):
        yield "", value.__func__
        yield "self", value.__self__
    elif isinstance(value, functools.partial):
        yield from (("", part) for part in (value.func, *value.args, *value.keywords.values()))
    elif isinstance(value, dict):
        yield from ((name and f"{name}[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, list | tuple):
        yield from ((name and f"{name}[{place}]", part) for place, part in enumerate(value))
    else:
        ours = type(value).__module__.partition(".")[0] in _OURS
        held = vars(value) if isinstance(value, type) else attributes_of(value)
        yield from (("" if ours else f"{name or 'self'}.{key}", part) for key, part in list(held.items()))
        if not ours:
            methods = list(vars(type(value)).values())
            yield from (("", part) for part in methods if isinstance(part, FunctionType))


def _names(code: CodeType) -> set[str]:
    """The names that code takes from its module, or from what it finds there."""
    inner = (_names(each) for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*inner)


def _fails(value: Any) -> bool:
    try:
        by_value.dumps(value)
    except Exception:  # whatever the program's classes raise
        return True
    return False
