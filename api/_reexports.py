"""Names that PyFlink's modules have besides their own: those that come from elsewhere, and why others are not here.

A module of PyFlink gives every name that it imports itself, and programs import names from wherever they found them first.
The modules here answer for them when they are asked, so that a re-export makes no cycle and loads nothing. The package of
the connectors gives its own names so, too: a program loads those connectors that it uses.
"""

from __future__ import annotations

import enum
import sys
import typing
from collections.abc import Sequence

from changelog_engine.config.names import names_of

API = "changelog_engine.api"

# PyFlink has them where they are, beside the other schemas and, in some versions, in its package.
ROW_SCHEMAS = {
    "datastream.formats.avro": "AvroRowDeserializationSchema AvroRowSerializationSchema",
    "datastream.formats.csv": "CsvRowDeserializationSchema CsvRowSerializationSchema",
    "datastream.formats.json": "JsonRowDeserializationSchema JsonRowSerializationSchema",
}

# Of each module, the names that it gives and the modules that have them, below the API's package. What a module imports for
# itself needs no line.
_FROM = {
    "common": {**ROW_SCHEMAS, "common.serializer": "TypeSerializer"},
    "common.execution_config": {"common.restart_strategy": "RestartStrategies"},
    "common.serialization": {
        **ROW_SCHEMAS,
        "common._bulk_writers": "BulkWriterFactory RowDataBulkWriterFactory",
    },
    "datastream.async_data_stream": {"common.typeinfo": "TypeInformation"},
    "datastream.connectors": {
        "datastream.connectors.base": "DeliveryGuarantee Sink Source",
        "datastream.connectors.delta": "DeltaSink DeltaSource",
        "datastream.connectors.file_system": (
            "BucketAssigner FileEnumeratorProvider FileSink FileSource FileSourceBuilder FileSplitAssignerProvider "
            "OutputFileConfig RollingPolicy StreamFormat StreamingFileSink"
        ),
        "datastream.connectors.jdbc": (
            "JdbcConnectionOptions JdbcExactlyOnceOptions JdbcExecutionOptions JdbcSink"
        ),
        "datastream.connectors.kafka": (
            "FlinkKafkaConsumer FlinkKafkaProducer KafkaOffsetResetStrategy KafkaOffsetsInitializer "
            "KafkaRecordDeserializationSchema KafkaRecordSerializationSchema KafkaSink KafkaSource "
            "KafkaTopicPartition KafkaTopicSelector Semantic"
        ),
        "datastream.connectors.number_seq": "NumberSequenceSource",
        "datastream.connectors.pulsar": (
            "PulsarDeserializationSchema PulsarSource PulsarSourceBuilder StartCursor StopCursor SubscriptionType"
        ),
        "datastream.connectors.rabbitmq": "RMQConnectionConfig RMQSink RMQSource",
    },
    "datastream.connectors.base": {"datastream.functions": "JavaFunctionWrapper"},
    "datastream.connectors.file_system": {
        "common.serialization": "Encoder",
        "common.time": "Duration",
        "datastream.connectors.base": "Sink Source",
        "datastream.functions": "SinkFunction",
    },
    "datastream.connectors.kafka": {
        "common.serialization": "DeserializationSchema SerializationSchema",
        "common.typeinfo": "TypeInformation Types",
        "common.types": "Row",
        "datastream.connectors._kafka_consumer": "FlinkKafkaConsumerBase",
        "datastream.connectors._kafka_producer": "FlinkKafkaProducerBase",
        "datastream.connectors.base": "DeliveryGuarantee Sink Source",
        "datastream.functions": "SinkFunction SourceFunction",
    },
    "datastream.connectors.pulsar": {
        "common.config_options": "ConfigOption ConfigOptions",
        "common.execution_config": "ExecutionConfig",
        "common.serialization": "DeserializationSchema SerializationSchema",
        "common.time": "Duration",
        "common.typeinfo": "TypeInformation",
        "datastream.connectors.base": "DeliveryGuarantee Sink Source",
    },
    "datastream.data_stream": {
        "common.typeinfo": "RowTypeInfo",
        "common.types": "Row",
        "common.watermark_strategy": "TimestampAssigner",
        "datastream.functions": "Function NullByteKeySelector RuntimeContext",
        "datastream.state": (
            "AggregatingStateDescriptor ListStateDescriptor ReducingState ReducingStateDescriptor "
            "StateDescriptor"
        ),
        "datastream.window": "CountWindowSerializer GlobalWindowSerializer TimeWindowSerializer",
    },
    "datastream.formats.avro": {
        "common.serialization": "BulkWriterFactory",
        "datastream.connectors.file_system": "InputFormat",
    },
    "datastream.formats.csv": {
        "common.serialization": "BulkWriterFactory RowDataBulkWriterFactory",
        "datastream.connectors.file_system": "StreamFormat",
    },
    "datastream.functions": {
        "datastream.broadcast_functions": "IN1 IN2",
        "datastream.state": (
            "AggregatingState AggregatingStateDescriptor BroadcastState ListState ListStateDescriptor "
            "MapState MapStateDescriptor ReadOnlyBroadcastState ReducingState ReducingStateDescriptor "
            "ValueState ValueStateDescriptor"
        ),
        "datastream.time_domain": "TimeDomain",
        "datastream.window_functions": "IN KEY OUT W W2",
        "metrics.metricbase": "MetricGroup",
    },
    "datastream.output_tag": {"common.typeinfo": "RowTypeInfo TypeInformation Types"},
    "datastream.state": {"common.time": "Duration Time", "common.typeinfo": "TypeInformation Types"},
    "datastream.stream_execution_environment": {
        "common.restart_strategy": "RestartStrategies",
        "common.typeinfo": "Types",
    },
    "datastream.window": {
        "common.constants": "MAX_LONG_VALUE MIN_LONG_VALUE",
        "common.serializer": "T TypeSerializer",
        "common.time": "Time",
        "common.typeinfo": "Types",
        "datastream.functions": "ReduceFunction RuntimeContext",
        "datastream.output_tag": "OutputTag",
        "datastream.state": "ReducingState ReducingStateDescriptor State StateDescriptor ValueStateDescriptor",
        "datastream.window_functions": "IN KEY OUT W W2",
        "metrics.metricbase": "MetricGroup",
    },
    "table": {"common.types": "Row RowKind"},
}

