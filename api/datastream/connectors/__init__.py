"""Sources and sinks. The modules that have them are loaded when a program asks for one of theirs (`_reexports`)."""

import typing

if typing.TYPE_CHECKING:
    from .base import DeliveryGuarantee, Sink, Source
    from .delta import DeltaSink, DeltaSource
    from .file_system import (
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
    from .jdbc import JdbcConnectionOptions, JdbcExactlyOnceOptions, JdbcExecutionOptions, JdbcSink
    from .kafka import (
        FlinkKafkaConsumer,
        FlinkKafkaProducer,
        KafkaOffsetResetStrategy,
        KafkaOffsetsInitializer,
        KafkaRecordSerializationSchema,
        KafkaSink,
        KafkaSource,
        KafkaTopicPartition,
        KafkaTopicSelector,
        Semantic,
    )
    from .number_seq import NumberSequenceSource
    from .rabbitmq import RMQConnectionConfig, RMQSink, RMQSource

__all__ = [
    "BucketAssigner",
    "DeliveryGuarantee",
    "DeltaSink",
    "DeltaSource",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "FlinkKafkaConsumer",
    "FlinkKafkaProducer",
    "JdbcConnectionOptions",
    "JdbcExactlyOnceOptions",
    "JdbcExecutionOptions",
    "JdbcSink",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecordSerializationSchema",
    "KafkaSink",
    "KafkaSource",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "NumberSequenceSource",
    "OutputFileConfig",
    "RMQConnectionConfig",
    "RMQSink",
    "RMQSource",
    "RollingPolicy",
    "Semantic",
    "Sink",
    "Source",
    "StreamFormat",
    "StreamingFileSink",
]
