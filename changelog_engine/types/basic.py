"""Numbers, text and booleans."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import numpy as np

from changelog_engine.types.java_text import double_text, float_text
from changelog_engine.types.typeinfo import Misfit, TypeInformation, register

_FLOAT32 = struct.Struct("<f")


def _is_real(value: Any) -> bool:
    return isinstance(value, (int, np.integer, np.floating, np.bool_))


class BasicTypeInfo(TypeInformation):
    """Base of the types that have no parts. Documented source: ``pyflink.common.typeinfo.BasicTypeInfo``."""

    def __init__(self, kind: str) -> None:
        self.kind = kind  # type: ignore[misc] # one class may serve several kinds
        self.name = kind


class IntegerTypeInfo(BasicTypeInfo):
    """BYTE, SHORT, INT, LONG and BIG_INT.

    Args:
        kind: one of these names.
        bits: two's complement width, None for no bound.
    """

    def __init__(self, kind: str, bits: int | None) -> None:
        super().__init__(kind)
        self.exact = int if bits is None or bits == 64 else None
        self.sure = int if bits is None else None
        self.low = None if bits is None else -(2 ** (bits - 1))
        self.high = None if bits is None else 2 ** (bits - 1) - 1

    def fit(self, value: Any, widen: bool) -> int:
        """See TypeInformation.fit."""
        if type(value) is not int:
            if isinstance(value, bool):
                if not widen:
                    raise Misfit(self, value)
            elif not isinstance(value, int) and not (widen and isinstance(value, (np.integer, np.bool_))):
                raise Misfit(self, value)
            value = int(value)
        if self.low is not None and self.high is not None and not self.low <= value <= self.high:
            raise Misfit(self, value, f"outside {self.low} to {self.high}")
        return value  # type: ignore[no-any-return]

    def fits_all(self, values: list[Any]) -> bool:
        """See TypeInformation.fits_all."""
        if set(map(type, values)) != {int}:
            return False
        if self.low is None or self.high is None:
            return True
        return bool(self.low <= min(values) and max(values) <= self.high)


class DoubleTypeInfo(BasicTypeInfo):
    """DOUBLE: Python's float."""

    exact = sure = float

    def __init__(self) -> None:
        super().__init__("DOUBLE")

    def fit(self, value: Any, widen: bool) -> float:
        """See TypeInformation.fit."""
        if isinstance(value, float):
            return float(value)
        if (
            widen
            and isinstance(value, (int, np.number, np.bool_))
            and not isinstance(value, np.complexfloating)
        ):
            try:
                return float(value)
            except OverflowError:
                raise Misfit(self, value, "too large") from None
        raise Misfit(self, value)

    def text(self, value: Any) -> str:
        """See TypeInformation.text."""
        return double_text(value)


class FloatTypeInfo(BasicTypeInfo):
    """FLOAT: 32 bits; values are rounded to what they can hold, as they are between Flink's operators."""

    def __init__(self) -> None:
        super().__init__("FLOAT")

    def fit(self, value: Any, widen: bool) -> float:
        """See TypeInformation.fit."""
        if not isinstance(value, float) and not (widen and _is_real(value)):
            raise Misfit(self, value)
        try:
            rounded: float = _FLOAT32.unpack(_FLOAT32.pack(value))[0]
        except OverflowError:
            raise Misfit(self, value, "too large for 32 bits") from None
        return value if type(value) is float and (rounded == value or math.isnan(value)) else rounded

    def text(self, value: Any) -> str:
        """See TypeInformation.text."""
        return float_text(value)


class BooleanTypeInfo(BasicTypeInfo):
    """BOOLEAN."""

    exact = sure = bool

    def __init__(self) -> None:
        super().__init__("BOOLEAN")

    def fit(self, value: Any, widen: bool) -> bool:
        """See TypeInformation.fit."""
        if type(value) is bool:
            return value
        if widen and isinstance(value, np.bool_):
            return bool(value)
        raise Misfit(self, value)

    def text(self, value: Any) -> str:
        """See TypeInformation.text."""
        return "true" if value else "false"


class StringTypeInfo(BasicTypeInfo):
    """STRING."""

    exact = sure = str

    def __init__(self) -> None:
        super().__init__("STRING")

    def fit(self, value: Any, widen: bool) -> str:
        """See TypeInformation.fit."""
        if not isinstance(value, str):
            raise Misfit(self, value)
        return value if type(value) is str else str.__str__(value)


class CharTypeInfo(BasicTypeInfo):
    """CHAR: text of one character."""

    def __init__(self) -> None:
        super().__init__("CHAR")

    def fit(self, value: Any, widen: bool) -> str:
        """See TypeInformation.fit."""
        if not isinstance(value, str):
            raise Misfit(self, value)
        if len(value) != 1:
            raise Misfit(self, value, "not one character")
        return value if type(value) is str else str.__str__(value)


class DecimalTypeInfo(BasicTypeInfo):
    """BIG_DEC: decimal.Decimal."""

    exact = sure = Decimal

    def __init__(self) -> None:
        super().__init__("BIG_DEC")

    def fit(self, value: Any, widen: bool) -> Decimal:
        """See TypeInformation.fit."""
        if isinstance(value, Decimal):
            return value if type(value) is Decimal else Decimal(value)
        if widen and isinstance(value, (int, np.integer)):
            return Decimal(int(value))
        raise Misfit(self, value)


STRING = StringTypeInfo()
CHAR = CharTypeInfo()
BOOLEAN = BooleanTypeInfo()
BYTE = IntegerTypeInfo("BYTE", 8)
SHORT = IntegerTypeInfo("SHORT", 16)
INT = IntegerTypeInfo("INT", 32)
LONG = IntegerTypeInfo("LONG", 64)
BIG_INT = IntegerTypeInfo("BIG_INT", None)
FLOAT = FloatTypeInfo()
DOUBLE = DoubleTypeInfo()
BIG_DEC = DecimalTypeInfo()

for _type in (STRING, CHAR, BOOLEAN, BYTE, SHORT, INT, LONG, BIG_INT, FLOAT, DOUBLE, BIG_DEC):
    register(_type.kind, lambda spec, found=_type: found)  # type: ignore[misc]
