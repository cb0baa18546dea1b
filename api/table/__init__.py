"""The Table API is not part of this engine; here is what programs of streams name."""

from .._unsupported import module_getattr
from .table_config import TableConfig
from .types import DataTypes

__all__ = ["DataTypes", "TableConfig"]

__getattr__ = module_getattr(
    __name__,
    {
        "AggregateFunction",
        "BatchTableEnvironment",
        "ChangelogMode",
        "CsvTableSink",
        "CsvTableSource",
        "DataView",
        "EnvironmentSettings",
        "ExplainDetail",
        "Expression",
        "FormatDescriptor",
        "FunctionContext",
        "GroupWindowedTable",
        "GroupedTable",
        "ListView",
        "MapView",
        "Module",
        "ModuleEntry",
        "OverWindowedTable",
        "ResultKind",
        "ScalarFunction",
        "Schema",
        "SqlDialect",
        "StatementSet",
        "StreamTableEnvironment",
        "Table",
        "TableAggregateFunction",
        "TableDescriptor",
        "TableEnvironment",
        "TableFunction",
        "TableResult",
        "TableSchema",
        "TableSink",
        "TableSource",
        "UserDefinedType",
        "WindowGroupedTable",
        "WriteMode",
    },
)
