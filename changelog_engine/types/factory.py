"""The factory that users write types with: ``Types.TUPLE([Types.STRING(), Types.INT()])``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from changelog_engine.config.names import writable
from changelog_engine.errors import ArgumentTypeError
from changelog_engine.types import basic, pickled, temporal
from changelog_engine.types.arrays import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
)
from changelog_engine.types.composite import RowTypeInfo, TupleTypeInfo
from changelog_engine.types.typeinfo import TypeInformation, not_a_type, shown


class Types:
    """Type information of everything a stream, key or state can be declared to hold.

    Values are None or what each method names.

    Example:
        >>> Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()]).check((1, "one"))
        Row(id=1, name='one')
    """

    @staticmethod
    def STRING() -> TypeInformation:
        """Type of text; values are str.

        Example:
            >>> Types.STRING().check("a")
            'a'
        """
        return basic.STRING

    @staticmethod
    def BYTE() -> TypeInformation:
        """Type of integers of 8 bits, -128 to 127; values are int.

        Example:
            >>> Types.BYTE().check(-128)
            -128
        """
        return basic.BYTE

    @staticmethod
    def SHORT() -> TypeInformation:
        """Type of integers of 16 bits, -32768 to 32767; values are int.

        Example:
            >>> Types.SHORT().check(7)
            7
        """
        return basic.SHORT

    @staticmethod
    def INT() -> TypeInformation:
        """Type of integers of 32 bits; values are int.

        Example:
            >>> Types.INT().check(7)
            7
        """
        return basic.INT

    @staticmethod
    def LONG() -> TypeInformation:
        """Type of integers of 64 bits; values are int.

        Example:
            >>> Types.LONG().check(2**63 - 1)
            9223372036854775807
        """
        return basic.LONG

    @staticmethod
    def BIG_INT() -> TypeInformation:
        """Type of integers of any size; values are int.

        Example:
            >>> Types.BIG_INT().check(2**70)
            1180591620717411303424
        """
        return basic.BIG_INT

    @staticmethod
    def FLOAT() -> TypeInformation:
        """Type of floating point numbers of 32 bits; values are rounded to them; values are float.

        Example:
            >>> Types.FLOAT().check(0.5)
            0.5
        """
        return basic.FLOAT

    @staticmethod
    def DOUBLE() -> TypeInformation:
        """Type of floating point numbers of 64 bits; values are float.

        Example:
            >>> Types.DOUBLE().check(0.1)
            0.1
        """
        return basic.DOUBLE

    @staticmethod
    def BIG_DEC() -> TypeInformation:
        """Type of decimal numbers of any size; values are decimal.Decimal.

        Example:
            >>> from decimal import Decimal
            >>> Types.BIG_DEC().format(Decimal("7.50"))
            '7.50'
        """
        return basic.BIG_DEC

    @staticmethod
    def BOOLEAN() -> TypeInformation:
        """Type of truth values; values are bool.

        Example:
            >>> Types.BOOLEAN().check(True)
            True
        """
        return basic.BOOLEAN

    @staticmethod
    def CHAR() -> TypeInformation:
        """Type of single characters; values are str of length 1.

        Example:
            >>> Types.CHAR().check("x")
            'x'
        """
        return basic.CHAR

    @staticmethod
    def SQL_DATE() -> TypeInformation:
        """Type of dates; values are datetime.date.

        Example:
            >>> Types.SQL_DATE().name
            'SQL_DATE'
        """
        return temporal.SQL_DATE

    @staticmethod
    def SQL_TIME() -> TypeInformation:
        """Type of times of day; values are datetime.time.

        Example:
            >>> Types.SQL_TIME().name
            'SQL_TIME'
        """
        return temporal.SQL_TIME

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation:
        """Type of dates with time; values are datetime.datetime.

        Example:
            >>> Types.SQL_TIMESTAMP().name
            'SQL_TIMESTAMP'
        """
        return temporal.SQL_TIMESTAMP

    @staticmethod
    def INSTANT() -> TypeInformation:
        """Type of points in time with nanoseconds; values are Instant.

        Example:
            >>> Types.INSTANT().name
            'INSTANT'
        """
        return temporal.INSTANT

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:
        """Type of any Python object; what undeclared streams carry.

        Example:
            >>> Types.PICKLED_BYTE_ARRAY().check({1: "a"})
            {1: 'a'}
        """
        return pickled.PICKLED_BYTE_ARRAY

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> PrimitiveArrayTypeInfo:
        """Type of arrays of primitive numbers; values are lists, for BYTE they are bytes.

        Args:
            element_type: BOOLEAN, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE or CHAR.

        Raises:
            TypeMismatchError: another element type.

        Example:
            >>> Types.PRIMITIVE_ARRAY(Types.BYTE()).check(b"a")
            b'a'
        """
        return PrimitiveArrayTypeInfo(_type(element_type, "PRIMITIVE_ARRAY"))

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> BasicArrayTypeInfo:
        """Type of arrays of boxed numbers or text; values are lists, None inside allowed.

        Args:
            element_type: a primitive type or STRING.

        Raises:
            TypeMismatchError: another element type.

        Example:
            >>> Types.BASIC_ARRAY(Types.INT()).check([1, None])
            [1, None]
        """
        return BasicArrayTypeInfo(_type(element_type, "BASIC_ARRAY"))

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> ObjectArrayTypeInfo:
        """Type of arrays of anything; values are lists.

        Example:
            >>> Types.OBJECT_ARRAY(Types.STRING())
            Types.OBJECT_ARRAY(Types.STRING())
        """
        return ObjectArrayTypeInfo(_type(element_type, "OBJECT_ARRAY"))

    @staticmethod
    def LIST(element_type_info: TypeInformation) -> ListTypeInfo:
        """Type of lists of values of any type.

        Example:
            >>> Types.LIST(Types.INT()).format([1, 2])
            '[1, 2]'
        """
        return ListTypeInfo(_type(element_type_info, "LIST"))

    @staticmethod
    def MAP(key_type_info: TypeInformation, value_type_info: TypeInformation) -> MapTypeInfo:
        """Type of dicts.

        Example:
            >>> Types.MAP(Types.STRING(), Types.INT()).format({"k": 7})
            '{k=7}'
        """
        return MapTypeInfo(_type(key_type_info, "MAP"), _type(value_type_info, "MAP"))

    @staticmethod
    def TUPLE(field_types: Sequence[TypeInformation]) -> TupleTypeInfo:
        """Type of tuples whose fields have these types, in order.

        Example:
            >>> Types.TUPLE([Types.STRING(), Types.DOUBLE()]).format(("a", 1e20))
            '(a,1.0E20)'
        """
        return TupleTypeInfo(_types(field_types, "TUPLE"))

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """Type of rows whose fields are named f0, f1 and so on; values are Row.

        Example:
            >>> Types.ROW([Types.DOUBLE(), Types.BOOLEAN()]).check((1.5, True))
            Row(f0=1.5, f1=True)
        """
        return RowTypeInfo(_types(field_types, "ROW"))

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """Type of rows with named fields; values are Row.

        Raises:
            ArgumentTypeError: names that are not str.
            TypeMismatchError: names that repeat, or not one for each type.

        Example:
            >>> Types.ROW_NAMED(["id"], [Types.INT()]).get_field_names()
            ['id']
        """
        return RowTypeInfo(_types(field_types, "ROW_NAMED"), _names(field_names))


def _type(given: object, method: str) -> TypeInformation:
    """A type as it was given.

    Raises:
        ArgumentTypeError: it is something else, such as ``Types.INT`` without its parentheses.
    """
    if not isinstance(given, TypeInformation):
        raise ArgumentTypeError(f"Types.{method} needs types such as Types.STRING(), {not_a_type(given)}")
    return given


def _types(given: object, method: str) -> list[TypeInformation]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ArgumentTypeError(
            f"Types.{method} needs a list of types such as [Types.STRING()], got {given!r}"
        )
    return [_type(each, method) for each in given]


def _names(given: object) -> list[str]:
    if not isinstance(given, Iterable) or not all(isinstance(each, str) for each in given):
        raise ArgumentTypeError(f"Types.ROW_NAMED needs a list of names such as ['id'], got {shown(given)}")
    return [writable(each, "Types.ROW_NAMED: the field name") for each in given]