_JAVA = "reaches into Flink's Java process, and there is none here: use the classes of common and datastream"
_INSIDE = "is a part of PyFlink's own machinery, and programs need none: write the function, and give it to the stream"
_UNUSED = "is for values on their way to Java, and here they stay in Python"

_NOT_HERE = {
    _JAVA: """
        AssignerWithPeriodicWatermarksWrapper JavaClass JavaObject JavaObjectWrapper Py4JJavaError StreamTransformer
        SupportsPreprocessing add_jars_to_context_class_loader convert_py4j_exception create_hadoop_configuration
        create_java_properties from_j_duration from_j_flink_time get_field get_field_value get_gateway
        get_j_env_configuration get_java_class invoke_method is_instance_of is_local_deployment java_import
        load_java_class to_j_duration to_j_flink_time to_jarray
    """,
    _INSIDE: """
        AsyncFunctionDescriptor FunctionWrapper InternalIterableAllWindowFunction InternalIterableProcessAllWindowFunction
        InternalIterableProcessWindowFunction InternalIterableWindowFunction InternalProcessAllWindowContext
        InternalProcessWindowContext InternalSingleValueAllWindowFunction InternalSingleValueProcessAllWindowFunction
        InternalSingleValueProcessWindowFunction InternalSingleValueWindowFunction InternalWindowFunction Min
        PassThroughAllWindowFunction PassThroughWindowFunction Public ReduceFunctionWrapper WINDOW_STATE_NAME
        WindowOperationDescriptor long_to_int_with_bit_mixing mod_inverse
    """,
    _UNUSED: "VoidNamespaceSerializer convert_to_python_obj pickled_bytes_to_python_obj void",
    "is of PyFlink 1.12: use Encoder.simple_string_encoder()": "SimpleStringEncoder",
    "is not needed: let your schema have get_produced_type()": "ResultTypeQueryable",
    "is the type behind others, and programs never name it: use Types, such as Types.STRING()": "BasicType ExternalTypeInfo",
    "is of Java's dates: use Types.SQL_DATE(), SQL_TIME() or SQL_TIMESTAMP()": "LocalTimeTypeInfo",
    "is not part of this version: write with KinesisStreamsSink, and let Firehose read from that stream": (
        "KinesisFirehoseSink KinesisFirehoseSinkBuilder"
    ),
    "aligns Flink's subtasks, and here all of them read in the same epochs": "WatermarkTracker",
    "is what cache() would give: write the stream with a DeltaSink, and read it with a DeltaSource": "CachedDataStream",
}
_FEW_OF = {
    "abc": ("ABC", "ABCMeta", "abstractmethod"),
    "io": ("BytesIO",),
}  # modules of Python's that are not asked for more
_WHY = {name: why for why, names in _NOT_HERE.items() for name in names.split()}

