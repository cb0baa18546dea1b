"""The Table API is not part of this engine; here is what programs of streams name.

Source: pyflink.table
"""

from api._unsupported import module_getattr
from api.table.table_config import TableConfig
from api.table.types import DataTypes

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
        "Row",
        "RowKind",
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
