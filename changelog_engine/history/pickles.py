"""What a pickled value is, told from its bytes without loading it, in SQL and without.

The name of its type; and in a state with a time to live what it is but for the time of the last access, so that a renewal is
no other value.

Invariant: nothing is unpickled. The name is read off the opcodes at both ends and is for people; bytes that are no
pickle, or one of another protocol, are an ``object``, and all of them count.
"""

from __future__ import annotations

import re

from changelog_engine.history.names import literal

_HEAD = 4096  # bytes looked at for the name of a class
_START = r"(?s)^\x80\x05(?:\x95.{8})?"  # protocol 5, a frame
_CLASS = r"(?s)\x8c.([A-Za-z_][\w.]*)\x94\x8c.([A-Za-z_][\w.<>]*)\x94\x93"
_BYTES = "ISO-8859-1"  # one character a byte
# First opcode of a value that is one opcode long, with one byte of length -> type.
_SHORT = {r"C": "bytes", r"\x8c": "str", r"\x8a": "int"}
_WHOLE = {
    r"(?:K.|M..|J.{4})\.$": "int",
    r"G.{8}\.$": "float",
    r"\x88\.$|\x89\.$": "bool",
    r"\)\.$": "tuple",
}
_LONG = {r"[B\x8e]": "bytes", r"[X\x8d]": "str", r"\x96": "bytearray"}
_LAST = {
    r"[\x85-\x87t]\x94\.$": "tuple",
    r"(?:\x90|\x8f\x94)\.$": "set",
    r"\x91\x94\.$": "frozenset",
    r"(?:[ea]|\]\x94)\.$": "list",
    r"(?:[us]|\}\x94)\.$": "dict",
}
# Of the pickled pair (ms of the last access, the user's value) what comes before the value: a whole number has no length but
# its own, and nothing behind refers to it.
_ACCESSED = rf"{_START}(?:K.|M..|J.{{4}}|\x8a(?:\x05.{{5}}|\x06.{{6}}|\x07.{{7}}|\x08.{{8}}))"
_ACCESSED_HEAD = 32  # bytes that it is at most in
_ACCESSED_BYTES = re.compile(_ACCESSED.encode("ascii"))
_OBJECT = r"(?:R\x94?|b|\x81\x94?|\x93\x94?|0)\.$"


def pickled_type_of(payload: bytes | None) -> str | None:
    """The name of a payload's type, as ``pickled_type`` gives it; None where there is no payload.

    Example:
        >>> import pickle
        >>> pickled_type_of(pickle.dumps({1, 2}, 5)), pickled_type_of(b"?")
        ('set', 'object')
    """
    if payload is None:
        return None
    head, tail = payload[:_HEAD].decode(_BYTES), payload[-8:].decode(_BYTES)
    for opcode, name in _SHORT.items():
        start = re.search(f"{_START}{opcode}.", head)
        end = 1 if name == "int" else 2
        if start and len(payload) == len(start[0]) + ord(start[0][-1]) + end:
            return name
    for pattern, name in _WHOLE.items():
        if len(payload) < _HEAD and re.search(_START + pattern, head):
            return name
    for opcode, name in _LONG.items():
        if re.search(_START + opcode, head) and not re.search(r"(?s)[\x85-\x87]\x94\.$", tail):
            return name
    of_class = re.search(_CLASS, head)
    if of_class and re.search("(?s)" + _OBJECT, tail):
        return f"{of_class[1]}.{of_class[2]}"
    return next((name for pattern, name in _LAST.items() if re.search("(?s)" + pattern, tail)), "object")


def pickled_type(payload: str) -> str:
    """SQL of a payload -> SQL of the name of its type, null where there is no payload.

    Args:
        payload: SQL of a binary column.
    """
    head = f"decode(substring({payload}, 1, {_HEAD}), '{_BYTES}')"
    tail = f"decode(substring({payload}, -8), '{_BYTES}')"
    cases = [f"WHEN {payload} IS NULL THEN NULL"]
    for opcode, name in _SHORT.items():
        start = f"regexp_extract({head}, {literal(f'{_START}{opcode}.')}, 0)"
        end = 1 if name == "int" else 2  # ints are not remembered, and have no opcode that does it
        length = f"length({start}) + conv(hex(encode(right({start}, 1), '{_BYTES}')), 16, 10) + {end}"
        cases.append(f"WHEN length({start}) > 0 AND length({payload}) = {length} THEN '{name}'")
    cases += [
        f"WHEN length({payload}) < {_HEAD} AND {head} RLIKE {literal(_START + pattern)} THEN '{name}'"
        for pattern, name in _WHOLE.items()
    ]
    tuples = literal(r"(?s)[\x85-\x87]\x94\.$")
    cases += [
        f"WHEN {head} RLIKE {literal(_START + opcode)} AND NOT {tail} RLIKE {tuples} THEN '{name}'"
        for opcode, name in _LONG.items()
    ]
    of_class = f"concat_ws('.', regexp_extract({head}, {literal(_CLASS)}, 1), regexp_extract({head}, {literal(_CLASS)}, 2))"
    named = f"{head} RLIKE {literal(_CLASS)}"
    cases.append(f"WHEN {tail} RLIKE {literal('(?s)' + _OBJECT)} AND {named} THEN {of_class}")
    cases += [
        f"WHEN {tail} RLIKE {literal('(?s)' + pattern)} THEN '{name}'" for pattern, name in _LAST.items()
    ]
    return f"CASE {' '.join(cases)} ELSE 'object' END"


def untimed(payload: bytes | None) -> bytes | None:
    """Of a payload in a state with a time to live the bytes that differ where the user's values do.

    Example:
        >>> import pickle
        >>> untimed(pickle.dumps((1_790_000_000_000, {1, 2}), 5)) == untimed(pickle.dumps((7, {1, 2}), 5))
        True
    """
    if payload is None:
        return None
    head = _ACCESSED_BYTES.match(payload)
    return payload if head is None else payload[head.end() :]


def untimed_sql(payload: str) -> str:
    """SQL of a binary column -> SQL of what ``untimed`` gives."""
    head = f"decode(substring({payload}, 1, {_ACCESSED_HEAD}), '{_BYTES}')"
    return f"substring({payload}, 1 + length(regexp_extract({head}, {literal(_ACCESSED)}, 0)))"