# Of each module, the names that PyFlink's has of its own, and that are not here.
_NOT_IN = {
    "": "fn_execution ml shell testing util",
    "datastream.connectors": """
        DynamicKafkaSource DynamicKafkaSourceBuilder KafkaMetadataService KafkaStreamSetSubscriber KafkaStreamSubscriber
        SingleClusterTopicMetadataService StreamPatternSubscriber
    """,
    "datastream.connectors.kinesis": "KinesisFirehoseSink KinesisFirehoseSinkBuilder WatermarkTracker",
    "table": """
        AggregateFunction BatchTableEnvironment ChangelogMode CsvTableSink CsvTableSource DataView EnvironmentSettings
        ExplainDetail Expression FormatDescriptor FunctionContext GroupWindowedTable GroupedTable ListView MapView Module
        ModuleEntry OverWindowedTable ResultKind ScalarFunction Schema SqlDialect StatementSet StreamTableEnvironment Table
        TableAggregateFunction TableDescriptor TableEnvironment TableFunction TableResult TableSchema TableSink TableSource
        UserDefinedType WindowGroupedTable WriteMode
    """,
}

_TABLE = "is part of the Table API, which is not here: use DataStream's methods, or Spark SQL with env.from_spark()"
_MODULES = {
    "common.io": "wraps Java's input formats: those of files are in datastream.formats",
    "common.utils": "wraps Java's objects, and there are none here",
    "dataset": (
        "is a batch API that PyFlink has dropped: use DataStream's methods after "
        "env.set_runtime_mode(RuntimeExecutionMode.BATCH)"
    ),
    "datastream.utils": "takes values to Java and back; Types and Row are in common",
    "find_flink_home": _JAVA,
    "fn_execution": _INSIDE,
    "java_gateway": _JAVA,
    "ml": "is Flink ML, a library of its own on the Table API: use the model of a Python library in a function",
    "pyflink_gateway_server": _JAVA,
    "testing": "starts Flink for tests: the harnesses of changelog_engine.testing run functions and jobs without it",
    "util": "has PyFlink's ways into Java, and there is none here: set options by env.configure(Configuration())",
}


def elsewhere(module: str) -> dict[str, str]:
    """The names that a module gives from others, each with the module that has it."""
    found = _FROM.get(_below_api(module), {})
    return {name: f"{API}.{home}" for home, names in found.items() for name in names.split()}


def names_not_here(module: str) -> frozenset[str]:
    """The names that PyFlink's module of the same path has of its own, and that are not here."""
    return names_of(_NOT_IN.get(_below_api(module), ""))


def why_not(name: str) -> str | None:
    """Why a name that modules of PyFlink have is not here, as the end of a sentence that begins with it; None if unknown."""
    return _WHY.get(name)


def why_no_module(module: str) -> str | None:
    """As `why_not`, of a module, or of what is in one."""
    path = _below_api(module)
    top = path.partition(".")[0]
    return _TABLE if top == "table" else _MODULES.get(path) or _MODULES.get(top)


def pythons(name: str) -> str | None:
    """The import of what is Python's own, and PyFlink's modules imported for themselves, such as ``List`` of typing."""
    homes: dict[str, Sequence[str]] = {"typing": typing.__all__, "enum": enum.__all__, **_FEW_OF}
    home = next((home for home, names in homes.items() if name in names), None)
    if home is not None:
        return f"from {home} import {name}"
    return f"import {name}" if name in sys.stdlib_module_names else None


def _below_api(module: str) -> str:
    for top in (API, "pyflink", "api"):
        if module == top or module.startswith(f"{top}."):
            return module[len(top) + 1 :]
    return module
