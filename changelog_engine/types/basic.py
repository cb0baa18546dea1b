"""Numbers, text and booleans.

Invariant: a value becomes one of another class only where nothing is lost, whatever numbers the rest of the data has.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np

from changelog_engine.types.java_text import decimal_text, double_text, float_text
from changelog_engine.types.row_loops import classes_of
from changelog_engine.types.typeinfo import Misfit, TypeInformation, register_one, shown, the_one

_FLOAT32 = struct.Struct("<f")
_ROOM = Context(prec=100)  # digits, for numbers with fewer
_DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


class BasicTypeInfo(TypeInformation):
    """Base of the types that have no parts."""

    firm = True

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.name = kind

    STRING_TYPE_INFO = the_one("STRING")
    BOOLEAN_TYPE_INFO = the_one("BOOLEAN")
    BYTE_TYPE_INFO = the_one("BYTE")
    SHORT_TYPE_INFO = the_one("SHORT")
    INT_TYPE_INFO = the_one("INT")
    LONG_TYPE_INFO = the_one("LONG")
    FLOAT_TYPE_INFO = the_one("FLOAT")
    DOUBLE_TYPE_INFO = the_one("DOUBLE")
    CHAR_TYPE_INFO = the_one("CHAR")
    BIG_INT_TYPE_INFO = the_one("BIG_INT")
    BIG_DEC_TYPE_INFO = the_one("BIG_DEC")
    INSTANT_TYPE_INFO = the_one("INSTANT")


def _is_whole(value: Any) -> bool:
    """Whether it is a whole number; NumPy takes a length of time for one, of whichever unit."""
    return isinstance(value, (int, np.integer, np.bool_)) and not isinstance(value, np.timedelta64)


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

    def fit(self, value: Any) -> int:
        whole = value if type(value) is int else self._whole(value)
        if self.low is not None and self.high is not None and not self.low <= whole <= self.high:
            raise Misfit(self, value, f"outside {self.low} to {self.high}")
        return whole

    def _whole(self, value: Any) -> int:
        if _is_whole(value):
            return int(value)
        if not isinstance(value, (float, np.floating, Decimal)):
            raise Misfit(self, value)
        finite = value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)
        if not finite or value != int(value):
            raise Misfit(self, value, "not a whole number; round it first")
        return int(value)

    def quick_test(self) -> Callable[[Any], bool] | None:
        low, high = self.low, self.high
        if low is None or high is None:
            return super().quick_test()
        return lambda value: type(value) is int and low <= value <= high

    def class_or_bounds(self) -> type | tuple[int, int] | None:
        return self.sure if self.low is None or self.high is None else (self.low, self.high)

    def fits_all(self, values: list[Any]) -> bool:
        if classes_of(values) != {int}:
            return False
        if self.low is None or self.high is None:
            return True
        return bool(self.low <= min(values) and max(values) <= self.high)


class DoubleTypeInfo(BasicTypeInfo):
    """DOUBLE: Python's float."""

    exact = sure = float

    def __init__(self) -> None:
        super().__init__("DOUBLE")

    def fit(self, value: Any) -> float:
        return value if type(value) is float else _as_float(self, value)

    def text(self, value: Any) -> str:
        return double_text(value)


def _as_float(wanted: TypeInformation, value: Any) -> float:
    """A float that stands for the same number.

    Raises:
        Misfit: there is none, or it is not a number.
    """
    if _is_whole(value):
        try:
            number = float(value)
        except OverflowError:
            raise Misfit(wanted, value, "too large") from None
        if number != int(value):
            raise Misfit(wanted, value, "64 bits do not hold it exactly; declare LONG, BIG_INT or BIG_DEC")
        return number
    if isinstance(value, (float, np.floating)):
        number = float(value)
        if number != value and not math.isnan(number):
            raise Misfit(wanted, value, "64 bits do not hold it exactly")
        return number
    if isinstance(value, Decimal):
        if value.is_snan():
            raise Misfit(wanted, value, "a float cannot be a signaling NaN")
        number = float(value)
        if value.is_finite() and Decimal(repr(number)) != value:
            raise Misfit(wanted, value, "64 bits do not hold it exactly; declare BIG_DEC, or round it")
        return number
    raise Misfit(wanted, value)


