"""Key identities as bytes and back, for stores that are ordered by bytes.

Invariants:
    * The bytes depend on the identity alone, and ``decode(encode(identity))`` equals it, with the same classes inside.
    * No encoding is the beginning of another one, so encodings can follow each other without separators: all that begins
      with the bytes of a key belongs to that key.
    * Ints of 64 bits, strs and bytes are ordered as their encodings are.

An identity is an int, a str, bytes, or a tuple of identities; None and bools may be inside namespaces.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

_LOW, _HIGH = -(2**63), 2**63 - 1
_INT, _BIG_INT, _TEXT, _BYTES, _TUPLE, _NONE, _FALSE, _TRUE = range(1, 9)
_pack_int = struct.Struct(">BQ").pack  # moved up by 2**63, so that negative ones come first
_unpack_int = struct.Struct(">Q").unpack_from
_pack_size = struct.Struct(">BI").pack
_unpack_size = struct.Struct(">I").unpack_from
_TEXT_MARK, _BYTES_MARK = bytes((_TEXT,)), bytes((_BYTES,))
_ZERO, _ESCAPED, _END = b"\0", b"\0\xff", b"\0\0"


def encode(identity: Any) -> bytes:
    """The bytes of an identity.

    Raises:
        TypeError: it is not an identity.
    """
    kind = type(identity)
    if kind is int:
        if _LOW <= identity <= _HIGH:
            return _pack_int(_INT, identity - _LOW)
        data: bytes = identity.to_bytes(identity.bit_length() // 8 + 1, "big", signed=True)
        return _pack_size(_BIG_INT, len(data)) + data
    if kind is str:
        text: bytes = identity.encode("utf-8", "surrogatepass").replace(_ZERO, _ESCAPED)
        return _TEXT_MARK + text + _END
    if kind is bytes:
        plain: bytes = identity.replace(_ZERO, _ESCAPED)
        return _BYTES_MARK + plain + _END
    if kind is tuple:
        return _pack_size(_TUPLE, len(identity)) + b"".join([encode(item) for item in identity])
    if identity is None:
        return bytes((_NONE,))
    if kind is bool:
        return bytes((_TRUE if identity else _FALSE,))
    raise TypeError(f"{identity!r} of type {kind.__name__} is not an identity of a key or a namespace")


def encoder(prefix: bytes) -> Callable[[Any], bytes]:
    """As ``encode``, behind a prefix: of ints both are packed at once."""
    pack = struct.Struct(f">{len(prefix)}sBQ").pack

    def encoded(identity: Any) -> bytes:
        if type(identity) is int and _LOW <= identity <= _HIGH:
            return pack(prefix, _INT, identity - _LOW)
        return prefix + encode(identity)

    return encoded


def decode(data: bytes, at: int = 0) -> tuple[Any, int]:
    """The identity whose bytes begin at a place, and the place behind them."""
    kind = data[at]
    at += 1
    if kind == _INT:
        return _unpack_int(data, at)[0] + _LOW, at + 8
    if kind in (_TEXT, _BYTES):
        end = data.index(_END, at)
        body = data[at:end].replace(_ESCAPED, _ZERO)
        return (body.decode("utf-8", "surrogatepass") if kind == _TEXT else body), end + 2
    if kind >= _NONE:
        return (None, False, True)[kind - _NONE], at
    size: int = _unpack_size(data, at)[0]
    at += 4
    if kind == _BIG_INT:
        return int.from_bytes(data[at : at + size], "big", signed=True), at + size
    items = []
    for _ in range(size):
        item, at = decode(data, at)
        items.append(item)
    return tuple(items), at


def after(prefix: bytes) -> bytes:
    """The smallest bytes that are greater than all that begin with the prefix, which must not be all 255."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,))
