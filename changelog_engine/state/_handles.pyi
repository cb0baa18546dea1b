from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

SOURCE: str

def bind(cursor: type, timers: type) -> None: ...
def wall_ms() -> int: ...
def call_of(
    kind: str, reference: _Function, names: dict[str, Any], test: type | tuple[int, int] | None
) -> _Function: ...
