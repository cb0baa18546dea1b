"""The user's job as frozen data: what `api` builds and the engine plans from.

Invariants:
    * Building a graph runs nothing and imports neither Spark nor Delta.
    * A node's inputs have smaller ids than the node: the list of nodes is in topological order.
    * ``uid`` is set by the user or None; the planner gives every node its stable id.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, fields
from typing import Any

from changelog_engine.config import Option, observing_options, options, program_options
from changelog_engine.errors import InvalidJobError
from changelog_engine.graph.files import JobFiles
from changelog_engine.types import TypeInformation

StateId = tuple[str, str]
"""The uid of an operator and the name of its state; of timers, the name of the state that their log has."""

NO_KEY = b"\0"
"""The key of all elements in ``window_all``, as in Flink; messages do not name it."""


class NodeKind(enum.Enum):
    """What a node does with the elements it gets."""

    SOURCE = "source"  # function: a connectors.Source
    MAP = "map"  # function: object with map(value)
    FLAT_MAP = "flat_map"  # function: object with flat_map(value)
    FILTER = "filter"  # function: object with filter(value)
    PROCESS = "process"  # function: object with process_element(value, ctx)
    REDUCE = "reduce"  # keyed; function: object with reduce(value1, value2)
    TIMESTAMPS = "timestamps"  # function: a WatermarkSpec
    WINDOW = "window"  # keyed; function: a windowing.WindowSpec
    CO_MAP = "co_map"  # two inputs, both keyed or neither; function: object with map1(value), map2(value)
    CO_FLAT_MAP = "co_flat_map"  # as CO_MAP, with flat_map1(value), flat_map2(value)
    CO_PROCESS = "co_process"  # as CO_MAP, with process_element1(value, ctx), process_element2(value, ctx)
    ASYNC = "async"  # function: an AsyncSpec
    BROADCAST_PROCESS = "broadcast_process"  # two inputs, the second one broadcast; function: a BroadcastSpec
    KEY_BY = "key_by"  # function: callable value -> key; key_type
    PARTITION = "partition"  # function: a PartitionSpec
    SIDE_OUTPUT = "side_output"  # function: id of the tag whose elements it takes from its input
    UNION = "union"  # several inputs
    SINK = "sink"  # function: a connectors.Sink


TWO_INPUTS = frozenset(
    {NodeKind.CO_MAP, NodeKind.CO_FLAT_MAP, NodeKind.CO_PROCESS, NodeKind.BROADCAST_PROCESS}
)


class Partitioner(enum.Enum):
    """How an exchange chooses the receiving subtask."""

    HASH = "hash"  # by key group
    FORWARD = "forward"  # subtask i to subtask i
    REBALANCE = "rebalance"  # evenly, in turn, over all
    RESCALE = "rescale"  # evenly, in turn, over those nearest to the sender
    SHUFFLE = "shuffle"  # at random, evenly
    BROADCAST = "broadcast"  # to all
    GLOBAL = "global"  # to the first
    CUSTOM = "custom"  # as the user's function says


@dataclass(frozen=True)
class PartitionSpec:
    """How a stream is to be partitioned."""

    partitioner: Partitioner  # which way; HASH is said by KEY_BY instead
    custom: Any = None  # for CUSTOM, a callable (key, number of partitions) -> partition
    key_selector: Any = None  # for CUSTOM, a callable value -> key


@dataclass(frozen=True)
class BroadcastSpec:
    """A function over a stream and a broadcast stream.

    Args:
        function: object with process_element(value, ctx) and process_broadcast_element(value, ctx); on_timer(timestamp,
            ctx) too when the stream is keyed.
        states: the broadcast states it may use, each a map.
    """

    function: Any
    states: tuple[StateSpec, ...]


@dataclass(frozen=True)
class AsyncSpec:
    """A function that asks an outside system by coroutines, many elements at a time.

    Args:
        function: object with the coroutine ``async_invoke(value)`` and with ``timeout(value)``, which give lists of results.
        timeout_ms: how long an element may take, retries included; 0 or less for ever.
        capacity: how many elements may be under way in a subtask.
        retry: object with ``can_retry(attempts)``, ``get_backoff_time_millis(attempts)`` and ``get_retry_predicate()``;
            None for no retries.
        ordered: results come in the order of the elements; else as they are there, but never past a watermark.
    """

    function: Any
    timeout_ms: int
    capacity: int
    retry: Any | None
    ordered: bool


@dataclass(frozen=True)
class WatermarkSpec:
    """Timestamps and periodic watermarks of a stream.

    Args:
        assigner: object with ``extract_timestamp(value, record_timestamp) -> int`` in ms, or None to keep timestamps.
        out_of_orderness_ms: how far the watermark lags behind the largest timestamp; None emits no watermarks before
            the end of the input.
        idle_timeout_ms: None, or after how long without elements a channel no longer holds the watermark back.
        in_from_source: whether ``from_source`` was given them, where PyFlink calls no assigner.
    """

    assigner: Any | None
    out_of_orderness_ms: int | None
    idle_timeout_ms: int | None = None
    in_from_source: bool = False


@dataclass(frozen=True)
class Given:
    """A function as it was when the program gave it."""

    function: Any  # which; a node that was given another one since is pickled when the job starts
    pickled: bytes


@dataclass(frozen=True)
class Node:
    """One operator of the user's graph.

    Args:
        inputs: ids of the nodes it reads.
        function: the user's function, opened once in every subtask; see NodeKind.
        output_type: declared type of its elements; None for undeclared (pickled).
        uid: the user's stable id.
        parallelism: None follows the input (sources: the job's default).
        max_parallelism: None follows the job's.
        key_type: for KEY_BY, the declared type of the keys.
        given: the function as it was when the program gave it; None where it is pickled when the job starts.
        named: whether the name is the user's own, and not that of its kind.
        made_at: the program's file and line that asked for it, for messages.
        begins_chain: what reaches it has its declared type, though a function gave it in the same task.
    """

    id: int
    kind: NodeKind
    name: str
    inputs: tuple[int, ...] = ()
    function: Any = None
    output_type: TypeInformation | None = None
    uid: str | None = None
    parallelism: int | None = None
    max_parallelism: int | None = None
    key_type: TypeInformation | None = None
    given: Given | None = None
    named: bool = False
    made_at: str | None = field(default=None, compare=False)
    begins_chain: bool = False

    @property
    def label(self) -> str:
        """What messages call it: the user's name; else the uid, which the console takes, too; else its kind's name."""
        return self.name if self.named or self.uid is None else self.uid


@dataclass(frozen=True)
class JobGraph:
    """A job: its name, its operators, and the defaults of those that do not say."""

    name: str
    nodes: tuple[Node, ...]
    parallelism: int
    max_parallelism: int | None = None

    def by_id(self) -> dict[int, Node]:
        return {node.id: node for node in self.nodes}


class RestartKind(enum.Enum):
    """Flink's restart strategies."""

    NONE = "none"
    FIXED_DELAY = "fixed-delay"
    FAILURE_RATE = "failure-rate"
    EXPONENTIAL_DELAY = "exponential-delay"


@dataclass(frozen=True)
class RestartSettings:
    """When a failed job goes on. Times in ms.

    ``attempts`` belongs to FIXED_DELAY (2**31-1: always); ``failures`` within ``interval_ms`` to FAILURE_RATE; the
    rest to EXPONENTIAL_DELAY.
    """

    kind: RestartKind = RestartKind.NONE
    attempts: int = 1
    delay_ms: int = 1000
    failures: int = 1
    interval_ms: int = 60_000
    initial_backoff_ms: int = 1000
    max_backoff_ms: int = 60_000
    backoff_multiplier: float = 1.5
    reset_backoff_ms: int = 3_600_000
    jitter: float = 0.1


def _of(option: Option) -> Any:
    """A field that is an option's value."""
    return field(default=option.default, metadata={"option": option})


@dataclass(frozen=True)
class JobSettings:
    """How the job runs; every value final (code over command line over file over default).

    A field that is an option's value has the option's default and means what that says; the others:

    Args:
        checkpoint_interval_ms: None when checkpointing is off: nothing is logged and nothing restored.
        changelog: log every mutation (True) or write full snapshots at each checkpoint (False).
        base_path: folder or URI under which the job's folder lies.
        state_options: options of the state backend, by key.
        state_class: the class of a custom backend or of RocksDB's options factory, pickled by cloudpickle.
        max_state_bytes: bound of one state in a subtask's full snapshot; None for none.
        delete_on_cancel: externalized cleanup DELETE_ON_CANCELLATION.
        materialize_interval_ms: time between two snapshots of the changelog; None makes none and truncates nothing.
        restart: the restart strategy; None lets checkpointing decide, as Flink does (on: exponential delay with its
            defaults; off: none).
        restore: changelog.restore: auto, none, a point (see ``ledger.points``), or a savepoint's path.
        claim_savepoint: the job owns the savepoint it starts from, and disposes of it after its first checkpoint.
        drop_removed_state: states that operators no longer declare when they are opened are removed; else they are kept.
        batch: runtime mode BATCH: each key's elements are processed together at the end of the input, and only final
            results leave; nothing is checkpointed.
        thread_mode: PyFlink's thread mode has no bundles: the first records of a job's only source come one to an
            epoch, so that timers fire between those that take long, as they do there.
        periodic_watermarks: they are emitted at the end of each epoch; False: only the last, at the end of the input.
        epoch_target_ms: None for adaptive.
        spark: spark.* keys, handed to Spark as they are.
        file_systems: s3.* keys, for the tables' file systems.
        files: what the workers need of modules, packages, archives and other files.
        json_logs: the engine's log goes to standard error as JSON.
    """

    checkpoint_interval_ms: int | None = None
    changelog: bool = False
    base_path: str = options.DEFAULT_BASE_PATH
    state_backend: str = "hashmap"
    state_options: dict[str, str] = field(default_factory=dict)
    state_class: bytes | None = None
    max_state_bytes: int | None = None
    local_recovery: bool = _of(options.LOCAL_RECOVERY)
    checkpoint_timeout_ms: int = _of(options.CHECKPOINT_TIMEOUT)
    min_pause_ms: int = _of(options.CHECKPOINT_MIN_PAUSE)
    tolerable_failures: int = _of(options.CHECKPOINT_TOLERABLE_FAILURES)
    delete_on_cancel: bool = False
    retained_checkpoints: int = _of(options.CHECKPOINT_NUM_RETAINED)
    materialize_interval_ms: int | None = 600_000
    materialize_max_failures: int = _of(options.MATERIALIZE_MAX_FAILURES)
    materialize_runner: str = _of(options.MATERIALIZE_RUNNER)
    materialize_executors: int = _of(options.MATERIALIZE_EXECUTORS)
    materialize_executor_cores: int = _of(options.MATERIALIZE_EXECUTOR_CORES)
    materialize_executor_memory: int | None = _of(options.MATERIALIZE_EXECUTOR_MEMORY)
    history_retention_ms: int = _of(options.HISTORY_RETENTION)
    truncation_grace_ms: int | None = _of(options.TRUNCATION_GRACE)
    restart: RestartSettings | None = None
    same_failure_limit: int = _of(options.SAME_FAILURE_LIMIT)
    restore: str = "auto"
    claim_savepoint: bool = False
    ignore_unclaimed_state: bool = _of(options.SAVEPOINT_IGNORE_UNCLAIMED)
    drop_removed_state: bool = False
    savepoint_dir: str | None = _of(program_options.SAVEPOINT_DIR)
    batch: bool = False
    thread_mode: bool = False
    periodic_watermarks: bool = True
    epoch_target_ms: int | None = None
    read_ahead: bool = _of(options.EPOCH_READ_AHEAD)
    epoch_timeout_ms: int = _of(options.EPOCH_TIMEOUT)
    epoch_max_records: int | None = _of(options.BUNDLE_SIZE)
    part_max_bytes: int = _of(options.PART_MAX_BYTES)
    packs: bool = _of(options.PART_PACKS)
    object_reuse: bool = _of(options.OBJECT_REUSE)
    parameters: dict[str, str] = field(default_factory=dict)
    spark: dict[str, str] = field(default_factory=dict)
    file_systems: dict[str, str] = field(default_factory=dict, repr=False)
    files: JobFiles = field(default_factory=JobFiles)
    progress: str = _of(observing_options.PROGRESS)
    progress_interval_ms: int = _of(observing_options.PROGRESS_INTERVAL)
    metrics_host: str = _of(observing_options.METRICS_HOST)
    metrics_port: int | None = _of(observing_options.METRICS_PORT)
    json_logs: bool = False
    jvm_options: str = _of(program_options.JVM_OPTIONS)
    class_archive: bool = _of(program_options.JVM_CLASS_ARCHIVE)
    autoscale: bool = _of(options.AUTOSCALE)
    autoscale_min_parallelism: int = _of(options.AUTOSCALE_MIN)
    autoscale_max_parallelism: int | None = _of(options.AUTOSCALE_MAX)
    autoscale_calm_ms: int = _of(options.AUTOSCALE_CALM)

    @property
    def folds_on_spark(self) -> bool:
        """Whether snapshots are made beside the job, and in its Spark where that has room."""
        return (
            self.changelog and self.materialize_interval_ms is not None and self.materialize_runner == "spark"
        )


# By the name of the field that is its value.
JOB_OPTIONS: dict[str, Option] = {
    each.name: each.metadata["option"] for each in fields(JobSettings) if "option" in each.metadata
}


class StateKind(enum.Enum):
    """The five kinds of keyed state."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    REDUCING = "reducing"
    AGGREGATING = "aggregating"


@dataclass(frozen=True)
class TtlSpec:
    """How the entries of a state expire. An entry is a value, a list's element or a map's entry.

    Args:
        ttl_ms: how long after its last access an entry expires.
        renew_on_read: reading is an access too; writing always is.
        return_expired: an expired entry that is still there is shown once more before it is removed.
        in_full_snapshot: full snapshots leave expired entries out.
        incremental_size: heap tables: keys that are checked at each access to the state; 0 for none.
        every_record: the same again for each record, whether or not it accesses the state.
        filter_entries: tables on disk: the check at the end of an epoch reads the clock anew after this many entries; 0 for
            no such check.
    """

    ttl_ms: int
    renew_on_read: bool = False
    return_expired: bool = False
    in_full_snapshot: bool = False
    incremental_size: int = 0
    every_record: bool = False
    filter_entries: int = 0


@dataclass(frozen=True)
class StateSpec:
    """A keyed state as its descriptor declares it.

    Args:
        value_type: type of the value, the list's elements, the map's values, or the accumulator.
        namespace: None, or the kind of namespace of namespaced state.
        ttl: None, or how its entries expire.
        migration: None, or a callable (value of the type that a restored checkpoint has) -> value of this type, or None to
            drop the value.
        net: of a map of the engine's own: its log has net changes (see ``MutationLog``).
    """

    name: str
    kind: StateKind
    value_type: TypeInformation
    map_key_type: TypeInformation | None = None
    function: Any = None
    namespace: str | None = None
    ttl: TtlSpec | None = None
    migration: Any = None
    net: bool = False


class StateDescription:
    """What declares a state: base of the API's descriptors."""

    def to_spec(self) -> StateSpec:
        """What the engine reads.

        Raises:
            InvalidJobError: the descriptor does not say which kind of state it is of.
        """
        raise InvalidJobError(
            f"{type(self).__name__} does not say which kind of state it describes: use ValueStateDescriptor, "
            "ListStateDescriptor, MapStateDescriptor, ReducingStateDescriptor or AggregatingStateDescriptor"
        )
