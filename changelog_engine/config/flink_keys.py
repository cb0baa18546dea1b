"""Keys of Flink that begin like ours, are spelt correctly, and tell this engine nothing: kept and ignored."""

from __future__ import annotations

# Whole families of tuning options.
KNOWN_FAMILIES = (
    "state.backend.rocksdb.",
    "state.backend.forst.",
    "state.backend.latency-track.",
    "state.backend.fs.",
    "execution.checkpointing.file-merging.",
)

KNOWN_KEYS = frozenset(
    {
        "execution.checkpointing.approximate-local-recovery",
        "execution.checkpointing.async",
        "execution.checkpointing.checkpoints-after-tasks-finish",
        "execution.checkpointing.checkpoints-after-tasks-finish.enabled",
        "execution.checkpointing.cleaner.parallel-mode",
        "execution.checkpointing.create-subdir",
        "execution.checkpointing.data-inline-threshold",
        "execution.checkpointing.force-checkpointing",
        "execution.checkpointing.incremental",
        "execution.checkpointing.interval-during-backlog",
        "execution.checkpointing.local-backup.dirs",
        "execution.checkpointing.local-backup.enabled",
        "execution.checkpointing.max-aligned-checkpoint-size",
        "execution.checkpointing.recover-without-channel-state.checkpoint-id",
        "execution.checkpointing.savepoint-dir",
        "execution.checkpointing.snapshot-compression",
        "execution.checkpointing.storage",
        "execution.checkpointing.unaligned.interruptible-timers.enabled",
        "execution.checkpointing.unaligned.max-subtasks-per-channel-state-file",
        "execution.checkpointing.write-buffer-size",
        "restart-strategy.exponential-delay.attempts-before-reset-backoff",
        "state.backend.async",
        "state.backend.incremental",
        "state.backend.local-recovery",
        "state.changelog.dstl.dfs.batch.persist-delay",
        "state.changelog.dstl.dfs.batch.persist-size-threshold",
        "state.changelog.dstl.dfs.compression.enabled",
        "state.changelog.dstl.dfs.discard.num-threads",
        "state.changelog.dstl.dfs.download.local-cache.idle-timeout-ms",
        "state.changelog.dstl.dfs.preemptive-persist-threshold",
        "state.changelog.dstl.dfs.upload.buffer-size",
        "state.changelog.dstl.dfs.upload.max-attempts",
        "state.changelog.dstl.dfs.upload.max-in-flight",
        "state.changelog.dstl.dfs.upload.next-attempt-delay",
        "state.changelog.dstl.dfs.upload.num-threads",
        "state.changelog.dstl.dfs.upload.retry-policy",
        "state.changelog.dstl.dfs.upload.timeout",
    }
)
