"""What a pickled value is, told from its bytes without loading it, in SQL and without.

The name of its type; and in a state with a time to live what it is but for the time of the last access, so that a renewal is
no other value.

Invariant: nothing is unpickled. The name is read off the opcodes at both ends and is for people; bytes that are no
pickle, or one of another protocol, are an ``object``, and all of them count.
"""

from __future__ import annotations

import functools
import re

from changelog_engine.history.names import literal

_HEAD = 4096  # bytes looked at for the name of a class
_START = r"(?s)^\x80\x05(?:\x95.{8})?"  # protocol 5, a frame
_MODULE, _NAME = r"([A-Za-z_][\w.]*)", r"([A-Za-z_][\w.<>]*)"
_CLASS = rf"(?s)\x8c.{_MODULE}\x94\x8c.{_NAME}\x94\x93"
_BYTES = "ISO-8859-1"  # one character a byte
# First opcode of a value that is one opcode long, with one byte of length -> type.
_SHORT = {r"C": "bytes", r"\x8c": "str", r"\x8a": "int"}
_WHOLE = {r"(?:K.|M..|J.{4})\.$": "int", r"G.{8}\.$": "float", r"[\x88\x89]\.$": "bool", r"\)\.$": "tuple"}
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
_TUPLE = r"[\x85-\x87]\x94\.$"
# In the text that SQL makes of a payload: a byte as a character, and what is none, before the head, the tail and the names.
_BYTE = r"[\x00-\xff]"
_HEAD_NEXT, _TAIL_NEXT, _NAMES_NEXT = "\u0100\u0101\u0102"


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
        if re.search(_START + opcode, head) and not re.search("(?s)" + _TUPLE, tail):
            return name
    of_class = re.search(_CLASS, head)
    if of_class and re.search("(?s)" + _OBJECT, tail):
        return f"{of_class[1]}.{of_class[2]}"
    return next((name for pattern, name in _LAST.items() if re.search("(?s)" + pattern, tail)), "object")


def pickled_type(payload: str) -> str:
    """SQL of a payload -> SQL of the name of its type, null where there is no payload.

    Each view of a state has this in it, and Spark's planner goes again and again through all parts of an expression: with a
    CASE of each type these were hundreds. So there is one pattern, for one text: how many bytes follow the data of a value
    that is one opcode long, the head, the tail, and the names of all types, of which the pattern takes one.

    Args:
        payload: SQL of a binary column.
    """
    first, head, tail = (
        f"decode(substring({payload}, {part}), '{_BYTES}')" for part in ("1, 13", f"1, {_HEAD}", "-8")
    )
    short = f"{_START}[{''.join(_SHORT)}]."
    opcode = f"regexp_extract({first}, {literal(short)}, 0)"
    follow = f"length({payload}) - length({opcode}) - ascii(right({opcode}, 1))"
    pattern, groups, names = _types_in_text()
    marks = literal(_HEAD_NEXT), literal(_TAIL_NEXT), literal(_NAMES_NEXT + names)
    text = f"concat({follow}, {marks[0]}, {head}, {marks[1]}, {tail}, {marks[2]})"
    return f"regexp_replace({text}, {literal(pattern)}, {literal(groups)})"


@functools.cache
def _types_in_text() -> tuple[str, str, str]:
    """The pattern; its groups in the order in which what they match is the type's name; and the names in the text."""
    start = _in_text(_START)
    head, tail = rf"[-0-9]*{_HEAD_NEXT}", rf".*{_TAIL_NEXT}{_BYTE}*"
    found = [
        (f"{1 if name == 'int' else 2}{_HEAD_NEXT}{start}{opcode}", name)  # ints are not remembered
        for opcode, name in _SHORT.items()
    ]
    found += [(head + start + _in_text(whole, _TAIL_NEXT), name) for whole, name in _WHOLE.items()]
    no_tuple = f"(?!{tail}{_in_text(_TUPLE, _NAMES_NEXT)})"
    found += [(head + start + opcode + no_tuple, name) for opcode, name in _LONG.items()]
    last = [(tail + _in_text(end, _NAMES_NEXT), name) for end, name in _LAST.items()] + [("", "object")]
    of_class = rf"{head}{_BYTE}*?\x8c{_BYTE}{_MODULE}\x94\x8c{_BYTE}{_NAME}\x94\x93"
    cases = [
        *(f"{pattern}.*({name})" for pattern, name in found),
        rf"{of_class}{tail}{_in_text(_OBJECT, _NAMES_NEXT)}.*(\.)",
        *(f"{pattern}.*({name})" for pattern, name in last),
    ]
    module = len(found) + 1
    groups = [*range(1, module + 1), module + 2, module + 1, *range(module + 3, module + 3 + len(last))]
    names = dict.fromkeys([*(name for _, name in found + last), "."])
    return f"(?s)^(?:{'|'.join(cases)}).*", "".join(f"${group}" for group in groups), ",".join(names)


def _in_text(pattern: str, follows: str = "") -> str:
    """A pattern of bytes, for the text: its dots are bytes, and where it ends something else follows."""
    plain = pattern.removeprefix("(?s)").removeprefix("^")
    return plain.replace(r"\.$", rf"\x2e\n?{follows}").replace(".", _BYTE)


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
