"""Streams: environment, streams, functions, checkpoints.

Source: pyflink.datastream
"""

from api._unsupported import module_getattr
from api.datastream import _bindings
from api.datastream.broadcast_streams import BroadcastConnectedStream, BroadcastStream
from api.datastream.checkpoint_config import CheckpointConfig, ExternalizedCheckpointCleanup
from api.datastream.checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from api.datastream.checkpointing_mode import CheckpointingMode
from api.datastream.closeable_iterator import CloseableIterator
from api.datastream.connected_streams import ConnectedStreams
from api.datastream.data_stream import DataStream
from api.datastream.data_stream_sink import DataStreamSink
from api.datastream.execution_mode import RuntimeExecutionMode
from api.datastream.functions import (
    AggregateFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
    SinkFunction,
    SourceFunction,
)
from api.datastream.keyed_stream import KeyedStream
from api.datastream.output_tag import OutputTag
from api.datastream.slot_sharing_group import MemorySize, SlotSharingGroup
from api.datastream.state_backend import HashMapStateBackend, StateBackend
from api.datastream.stream_execution_environment import StreamExecutionEnvironment
from api.datastream.time_characteristic import TimeCharacteristic
from api.datastream.time_domain import TimeDomain
from api.datastream.timerservice import TimerService

__all__ = [
    "AggregateFunction",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastStream",
    "CheckpointConfig",
    "CheckpointStorage",
    "CheckpointingMode",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "ExternalizedCheckpointCleanup",
    "FileSystemCheckpointStorage",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "HashMapStateBackend",
    "JobManagerCheckpointStorage",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "MapFunction",
    "MemorySize",
    "OutputTag",
    "Partitioner",
    "ProcessFunction",
    "ReduceFunction",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SinkFunction",
    "SlotSharingGroup",
    "SourceFunction",
    "StateBackend",
    "StreamExecutionEnvironment",
    "TimeCharacteristic",
    "TimeDomain",
    "TimerService",
]

_bindings.register()

__getattr__ = module_getattr(
    __name__,
    {
        "AllWindowedStream",
        "CountTumblingWindowAssigner",
        "CountWindow",
        "CustomCheckpointStorage",
        "CustomStateBackend",
        "EmbeddedRocksDBStateBackend",
        "FsStateBackend",
        "MemoryStateBackend",
        "MergingWindowAssigner",
        "PredefinedOptions",
        "ProcessAllWindowFunction",
        "ProcessWindowFunction",
        "RocksDBStateBackend",
        "StateTtlConfig",
        "TimeWindow",
        "Trigger",
        "TriggerResult",
        "Window",
        "WindowAssigner",
        "WindowFunction",
        "WindowedStream",
    },
)
