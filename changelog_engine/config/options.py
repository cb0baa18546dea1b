"""The registry of options: every key that this engine reads, with its older names, type, default and meaning.

`find` is the one place that turns a key into its option; `canonical` the one place that refuses misspelt
keys.
"""

from __future__ import annotations

from collections.abc import Mapping

from changelog_engine.config.flink_keys import FLINK_BACKEND_FACTORIES, KNOWN_FAMILIES, KNOWN_KEYS
from changelog_engine.config.observing_options import OBSERVING_OPTIONS
from changelog_engine.config.option import (
    AgeOption,
    ChoiceOption,
    DurationOption,
    FlagOption,
    FloatOption,
    IntOption,
    MapOption,
    MemoryOption,
    options_in,
)
from changelog_engine.config.option import Option as Option
from changelog_engine.config.option import choices as _choices
from changelog_engine.config.program_options import PROGRAM_OPTIONS
from changelog_engine.config.rocksdb_options import ROCKSDB_OPTIONS
from changelog_engine.errors import ConfigurationError
from changelog_engine.nearest import most_alike

# Keys that begin so and are neither ours nor known from Flink are spelling mistakes, never silently kept.
GUARDED_PREFIXES = (
    "changelog.",
    "state.changelog.",
    "execution.checkpointing.",
    "restart-strategy",
    "state.backend",
)

