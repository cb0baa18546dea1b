"""What checkpoints keep of connectors: values that JSON gives back as they were.

Invariant: a position or a committable means the same before and after a restore. JSON has no keys but text: it would make
the key "1" of the key 1, and a reader that does not find its own would read again from the beginning.
"""

from __future__ import annotations

import json
from typing import Any

from changelog_engine.errors import NotSerializableError
from changelog_engine.types.typeinfo import shown

_ATOMS = frozenset((int, str, bool, type(None)))


def kept_copy(value: Any, what: str) -> Any:
    """The value as a checkpoint gives it back: its own, with lists for tuples.

    Raises:
        NotSerializableError: JSON does not have it, or gives back another one.
    """
    if type(value) in _ATOMS:
        return value
    try:
        text = json.dumps(value, allow_nan=False)
        key = _lost_key(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise _refused(value, what, str(error)) from None
    if key is not None:
        raise _refused(value, what, f"the key {shown(key[0])} of a dict is not a str")
    return json.loads(text)


def _lost_key(value: Any) -> tuple[Any] | None:
    """A key of a dict, however deep, that JSON would make text of."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                return (key,)
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return None
    found = (_lost_key(item) for item in value if type(item) not in _ATOMS)
    return next((key for key in found if key is not None), None)


def _refused(value: Any, what: str, why: str) -> NotSerializableError:
    return NotSerializableError(
        f"{what} is {shown(value)}, which a checkpoint cannot keep as it is: {why}. Use JSON's values: None, bool, int, "
        "finite float, str, and lists and dicts of such, with str as keys"
    )
