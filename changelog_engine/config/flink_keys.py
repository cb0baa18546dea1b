"""Keys of Flink that begin like ours, are spelt correctly, and tell this engine nothing: kept and ignored."""

from __future__ import annotations

from changelog_engine.config.names import names_of

# Whole families of tuning options.
KNOWN_FAMILIES = (
    "state.backend.forst.",
    "state.backend.rocksdb.metrics.",
    "state.backend.latency-track.",
    "state.backend.fs.",
    "execution.checkpointing.file-merging.",
)

KNOWN_KEYS = (
    names_of(
        "restart-strategy.exponential-delay.attempts-before-reset-backoff state.backend.async "
        "state.backend.incremental"
    )
    | names_of(
        "approximate-local-recovery async checkpoints-after-tasks-finish "
        "checkpoints-after-tasks-finish.enabled cleaner.parallel-mode create-subdir data-inline-threshold "
        "force-checkpointing incremental interval-during-backlog local-backup.dirs local-backup.enabled "
        "max-aligned-checkpoint-size recover-without-channel-state.checkpoint-id snapshot-compression "
        "unaligned.interruptible-timers.enabled unaligned.max-subtasks-per-channel-state-file "
        "write-buffer-size",
        "execution.checkpointing.",
    )
    | names_of(
        "bloom-filter.block-based-mode checkpoint.restore-options.try-batch "
        "incremental-restore-async-compact-after-rescale log.level manual-compaction.max-auto-compactions "
        "manual-compaction.max-file-size-to-compact manual-compaction.max-files-to-compact "
        "manual-compaction.max-output-file-size manual-compaction.max-parallel-compactions "
        "manual-compaction.min-files-to-compact manual-compaction.min-interval memory.fixed-per-tm "
        "memory.high-prio-pool-ratio memory.managed memory.partitioned-index-filters "
        "restore-overlap-fraction-threshold rescaling.use-delete-files-in-range timer-service.cache-size "
        "ttl.compaction.filter.enabled use-ingest-db-restore-mode write-batch-size "
        "compaction.filter.periodic-compaction-time compaction.filter.query-time-after-num-entries",
        "state.backend.rocksdb.",
    )
    | names_of(
        "batch.persist-delay batch.persist-size-threshold compression.enabled discard.num-threads "
        "download.local-cache.idle-timeout-ms preemptive-persist-threshold upload.buffer-size "
        "upload.max-attempts upload.max-in-flight upload.next-attempt-delay upload.num-threads "
        "upload.retry-policy upload.timeout",
        "state.changelog.dstl.dfs.",
    )
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