class FloatTypeInfo(BasicTypeInfo):
    """FLOAT: 32 bits; values are rounded to what they can hold, as they are between Flink's operators."""

    rounds = True

    def __init__(self) -> None:
        super().__init__("FLOAT")

    def fit(self, value: Any) -> float:
        number = value if type(value) is float else _as_float(self, value)
        try:
            rounded: float = _FLOAT32.unpack(_FLOAT32.pack(number))[0]
        except OverflowError:
            raise Misfit(self, value, "too large for 32 bits") from None
        if (
            rounded == number
            or math.isnan(number)
            or not (self.rounds or isinstance(value, (int, np.integer)))
        ):
            return number
        if isinstance(value, (int, np.integer)):
            raise Misfit(self, value, "32 bits do not hold it exactly; declare DOUBLE")
        return rounded

    def text(self, value: Any) -> str:
        return float_text(value)


class BooleanTypeInfo(BasicTypeInfo):
    """BOOLEAN."""

    exact = sure = bool

    def __init__(self) -> None:
        super().__init__("BOOLEAN")

    def fit(self, value: Any) -> bool:
        if type(value) is bool:
            return value
        if _is_whole(value) and value in (0, 1):
            return bool(value)
        raise Misfit(self, value)

    def text(self, value: Any) -> str:
        return "true" if value else "false"


class StringTypeInfo(BasicTypeInfo):
    """STRING."""

    exact = sure = str

    def __init__(self) -> None:
        super().__init__("STRING")

    def fit(self, value: Any) -> str:
        if not isinstance(value, str):
            raise Misfit(self, value)
        return value if type(value) is str else str.__str__(value)


class CharTypeInfo(BasicTypeInfo):
    """CHAR: text of one character."""

    def __init__(self) -> None:
        super().__init__("CHAR")

    def fit(self, value: Any) -> str:
        if not isinstance(value, str):
            raise Misfit(self, value)
        if len(value) != 1:
            raise Misfit(self, value, "not one character")
        return value if type(value) is str else str.__str__(value)


class DecimalTypeInfo(BasicTypeInfo):
    """BIG_DEC: decimal.Decimal.

    Elements and state keep all digits, so types with and without a precision are equal; formats of files ask `rounded`.

    Args:
        precision: how many digits a file's column has, where it is of such a type; None for no bound.
        scale: how many of them stand behind the point.
    """

    exact = sure = Decimal

    def __init__(self, precision: int | None = None, scale: int = 0) -> None:
        super().__init__("BIG_DEC")
        self.precision = precision
        self.scale = scale

    def rounded(self, value: Decimal) -> Decimal:
        """The value with as many digits behind the point as the column has; halves are rounded away from zero.

        Raises:
            ValueError: it has more digits than the column, or is no number.
        """
        if self.precision is None:
            return value
        if not value.is_finite():
            raise ValueError(f"{shown(value)} is not a number")
        if value.adjusted() + 1 > self.precision - self.scale and value:
            raise ValueError(self._too_long(value))
        found = value.quantize(Decimal((0, (1,), -self.scale)), ROUND_HALF_UP, _ROOM)
        if len(found.as_tuple().digits) > self.precision and found:  # 9.95 becomes 10.0
            raise ValueError(self._too_long(value))
        return found or abs(found)  # Java's decimals have no -0

    def _too_long(self, value: Decimal) -> str:
        return f"{shown(value)} has more digits than DECIMAL({self.precision}, {self.scale})"

    def fit(self, value: Any) -> Decimal:
        if isinstance(value, Decimal):
            return value if type(value) is Decimal else Decimal(value)
        if _is_whole(value):
            return Decimal(int(value))
        if isinstance(value, (float, np.floating)) and math.isfinite(value):
            return Decimal(str(value))  # the number that is shown, as in Flink
        if isinstance(value, str) and _DECIMAL.fullmatch(value):
            return Decimal(value)
        raise Misfit(self, value)

    def text(self, value: Any) -> str:
        return decimal_text(value)


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
    register_one(_type)