CHANGELOG_ENABLED = FlagOption(
    "state.changelog.enabled",
    False,
    "Log every change of keyed state, so that a checkpoint is one small commit.",
    older=("state.backend.changelog.enabled",),
)
CHANGELOG_STORAGE = ChoiceOption(
    "state.changelog.storage",
    "filesystem",
    "Where the log is kept; only 'filesystem'.",
    older=("state.backend.changelog.storage",),
    choices=_choices("filesystem"),
)
BASE_PATH = Option(
    "state.changelog.dstl.dfs.base-path",
    None,
    "Folder or URI for the tables of jobs; if unset, the checkpoint directory, else ./changelog-data.",
    older=("dstl.dfs.base-path",),
)
DEFAULT_BASE_PATH = "changelog-data"
MATERIALIZE_ENABLED = FlagOption(
    "state.changelog.periodic-materialize.enabled",
    True,
    "Make snapshots of the state in the background from time to time, and truncate the log after them.",
    older=("state.backend.changelog.periodic-materialize.enabled",),
)
MATERIALIZE_INTERVAL = DurationOption(
    "state.changelog.periodic-materialize.interval",
    600_000,
    "Time from the start of one snapshot to the start of the next.",
    older=("state.backend.changelog.periodic-materialize.interval",),
)
MATERIALIZE_MAX_FAILURES = IntOption(
    "state.changelog.max-failures-allowed",
    3,
    "Number of consecutive failed snapshots that are tolerated; one more fails the job, and its restart strategy decides.",
    older=("state.backend.changelog.max-failures-allowed",),
    minimum=0,
)
MATERIALIZE_RUNNER = ChoiceOption(
    "changelog.materialization.runner",
    "spark",
    "Where snapshots beside a job are made and its log is truncated: in a slot of the job's Spark that no epoch takes "
    "(spark), or in a process on the driver's machine (process), also where Spark has no such slot.",
    choices=_choices("spark", "process"),
)
MATERIALIZE_EXECUTORS = IntOption(
    "changelog.materialization.executors",
    1,
    "With Spark's dynamic allocation: the most executors that snapshots have to themselves; 0: none, but a slot that no "
    "epoch takes.",
    minimum=0,
)
MATERIALIZE_EXECUTOR_CORES = IntOption(
    "changelog.materialization.executor.cores",
    1,
    "Of each of them: how many pieces of a snapshot are made there at a time.",
    minimum=1,
)
MATERIALIZE_EXECUTOR_MEMORY = MemoryOption(
    "changelog.materialization.executor.memory",
    None,
    "Of the JVM of each of them, at least 450 MiB; unset: `spark.executor.memory`.",
    minimum=450 * 2**20,  # with less Spark's executors end at once
)
STATE_BACKEND = ChoiceOption(
    "state.backend.type",
    "hashmap",
    "Where the working state is kept; also the path of a Python class, `package.module.Class`.",
    older=("state.backend",),
    choices=_choices("hashmap", "rocksdb", jobmanager="hashmap", filesystem="hashmap")
    | {name.lower(): kind for name, kind in FLINK_BACKEND_FACTORIES.items()},
    classes=True,
)
LOCAL_RECOVERY = FlagOption(
    "execution.state-recovery.from-local",
    False,
    "After a failure, surviving processes keep their state and read from storage only what changed since the checkpoint: "
    "with the changelog, and state on the heap or in RocksDB. Otherwise it has no effect.",
    older=("state.backend.local-recovery",),
)
CHECKPOINT_STORAGE = ChoiceOption(
    "execution.checkpointing.storage",
    None,
    "jobmanager limits each state of a full snapshot to 5 MB; both lie in the checkpoint directory.",
    older=("state.checkpoint-storage",),
    choices=_choices("jobmanager", "filesystem"),
)
CHECKPOINT_INTERVAL = DurationOption(
    "execution.checkpointing.interval", None, "Time between checkpoints; unset or 0: no checkpoints."
)
CHECKPOINT_MODE = ChoiceOption(
    "execution.checkpointing.mode",
    "EXACTLY_ONCE",
    "The guarantee asked for; this engine always gives EXACTLY_ONCE for state.",
    choices=_choices("EXACTLY_ONCE", "AT_LEAST_ONCE"),
)
CHECKPOINT_TIMEOUT = DurationOption(
    "execution.checkpointing.timeout", 600_000, "A checkpoint that takes longer counts as failed."
)
CHECKPOINT_MIN_PAUSE = DurationOption(
    "execution.checkpointing.min-pause", 0, "Least time between the end of a checkpoint and the next."
)
CHECKPOINT_MAX_CONCURRENT = IntOption(
    "execution.checkpointing.max-concurrent-checkpoints",
    1,
    "Kept and given back; this engine has one checkpoint in flight at a time.",
    minimum=1,
)
CHECKPOINT_TOLERABLE_FAILURES = IntOption(
    "execution.checkpointing.tolerable-failed-checkpoints",
    0,
    "Number of consecutive failed checkpoints that do not fail the job.",
    minimum=0,
)
CHECKPOINT_RETENTION = ChoiceOption(
    "execution.checkpointing.externalized-checkpoint-retention",
    "NO_EXTERNALIZED_CHECKPOINTS",
    "What happens to the job's checkpoints when it is cancelled.",
    choices=_choices("DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS"),
)
CHECKPOINT_NUM_RETAINED = IntOption(
    "execution.checkpointing.num-retained",
    1,
    "Number of checkpoints that stay restorable; with the changelog on, those within the history's retention stay as well.",
    older=("state.checkpoints.num-retained",),
    minimum=1,
)
CHECKPOINT_DIR = Option(
    "execution.checkpointing.dir",
    None,
    "The checkpoint directory; also the place of the tables if no base path is set.",
    older=("state.checkpoints.dir",),
)
UNALIGNED = FlagOption(
    "execution.checkpointing.unaligned.enabled",
    False,
    "Kept and given back; epochs have no alignment to skip.",
    older=("execution.checkpointing.unaligned",),
)
UNALIGNED_FORCED = FlagOption(
    "execution.checkpointing.unaligned.forced", False, "Kept and given back, as the option before it."
)
ALIGNMENT_TIMEOUT = DurationOption(
    "execution.checkpointing.aligned-checkpoint-timeout",
    0,
    "Kept and given back, as the option before it.",
    older=("execution.checkpointing.alignment-timeout",),
)
RESTART_STRATEGY = ChoiceOption(
    "restart-strategy.type",
    None,
    "Whether and when a failed job restarts; unset: always, with `exponential-delay` and its defaults, if checkpointing "
    "is on, else never.",
    older=("restart-strategy",),
    choices=_choices(
        "none",
        "fixed-delay",
        "failure-rate",
        "exponential-delay",
        off="none",
        disable="none",
        fixeddelay="fixed-delay",
        failurerate="failure-rate",
        exponentialdelay="exponential-delay",
    ),
)
FIXED_DELAY_ATTEMPTS = IntOption(
    "restart-strategy.fixed-delay.attempts", 1, "Restarts before giving up.", minimum=0
)
FIXED_DELAY_DELAY = DurationOption("restart-strategy.fixed-delay.delay", 1000, "Pause before a restart.")
FAILURE_RATE_MAX = IntOption(
    "restart-strategy.failure-rate.max-failures-per-interval", 1, "Failures allowed per interval.", minimum=1
)
FAILURE_RATE_INTERVAL = DurationOption(
    "restart-strategy.failure-rate.failure-rate-interval", 60_000, "The interval of the failure rate."
)
FAILURE_RATE_DELAY = DurationOption("restart-strategy.failure-rate.delay", 1000, "Pause before a restart.")
EXPONENTIAL_INITIAL = DurationOption(
    "restart-strategy.exponential-delay.initial-backoff", 1000, "The first pause."
)
EXPONENTIAL_MAX = DurationOption(
    "restart-strategy.exponential-delay.max-backoff", 60_000, "The longest pause."
)
EXPONENTIAL_MULTIPLIER = FloatOption(
    "restart-strategy.exponential-delay.backoff-multiplier", 1.5, "Growth of the pause.", minimum=1
)
EXPONENTIAL_RESET = DurationOption(
    "restart-strategy.exponential-delay.reset-backoff-threshold",
    3_600_000,
    "Time without a failure after which the pause is the first one again.",
)
EXPONENTIAL_JITTER = FloatOption(
    "restart-strategy.exponential-delay.jitter-factor",
    0.1,
    "Random variation of a pause, as a fraction of its length.",
    minimum=0,
)
SAME_FAILURE_LIMIT = IntOption(
    "changelog.restart.same-failure-limit",
    3,
    "The same mistake, or the same refusal of another system (a missing table, a row that does not fit, a login), this many "
    "times in a row, with no checkpoint in between, fails the job whatever the strategy; 0: never. What the environment "
    "does (lost workers, brokers, disks) is not counted.",
    minimum=0,
)
AUTOSCALE = FlagOption(
    "changelog.autoscale",
    False,
    "Adjust the job's parallelism to the backlog of its sources and to executors that come and go.",
)
AUTOSCALE_MIN = IntOption(
    "changelog.autoscale.min-parallelism", 1, "Least parallelism that it chooses.", minimum=1
)
AUTOSCALE_MAX = IntOption(
    "changelog.autoscale.max-parallelism",
    None,
    "Largest parallelism that autoscale chooses; unset: the operators' max parallelism. It never exceeds the number of "
    "tasks that the executors can run at a time.",
    minimum=1,
)
AUTOSCALE_CALM = DurationOption(
    "changelog.autoscale.calm-period",
    60_000,
    "How long a cause must last, and how long the job is left alone after each change and each restart.",
    minimum=1,
)
PARALLELISM = IntOption(
    "parallelism.default",
    None,
    "Parallelism of a job that sets none; unset: the cores of this machine.",
    minimum=1,
)
MAX_PARALLELISM = IntOption("pipeline.max-parallelism", None, "Number of key groups, 1 to 32768.", minimum=1)
JOB_NAME = Option("pipeline.name", None, "Name of a job whose execute() gives none.")
JOB_OVERRIDE = Option(
    "changelog.job.name",
    None,
    "Name of the program's one job, whatever its execute() says, as to run a fork; also by `run --job` and by the "
    "environment variable CHANGELOG_ENGINE_JOB.",
)
OBJECT_REUSE = FlagOption(
    "pipeline.object-reuse",
    False,
    "Never copy elements: only for functions that change neither their input nor the results that they have emitted.",
)
AUTO_GENERATE_UIDS = FlagOption(
    "pipeline.auto-generate-uids",
    True,
    "Operators without a uid() get an id by their place in the program; false: a job that has such operators is refused.",
)
JOB_PARAMETERS = MapOption(
    "pipeline.global-job-parameters", {}, "What RuntimeContext.get_job_parameter() sees."
)
AUTO_WATERMARK_INTERVAL = DurationOption(
    "pipeline.auto-watermark-interval",
    200,
    "Kept and given back; periodic watermarks are emitted at the end of each epoch. 0: none before the end of the input.",
)
RUNTIME_MODE = ChoiceOption(
    "execution.runtime-mode",
    "STREAMING",
    "STREAMING, BATCH, or AUTOMATIC: BATCH when all sources end.",
    choices=_choices("STREAMING", "BATCH", "AUTOMATIC"),
)
SAVEPOINT_PATH = Option(
    "execution.savepoint.path",
    None,
    "Start from this savepoint, as by changelog.restore.",
    older=("execution.state-recovery.path",),
)
SAVEPOINT_CLAIM_MODE = ChoiceOption(
    "execution.state-recovery.claim-mode",
    "NO_CLAIM",
    "NO_CLAIM leaves the savepoint alone; with CLAIM the job disposes of it after its first checkpoint.",
    older=("execution.savepoint-restore-mode",),
    choices=_choices("NO_CLAIM", "CLAIM"),
)
SAVEPOINT_IGNORE_UNCLAIMED = FlagOption(
    "execution.state-recovery.ignore-unclaimed-state",
    False,
    "Start from a savepoint that has state of operators that the job no longer has; that state is left behind.",
    older=("execution.savepoint.ignore-unclaimed-state",),
)
BUNDLE_SIZE = IntOption(
    "python.fn-execution.bundle.size",
    None,
    "Largest number of records that a source subtask reads in an epoch.",
    minimum=1,
)
RESTORE = Option(
    "changelog.restore",
    "auto",
    "Where a new run begins: auto, none, latest, a checkpoint id, -2, attempt:3, a time such as 12:00:05 or "
    "2026-01-31T12:00:05 (UTC), or the path of a savepoint.",
)
REMOVED_STATE = ChoiceOption(
    "changelog.restore.removed-state",
    "keep",
    "States in a restored checkpoint that their operators no longer declare: keep retains them, so that a later version "
    "of the job can declare them again; drop removes those that are not declared when the functions are opened.",
    choices=_choices("keep", "drop"),
)
HISTORY_RETENTION = AgeOption(
    "changelog.history.retention",
    7 * 86_400_000,
    "How long mutations and old states are kept; older ones that no restore needs are truncated after a snapshot. 0 "
    "truncates at once.",
)
TRUNCATION_GRACE = AgeOption(
    "changelog.truncation.grace",
    None,
    "How long truncated files stay on disk for current readers; unset: half the snapshots' interval, at most 5 min.",
)
EPOCH_TARGET = DurationOption(
    "changelog.epoch.target",
    None,
    "Target time of one epoch, and where nothing waits from one to the next (until a checkpoint, or 30 s); unset: adaptive.",
)
EPOCH_READ_AHEAD = FlagOption(
    "changelog.epoch.read-ahead",
    False,
    "When there is a backlog, sources that leave cores idle read the next epoch, and stages that send to others process "
    "it, while the downstream stages process the current one.",
)
EPOCH_TIMEOUT = DurationOption(
    "changelog.epoch.timeout",
    3_600_000,
    "An epoch without a checkpoint that takes longer than both this and execution.checkpointing.timeout has failed.",
    minimum=1,
)
PART_MAX_BYTES = MemoryOption(
    "changelog.part.max-bytes",
    8 << 20,
    "A part of the log that exceeds this size is uploaded ahead of the checkpoint; for full snapshots the limit is 8 "
    "times as much.",
    minimum=1,
)
PART_PACKS = FlagOption(
    "changelog.part.packs",
    False,
    "Subtasks on one machine write their parts of a checkpoint as one file, a pack: fewer requests, smaller commits.",
)
LINEAGE_RECORDS = FlagOption(
    "changelog.lineage.records",
    False,
    "Keep the source position with every mutation; not part of this version.",
)

