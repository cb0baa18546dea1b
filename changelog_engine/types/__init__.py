"""Declared types of elements, keys and state, and the Row they are made of. Re-exports only."""

from changelog_engine.types.arrays import (
    BasicArrayTypeInfo,
    ElementsTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
)
from changelog_engine.types.basic import BasicTypeInfo, DecimalTypeInfo, IntegerTypeInfo
from changelog_engine.types.composite import RowTypeInfo, TupleTypeInfo
from changelog_engine.types.factory import Types
from changelog_engine.types.instant import Instant
from changelog_engine.types.java_members import JavaMembers
from changelog_engine.types.pickled import PickledBytesTypeInfo
from changelog_engine.types.row import Row, RowKind
from changelog_engine.types.temporal import (
    DateTypeInfo,
    InstantTypeInfo,
    SqlTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)
from changelog_engine.types.typeinfo import TypeInformation, type_from_spec, type_of

__all__ = [
    "BasicArrayTypeInfo",
    "BasicTypeInfo",
    "DateTypeInfo",
    "DecimalTypeInfo",
    "ElementsTypeInfo",
    "Instant",
    "InstantTypeInfo",
    "IntegerTypeInfo",
    "JavaMembers",
    "ListTypeInfo",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "Row",
    "RowKind",
    "RowTypeInfo",
    "SqlTimeTypeInfo",
    "TimeTypeInfo",
    "TimestampTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
    "type_from_spec",
    "type_of",
]
