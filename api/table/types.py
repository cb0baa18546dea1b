"""Data types, as the formats of files name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from changelog_engine.config.numbers import whole_number
from changelog_engine.errors import ArgumentTypeError, ConfigurationError
from changelog_engine.types import (
    DecimalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    RowTypeInfo,
    TypeInformation,
    Types,
)

from .._arguments import text, type_info


class Field(NamedTuple):
    """A field of a ROW data type; made by `DataTypes.FIELD`.

    Args:
        data_type: type of its values.
    """

    name: str
    data_type: TypeInformation


class DataTypes:
    """Makes data types. In this engine a data type is the type information of its values; all of them may be null.

    Example:
        >>> DataTypes.ROW([DataTypes.FIELD("id", DataTypes.BIGINT()), DataTypes.FIELD("name", DataTypes.STRING())])
        RowTypeInfo(id: Long, name: String)
    """

    @staticmethod
    def STRING(nullable: bool = True) -> TypeInformation:
        """Text."""
        return Types.STRING()

    @staticmethod
    def CHAR(length: int, nullable: bool = True) -> TypeInformation:
        """Text; the length is not checked."""
        return Types.STRING()

    VARCHAR = CHAR

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> TypeInformation:
        """True or false."""
        return Types.BOOLEAN()

    @staticmethod
    def TINYINT(nullable: bool = True) -> TypeInformation:
        """Whole numbers of 8 bits."""
        return Types.BYTE()

    @staticmethod
    def SMALLINT(nullable: bool = True) -> TypeInformation:
        """Whole numbers of 16 bits."""
        return Types.SHORT()

    @staticmethod
    def INT(nullable: bool = True) -> TypeInformation:
        """Whole numbers of 32 bits."""
        return Types.INT()

    @staticmethod
    def BIGINT(nullable: bool = True) -> TypeInformation:
        """Whole numbers of 64 bits."""
        return Types.LONG()

    @staticmethod
    def FLOAT(nullable: bool = True) -> TypeInformation:
        """Floating-point numbers of 32 bits."""
        return Types.FLOAT()

    @staticmethod
    def DOUBLE(nullable: bool = True) -> TypeInformation:
        """Floating-point numbers of 64 bits."""
        return Types.DOUBLE()

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> TypeInformation:
        """Exact numbers.

        Args:
            precision: digits in all, 1 to 38. More in CSV, Parquet or ORC is an error (Flink makes it null).
            scale: digits behind the point, at most `precision`. These formats round to as many, halves away from zero.

        Raises:
            ArgumentTypeError, ConfigurationError: no whole number, or out of these bounds.
        """
        digits = whole_number(precision, "DataTypes.DECIMAL: precision", 1, 38)
        return DecimalTypeInfo(digits, whole_number(scale, "DataTypes.DECIMAL: scale", 0, digits))

    @staticmethod
    def DATE(nullable: bool = True) -> TypeInformation:
        """Dates."""
        return Types.SQL_DATE()

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> TypeInformation:
        """Times of day."""
        return Types.SQL_TIME()

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> TypeInformation:
        """Dates with times, without zone."""
        return Types.SQL_TIMESTAMP()

    @staticmethod
    def TIMESTAMP_LTZ(precision: int = 6, nullable: bool = True) -> TypeInformation:
        """Points in time."""
        return Types.INSTANT()

    @staticmethod
    def BYTES(nullable: bool = True) -> TypeInformation:
        """Bytes."""
        return Types.PRIMITIVE_ARRAY(Types.BYTE())

    @staticmethod
    def BINARY(length: int, nullable: bool = True) -> TypeInformation:
        """Bytes; the length is not checked."""
        return DataTypes.BYTES()

    VARBINARY = BINARY

    @staticmethod
    def ARRAY(element_type: TypeInformation, nullable: bool = True) -> ListTypeInfo:
        """Lists."""
        return Types.LIST(_type(element_type, "DataTypes.ARRAY: element_type"))

    @staticmethod
    def MAP(key_type: TypeInformation, value_type: TypeInformation, nullable: bool = True) -> MapTypeInfo:
        """Maps."""
        return Types.MAP(
            _type(key_type, "DataTypes.MAP: key_type"), _type(value_type, "DataTypes.MAP: value_type")
        )

    @staticmethod
    def FIELD(name: str, data_type: TypeInformation, description: str | None = None) -> Field:
        """A field of `ROW`."""
        return Field(text(name, "DataTypes.FIELD: name"), _type(data_type, "DataTypes.FIELD: data_type"))

    @staticmethod
    def ROW(row_fields: Sequence[Field] = (), nullable: bool = True) -> RowTypeInfo:
        """Rows with named fields.

        Raises:
            ConfigurationError: something else than fields.
        """
        for field in row_fields:
            if not isinstance(field, Field):
                raise ArgumentTypeError(f"DataTypes.ROW needs fields made by DataTypes.FIELD, got {field!r}")
        return Types.ROW_NAMED([f.name for f in row_fields], [f.data_type for f in row_fields])


def _type(value: Any, what: str) -> TypeInformation:
    found = type_info(value, what)
    if found is None:
        raise ConfigurationError(f"{what} must be a type such as DataTypes.INT(), got None")
    return found
