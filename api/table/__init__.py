"""The Table API is not part of this engine; here is what programs of streams name.

Source: pyflink.table
"""

from .._unsupported import module_getattr
from .table_config import TableConfig
from .types import DataTypes

__all__ = ["DataTypes", "TableConfig"]

__getattr__ = module_getattr(
    __name__,
    {
        "BatchTableEnvironment",
        "CsvTableSink",
        "CsvTableSource",
        "EnvironmentSettings",
        "Expression",
        "FormatDescriptor",
        "GroupedTable",
        "Module",
        "ResultKind",
        "ScalarFunction",
        "Schema",
        "SqlDialect",
        "StatementSet",
        "StreamTableEnvironment",
        "Table",
        "TableDescriptor",
        "TableEnvironment",
        "TableFunction",
        "TableResult",
        "TableSchema",
        "UserDefinedType",
        "WindowGroupedTable",
    },
)
