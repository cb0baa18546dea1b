"""Windows as namespaces of keyed state: their identity in tables, and their text in the log.

Invariants:
    * Equal windows have equal identities, and ``window(identity(window)) == window``.
    * ``from_texts(texts(identities)) == identities``.

The text of a `TimeWindow` is ``[start,end]``, of a `CountWindow` its id, of the `GlobalWindow` ``"global"``; a window of
another class is what its serializer writes, as Base64 in JSON.
"""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from io import BytesIO
from operator import index
from typing import Any

import pyarrow as pa

from changelog_engine.codec.canonical import canonical_text, from_canonical
from changelog_engine.codec.columns import SAMPLED, TEXTS_REPEAT, array_texts, repeats
from changelog_engine.errors import ConfigurationError, TypeMismatchError
from changelog_engine.graph.hooks import hook_of
from changelog_engine.windowing.serializers import (
    CountWindowSerializer,
    GlobalWindowSerializer,
    TimeWindowSerializer,
)
from changelog_engine.windowing.windows import CountWindow, GlobalWindow, TimeWindow


class WindowCodec(ABC):
    """Windows of one class; a NamespaceCodec."""

    name: str

    @abstractmethod
    def identity(self, window: Any) -> Any:
        """What stands for a window in tables.

        Raises:
            TypeMismatchError: a window of another class.
        """

    @abstractmethod
    def window(self, identity: Any) -> Any:
        """The window of an identity."""

    @abstractmethod
    def text(self, identity: Any) -> str:
        """The JSON text of one identity."""

    @abstractmethod
    def from_text(self, text: str) -> Any:
        """The identity of one text."""

    def texts(self, identities: list[Any], /) -> pa.Array:
        """See NamespaceCodec; a dictionary, because windows repeat."""
        numbers: dict[Any, int] = {}
        number = numbers.setdefault
        indices = pa.array([number(identity, len(numbers)) for identity in identities], pa.int32())
        return pa.DictionaryArray.from_arrays(indices, self._words(list(numbers)))

    def _words(self, identities: list[Any]) -> pa.Array:
        return pa.array([self.text(identity) for identity in identities], pa.string())

    def from_texts(self, texts: pa.Array, /) -> list[Any]:
        known: dict[str, Any] = {}
        words = texts.to_pylist()
        for word in set(words):
            known[word] = self.from_text(word)
        return [known[word] for word in words]


class TimeWindows(WindowCodec):
    """`TimeWindow`: the pair of start and end."""

    name = "time_window"

    def identity(self, window: Any) -> tuple[int, int]:
        try:
            return index(window.start), index(window.end)
        except (AttributeError, TypeError):
            raise _unfit(window, "TimeWindow with whole numbers of ms") from None

    def window(self, identity: Any) -> TimeWindow:
        return TimeWindow(*identity)

    def text(self, identity: Any) -> str:
        return f"[{identity[0]},{identity[1]}]"

    def texts(self, identities: list[Any], /) -> pa.Array:
        """See NamespaceCodec; a dictionary unless there are many windows that differ, as sessions do."""
        if len(identities) < SAMPLED or repeats([identities], TEXTS_REPEAT):
            return super().texts(identities)
        return self._words(identities)

    def _words(self, identities: list[Any]) -> pa.Array:
        try:
            words = array_texts(identities)
        except TypeError:  # whole numbers of more than 64 bits
            words = None
        return super()._words(identities) if words is None else words

    def from_text(self, text: str) -> tuple[int, int]:
        start, end = text[1:-1].split(",")
        return int(start), int(end)


class CountWindowIds(WindowCodec):
    """`CountWindow`: its id."""

    name = "count_window"

    def identity(self, window: Any) -> int:
        try:
            return index(window.id)
        except (AttributeError, TypeError):
            raise _unfit(window, "CountWindow with a whole number") from None

    def window(self, identity: Any) -> CountWindow:
        return CountWindow(identity)

    def text(self, identity: Any) -> str:
        return str(identity)

    def from_text(self, text: str) -> int:
        return int(text)


class OneGlobalWindow(WindowCodec):
    """The `GlobalWindow`: a constant."""

    name = "global_window"

    def identity(self, window: Any) -> str:
        return "global"

    def window(self, identity: Any) -> GlobalWindow:
        return GlobalWindow.get()

    def text(self, identity: Any) -> str:
        return '"global"'

    def from_text(self, text: str) -> str:
        return "global"


class SerializedWindows(WindowCodec):
    """Windows of a program's own class: the bytes that its serializer writes.

    Args:
        dumps: window -> bytes, the same for equal windows.
        loads: bytes -> window.
    """

    name = "serialized_window"

    def __init__(self, dumps: Callable[[Any], bytes], loads: Callable[[bytes], Any]) -> None:
        self._dumps = dumps
        self._loads = loads

    def identity(self, window: Any) -> bytes:
        return bytes(self._dumps(window))

    def window(self, identity: Any) -> Any:
        return self._loads(identity)

    def text(self, identity: Any) -> str:
        return f'"{base64.b64encode(identity).decode()}"'

    def from_text(self, text: str) -> bytes:
        return base64.b64decode(json.loads(text))


def window_codec(serializer: Any) -> WindowCodec:
    """The codec of the windows of an assigner.

    Args:
        serializer: what its ``get_window_serializer`` gives: one of the three of windows here; an object with
            ``serialize(window, stream)`` and ``deserialize(stream)``, or with ``dumps(window)`` and ``loads(data)``; or
            None, and windows are told apart by their canonical form.

    Raises:
        ConfigurationError: none of these.
    """
    if isinstance(serializer, TimeWindowSerializer):
        return TimeWindows()
    if isinstance(serializer, CountWindowSerializer):
        return CountWindowIds()
    if isinstance(serializer, GlobalWindowSerializer):
        return OneGlobalWindow()
    if serializer is None:
        return SerializedWindows(
            lambda window: canonical_text(window).encode(), lambda data: from_canonical(data.decode())
        )
    if hook_of(serializer, "serialize") and hook_of(serializer, "deserialize"):
        return SerializedWindows(
            lambda window: _written(serializer, window), lambda data: serializer.deserialize(BytesIO(data))
        )
    dumps, loads = hook_of(serializer, "dumps"), hook_of(serializer, "loads")
    if dumps and loads:
        return SerializedWindows(dumps, loads)
    raise ConfigurationError(
        f"get_window_serializer() of the window assigner returned {serializer!r}; it must return a TypeSerializer, with "
        "serialize(window, stream) and deserialize(stream)"
    )


def _written(serializer: Any, window: Any) -> bytes:
    stream = BytesIO()
    serializer.serialize(window, stream)
    return stream.getvalue()


def _unfit(window: Any, wanted: str) -> TypeMismatchError:
    return TypeMismatchError(
        f"the window assigner returned {window!r}, and its serializer writes windows that are a {wanted}: return a "
        "serializer of its own windows in get_window_serializer()"
    )
