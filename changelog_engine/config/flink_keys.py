"""Keys of Flink that begin like ours, are spelt correctly, and tell this engine nothing: kept and ignored."""

from __future__ import annotations

# Whole families of tuning options.
KNOWN_FAMILIES = (
    "state.backend.forst.",
    "state.backend.rocksdb.metrics.",
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
        "execution.checkpointing.snapshot-compression",
        "execution.checkpointing.unaligned.interruptible-timers.enabled",
        "execution.checkpointing.unaligned.max-subtasks-per-channel-state-file",
        "execution.checkpointing.write-buffer-size",
        "restart-strategy.exponential-delay.attempts-before-reset-backoff",
        "state.backend.async",
        "state.backend.incremental",
        "state.backend.rocksdb.bloom-filter.block-based-mode",
        "state.backend.rocksdb.checkpoint.restore-options.try-batch",
        "state.backend.rocksdb.incremental-restore-async-compact-after-rescale",
        "state.backend.rocksdb.log.level",
        "state.backend.rocksdb.manual-compaction.max-auto-compactions",
        "state.backend.rocksdb.manual-compaction.max-file-size-to-compact",
        "state.backend.rocksdb.manual-compaction.max-files-to-compact",
        "state.backend.rocksdb.manual-compaction.max-output-file-size",
        "state.backend.rocksdb.manual-compaction.max-parallel-compactions",
        "state.backend.rocksdb.manual-compaction.min-files-to-compact",
        "state.backend.rocksdb.manual-compaction.min-interval",
        "state.backend.rocksdb.memory.fixed-per-tm",
        "state.backend.rocksdb.memory.high-prio-pool-ratio",
        "state.backend.rocksdb.memory.managed",
        "state.backend.rocksdb.memory.partitioned-index-filters",
        "state.backend.rocksdb.restore-overlap-fraction-threshold",
        "state.backend.rocksdb.rescaling.use-delete-files-in-range",
        "state.backend.rocksdb.timer-service.cache-size",
        "state.backend.rocksdb.ttl.compaction.filter.enabled",
        "state.backend.rocksdb.use-ingest-db-restore-mode",
        "state.backend.rocksdb.write-batch-size",
        "state.backend.rocksdb.compaction.filter.periodic-compaction-time",
        "state.backend.rocksdb.compaction.filter.query-time-after-num-entries",
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

# What older configurations give as the type of the state backend.
FLINK_BACKEND_FACTORIES = {
    "org.apache.flink.contrib.streaming.state.EmbeddedRocksDBStateBackendFactory": "rocksdb",
    "org.apache.flink.contrib.streaming.state.RocksDBStateBackendFactory": "rocksdb",
    "org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackendFactory": "rocksdb",
    "org.apache.flink.runtime.state.filesystem.FsStateBackendFactory": "hashmap",
    "org.apache.flink.runtime.state.hashmap.HashMapStateBackendFactory": "hashmap",
    "org.apache.flink.runtime.state.memory.MemoryStateBackendFactory": "hashmap",
}