OPTIONS = (*options_in(globals()), *PROGRAM_OPTIONS, *OBSERVING_OPTIONS, *ROCKSDB_OPTIONS)
_BY_NAME: dict[str, Option] = {name: option for option in OPTIONS for name in (option.key, *option.older)}


def find(key: str) -> Option | None:
    """The option that a key, or an older name, stands for; None for keys this engine does not read."""
    return _BY_NAME.get(key)


def canonical(entries: Mapping[str, str], where: str) -> dict[str, str]:
    """Give every key its present name and check every value that this engine reads.

    Args:
        entries: keys and raw values of one level.
        where: names the level in errors, such as ``the file conf.yaml``.

    Returns:
        The same entries under the newest names; where both names are given the newer one holds.

    Raises:
        ConfigurationError: a key under our prefixes that nobody knows, or a value that does not fit.
    """
    result: dict[str, str] = {}
    for key, text in entries.items():
        option = find(key)
        if option is None:
            _refuse_misspelt(key, where)
            result[key] = text
            continue
        option.parse(text)
        if key == option.key or option.key not in entries:
            result[option.key] = text
    return result


def _refuse_misspelt(key: str, where: str) -> None:
    if not key.startswith(GUARDED_PREFIXES) or key in KNOWN_KEYS or key.startswith(KNOWN_FAMILIES):
        return
    near = most_alike(key, [*_BY_NAME, *KNOWN_KEYS])
    raise ConfigurationError(f"unknown option {key!r} in {where}: did you mean {near!r}?")
