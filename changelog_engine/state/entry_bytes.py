"""Entries of state tables as bytes and back, for backends that store bytes."""

from __future__ import annotations

import pickle
from typing import Any

from changelog_engine.codec.payload import dump_payload


def dump(entry: Any) -> bytes:
    """An entry as bytes.

    Raises:
        NotSerializableError: it cannot be pickled.
    """
    try:
        return pickle.dumps(entry, pickle.HIGHEST_PROTOCOL)
    except Exception:  # classes of the user's main module are pickled by value
        return dump_payload(entry)


def load(data: bytes) -> Any:
    """The entry that ``dump`` wrote, in this process or another one."""
    return pickle.loads(data)
