"""What a namespace of keyed state (a window, mostly) is in the log: text in a column of its own."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa


class NamespaceCodec(Protocol):
    """Turns the identities of namespaces into text and back.

    An identity is an int, a str, bytes, or a tuple of such: two namespaces are the same when their identities are equal.
    """

    name: str  # of the kind of namespace; the checkpoint's description of a state says it

    def texts(self, identities: list[Any], /) -> pa.Array:
        """Identities as JSON text, in bulk."""

    def from_texts(self, texts: pa.Array, /) -> list[Any]:
        """Text back to identities."""
