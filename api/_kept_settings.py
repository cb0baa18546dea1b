"""The settings of PyFlink that are kept, given back by their getters, and change nothing here: the one table of them.

A setter is marked with `kept`, which finds its row by its name. docs/names.md has the table as its section "Stored
without effect"; ``run --check`` notes the calls in a script; a program's first call of each logs the reason at level INFO.

Invariant: a setter that is kept without effect is in the table, or its module cannot be imported.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from changelog_engine.api_names import refuse_other_names
from changelog_engine.config import Option, options, program_options, rocksdb_options

from ._differences import Difference, mark

refuse_other_names(__name__)
_LOG = logging.getLogger("changelog_engine")
_SECTION = "Stored without effect"
_said: set[str] = set()
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Kept:
    """Settings that change nothing here, for one reason.

    Args:
        owner: the class.
        members: names of its setters; or, where ``what`` is said, of arguments and constants, which are not calls of their
            own; separated by blanks.
        in_flink: what they do in PyFlink, as the end of a sentence that begins with their names.
        why: nothing comes of it here: a clause of its own.
        what: what the names are, where they are not setters.
        options: the same settings as options of a configuration.
    """

    owner: str
    members: str
    in_flink: str
    why: str
    what: str = ""
    options: tuple[Option, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of the members."""
        return self.members.split()

    def setters(self) -> list[str]:
        """The setters as ``Class.method``."""
        return [] if self.what else [f"{self.owner}.{name}" for name in self.names]


_EPOCHS_END_TOGETHER = "epochs end together, and nothing is aligned"
_AT_THE_END = "output leaves at the end of an epoch"
_ONE_TASK = "operators between two exchanges run in one task"
_ONE_CORE = "every subtask is a Spark task with one core"
_JAVA = "it is about Java's objects"
_NO_KRYO = "values are Python's, and are not written by Kryo"
_CHANGELOG_DECIDES = "the changelog decides: with it checkpoints hold changes only, without it all state"

