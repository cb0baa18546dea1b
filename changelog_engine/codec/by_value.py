"""Pickles of functions and classes that the process that reads them cannot import.

Invariants:
    * A function keeps the file and the lines it was written in: errors show them, and ``explain`` finds the code by them.
"""

from __future__ import annotations

import io
from collections import ChainMap
from types import CodeType
from typing import Any, ClassVar

import cloudpickle

_FILE_NAME = 10  # among the arguments of CodeType, from Python 3.11 on


def dumps(value: Any, protocol: int = 5) -> bytes:
    """The value pickled; what plain pickle would name, and cannot, travels by value."""
    with io.BytesIO() as file:
        _Pickler(file, protocol).dump(value)
        return file.getvalue()


def _reduced(code: CodeType) -> tuple[Any, ...]:
    """As cloudpickle does it; from 3.1.3 on that puts "<dynamic-code>" in place of the file's name."""
    make, arguments, *rest = cloudpickle.Pickler.dispatch_table[CodeType](code)
    return make, (*arguments[:_FILE_NAME], code.co_filename, *arguments[_FILE_NAME + 1 :]), *rest


class _Pickler(cloudpickle.Pickler):
    dispatch_table: ClassVar[ChainMap[type, Any]] = ChainMap(
        {CodeType: _reduced}, cloudpickle.Pickler.dispatch_table
    )
