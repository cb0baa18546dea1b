"""The Table API is not part of this engine; here is the one class that programs of streams name.

Source: pyflink.table
"""

from api._unsupported import module_getattr
from api.table.table_config import TableConfig

__all__ = ["TableConfig"]

__getattr__ = module_getattr(
    __name__,
    {
        "BatchTableEnvironment",
        "CsvTableSink",
        "CsvTableSource",
        "DataTypes",
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