KEPT = (
    Kept(
        "CheckpointConfig",
        "set_checkpointing_mode",
        "chooses whether elements may count twice after a failure",
        "state is exactly once in either mode",
        options=(options.CHECKPOINT_MODE,),
    ),
    Kept(
        "CheckpointConfig",
        "set_max_concurrent_checkpoints",
        "lets a checkpoint begin before the one before it is complete",
        "one checkpoint is under way at a time",
        options=(options.CHECKPOINT_MAX_CONCURRENT,),
    ),
    Kept(
        "CheckpointConfig",
        "enable_unaligned_checkpoints disable_unaligned_checkpoints set_force_unaligned_checkpoints "
        "set_aligned_checkpoint_timeout set_alignment_timeout",
        "lets barriers overtake elements",
        _EPOCHS_END_TOGETHER,
        options=(options.UNALIGNED, options.UNALIGNED_FORCED, options.ALIGNMENT_TIMEOUT),
    ),
    Kept(
        "ExternalizedCheckpointCleanup",
        "RETAIN_ON_CANCELLATION NO_EXTERNALIZED_CHECKPOINTS",
        "chooses whether a cancelled job keeps its checkpoints",
        "checkpoints stay in both cases",
        what="members",
    ),
    Kept(
        "FileSystemCheckpointStorage",
        "file_state_size_threshold write_buffer_size",
        "says how small state becomes part of the metadata, and how writes are buffered",
        "files are as large as what was changed",
        what="arguments",
    ),
    Kept(
        "FsStateBackend",
        "file_state_size_threshold write_buffer_size using_asynchronous_snapshots",
        "as for `FileSystemCheckpointStorage`, and whether elements are processed while a snapshot is written",
        "files are as large as what was changed, and are written at the end of an epoch",
        what="arguments",
    ),
    Kept(
        "MemoryStateBackend",
        "using_asynchronous_snapshots",
        "says whether elements are processed while a snapshot is written",
        "a snapshot is written at the end of an epoch",
        what="argument",
    ),
    Kept(
        "EmbeddedRocksDBStateBackend",
        "enable_incremental_checkpointing",
        "lets checkpoints hold RocksDB's new files only",
        _CHANGELOG_DECIDES,
        what="argument",
    ),
    Kept(
        "RocksDBStateBackend",
        "enable_incremental_checkpointing",
        "lets checkpoints hold RocksDB's new files only",
        _CHANGELOG_DECIDES,
        what="argument",
    ),
    Kept(
        "EmbeddedRocksDBStateBackend",
        "set_number_of_transfer_threads",
        "says how many threads move RocksDB's files",
        "no file of RocksDB is part of a checkpoint",
        options=(rocksdb_options.TRANSFER_THREADS,),
    ),
    Kept(
        "RocksDBStateBackend",
        "set_number_of_transfering_threads",
        "says how many threads move RocksDB's files",
        "no file of RocksDB is part of a checkpoint",
    ),
    Kept(
        "StreamExecutionEnvironment",
        "set_buffer_timeout",
        "bounds how long output waits for its buffer to be full",
        _AT_THE_END,
        options=(program_options.BUFFER_TIMEOUT, program_options.BUFFER_TIMEOUT_ENABLED),
    ),
    Kept(
        "StreamExecutionEnvironment",
        "disable_operator_chaining",
        "gives each operator a task of its own",
        _ONE_TASK,
        options=(program_options.OPERATOR_CHAINING, program_options.CHAINING_OF_DIFFERENT_MAX_PARALLELISM),
    ),
    Kept(
        "StreamExecutionEnvironment",
        "set_stream_time_characteristic",
        "chooses whether windows go by event time",
        "event time is always on; timers and windows name the time that they mean",
    ),
    Kept(
        "StreamExecutionEnvironment",
        "register_slot_sharing_group",
        "says which resources a group of operators gets",
        _ONE_CORE,
    ),
    Kept(
        "StreamExecutionEnvironment",
        "register_type register_type_with_kryo_serializer add_default_kryo_serializer",
        "tells Kryo of a Java class",
        _NO_KRYO,
    ),
    Kept(
        "DataStream",
        "set_buffer_timeout",
        "bounds how long the operator's output waits for its buffer to be full",
        _AT_THE_END,
    ),
    Kept("DataStream", "slot_sharing_group", "says which operators share slots", _ONE_CORE),
    Kept("DataStreamSink", "disable_chaining", "gives the sink a task of its own", _ONE_TASK),
    Kept("DataStreamSink", "slot_sharing_group", "says which operators share slots", _ONE_CORE),
    Kept(
        "ExecutionConfig",
        "set_auto_watermark_interval",
        "says how often periodic watermarks come",
        "watermarks come with the end of each epoch or, with 0, not before the end of the input",
        options=(options.AUTO_WATERMARK_INTERVAL,),
    ),
    Kept(
        "ExecutionConfig",
        "enable_closure_cleaner disable_closure_cleaner enable_force_kryo disable_force_kryo enable_force_avro "
        "disable_force_avro enable_generic_types disable_generic_types disable_auto_type_registration",
        "says how Java's functions and values are serialized",
        _JAVA,
        options=(
            program_options.CLOSURE_CLEANER_LEVEL,
            program_options.FORCE_KRYO,
            program_options.FORCE_AVRO,
            program_options.GENERIC_TYPES,
            program_options.AUTO_TYPE_REGISTRATION,
        ),
    ),
    Kept(
        "ExecutionConfig",
        "add_default_kryo_serializer register_type_with_kryo_serializer register_pojo_type register_kryo_type",
        "tells Kryo of a Java class",
        _NO_KRYO,
    ),
    Kept(
        "ExecutionConfig",
        "set_use_snapshot_compression",
        "chooses whether snapshots are compressed",
        "files are always compressed",
        options=(program_options.SNAPSHOT_COMPRESSION,),
    ),
    Kept(
        "ExecutionConfig",
        "set_latency_tracking_interval",
        "lets sources emit markers that measure the way to the sinks",
        "the engine sends no latency markers",
        options=(program_options.LATENCY_INTERVAL,),
    ),
    Kept(
        "ExecutionConfig",
        "set_task_cancellation_interval set_task_cancellation_timeout",
        "says how long Flink tries to end a task",
        "Spark ends tasks",
        options=(program_options.TASK_CANCELLATION_INTERVAL, program_options.TASK_CANCELLATION_TIMEOUT),
    ),
    Kept(
        "ExecutionConfig",
        "set_execution_mode",
        "chooses whether exchanges are pipelined",
        "exchanges are those of epochs",
    ),
    Kept(
        "ElasticsearchSinkBuilderBase",
        "set_connection_request_timeout",
        "bounds how long a request waits for a connection of the pool",
        "a writer has one connection, which is always free",
    ),
    Kept(
        "FlinkKinesisConsumer",
        "set_shard_assigner",
        "chooses which subtask reads which shard",
        "the engine spreads shards evenly",
    ),
    Kept(
        "KinesisStreamsSinkBuilder",
        "set_max_in_flight_requests",
        "says how many requests are under way at once",
        "one is, which keeps the order of records",
    ),
    Kept(
        "KinesisStreamsSinkBuilder",
        "set_max_buffered_requests",
        "says how many records wait before a writer blocks",
        "a writer sends a request as soon as it is full",
    ),
    Kept(
        "JdbcConnectionOptions.JdbcConnectionOptionsBuilder",
        "with_driver_name",
        "names the class of the Java driver",
        "the URL says which Python driver it is",
    ),
    Kept(
        "RMQConnectionConfig.Builder",
        "set_topology_recovery_enabled",
        "lets a client make its consumers again when a lost connection is back",
        "the job's next attempt begins its consumer anew in any case",
    ),
    Kept(
        "PulsarSinkBuilder",
        "set_admin_url",
        "says where the brokers' HTTP service is",
        "a sink has nothing to ask there",
    ),
    Kept(
        "ExecutionConfig",
        "set_default_input_dependency_constraint",
        "says which inputs a task waits for before it is scheduled",
        "a stage begins when its inputs are there",
    ),
    Kept(
        "WatermarkStrategy",
        "with_watermark_alignment",
        "holds back sources whose event time is ahead",
        "each epoch reads from every source, and what waits for the watermark of a slower one is kept in state",
    ),
)
_ROWS = {setter: row for row in KEPT for setter in row.setters()}


def kept(function: F) -> F:
    """Mark a setter whose value is kept and given back, and changes nothing; the first call of it says why."""
    name = function.__qualname__
    why = _ROWS[name].why

    @functools.wraps(function)
    def setter(*arguments: Any, **named: Any) -> Any:
        if name not in _said:
            _said.add(name)
            _LOG.info("%s is kept without effect: %s", name, why)
        return function(*arguments, **named)

    difference = Difference(f"is kept without effect: {why}", _SECTION, matters=False)
    return mark(difference)(cast(F, setter))
