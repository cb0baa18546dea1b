"""Sources and sinks.

Source: pyflink.datastream.connectors
"""

from api._unsupported import module_getattr
from api.datastream.connectors.base import Sink, Source
from api.datastream.connectors.file_system import (
    BucketAssigner,
    FileEnumeratorProvider,
    FileSink,
    FileSource,
    FileSourceBuilder,
    FileSplitAssignerProvider,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
    StreamingFileSink,
)
from api.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcExecutionOptions,
    JdbcSink,
)
from api.datastream.connectors.number_seq import NumberSequenceSource

__all__ = [
    "BucketAssigner",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "JdbcConnectionOptions",
    "JdbcExactlyOnceOptions",
    "JdbcExecutionOptions",
    "JdbcSink",
    "NumberSequenceSource",
    "OutputFileConfig",
    "RollingPolicy",
    "Sink",
    "Source",
    "StreamFormat",
    "StreamingFileSink",
]

__getattr__ = module_getattr(
    __name__,
    {
        "DeliveryGuarantee",
        "FlinkKafkaConsumer",
        "FlinkKafkaProducer",
        "KafkaSink",
        "KafkaSource",
        "Semantic",
    },
)
