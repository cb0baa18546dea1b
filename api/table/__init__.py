"""The Table API is not part of this engine; here is what programs of streams name."""

from .table_config import TableConfig
from .types import DataTypes

__all__ = ["DataTypes", "TableConfig"]
