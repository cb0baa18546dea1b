"""Sources and sinks.

Source: pyflink.datastream.connectors
"""

from api._unsupported import module_getattr
from api.datastream.connectors.base import Sink, Source
from api.datastream.connectors.file_system import FileSource, FileSourceBuilder, StreamFormat
from api.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcExecutionOptions,
    JdbcSink,
)
from api.datastream.connectors.number_seq import NumberSequenceSource

__all__ = [
    "FileSource",
    "FileSourceBuilder",
    "JdbcConnectionOptions",
    "JdbcExactlyOnceOptions",
    "JdbcExecutionOptions",
    "JdbcSink",
    "NumberSequenceSource",
    "Sink",
    "Source",
    "StreamFormat",
]

__getattr__ = module_getattr(
    __name__,
    {
        "BucketAssigner",
        "DeliveryGuarantee",
        "FileEnumeratorProvider",
        "FileSink",
        "FileSplitAssignerProvider",
        "FlinkKafkaConsumer",
        "FlinkKafkaProducer",
        "KafkaSink",
        "KafkaSource",
        "OutputFileConfig",
        "RollingPolicy",
        "Semantic",
        "StreamingFileSink",
    },
)
