"""From the job's options to RocksDB's own settings.

Predefined options come first, then the options that are set one by one, then the options factory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompactionStyle,
    DBCompressionType,
    Options,
    WriteBufferManager,
)

from changelog_engine.config import ConfigLayers
from changelog_engine.config import rocksdb_options as keys
from changelog_engine.errors import ArgumentTypeError, ConfigurationError
from changelog_engine.graph.hooks import hook_of
from changelog_engine.types.foreign import name_of

_COMPACTION = {
    "LEVEL": DBCompactionStyle.level,
    "UNIVERSAL": DBCompactionStyle.universal,
    "FIFO": DBCompactionStyle.fifo,
}
_COMPRESSION = {
    "NO_COMPRESSION": DBCompressionType.none,
    "SNAPPY_COMPRESSION": DBCompressionType.snappy,
    "ZLIB_COMPRESSION": DBCompressionType.zlib,
    "BZLIB2_COMPRESSION": DBCompressionType.bz2,
    "LZ4_COMPRESSION": DBCompressionType.lz4,
    "LZ4HC_COMPRESSION": DBCompressionType.lz4hc,
    "ZSTD_COMPRESSION": DBCompressionType.zstd,
}
_MB = 1 << 20
_BLOB_FILE_SIZE = 64 * _MB  # a file goes when nothing in it is in use any more: with RocksDB's 256 MB, later
_PREDEFINED: dict[str, dict[str, Any]] = {
    "DEFAULT": {},
    "SPINNING_DISK_OPTIMIZED": {
        "increase_parallelism": 4,
        keys.OPEN_FILES.key: -1,
        keys.COMPACTION_STYLE.key: "LEVEL",
        keys.DYNAMIC_LEVELS.key: True,
    },
    "SPINNING_DISK_OPTIMIZED_HIGH_MEM": {
        "increase_parallelism": 4,
        keys.OPEN_FILES.key: -1,
        keys.COMPACTION_STYLE.key: "LEVEL",
        keys.DYNAMIC_LEVELS.key: True,
        keys.TARGET_FILE_SIZE.key: 256 * _MB,
        keys.MAX_LEVEL_SIZE.key: 1024 * _MB,
        keys.WRITE_BUFFER_SIZE.key: 64 * _MB,
        keys.WRITE_BUFFER_MERGE.key: 3,
        keys.WRITE_BUFFER_COUNT.key: 4,
        keys.BLOCK_CACHE_SIZE.key: 256 * _MB,
        keys.BLOCK_SIZE.key: 128 * 1024,
        keys.BLOOM_FILTER.key: True,
    },
    "FLASH_SSD_OPTIMIZED": {"increase_parallelism": 4, keys.OPEN_FILES.key: -1},
}


def chosen(options: Mapping[str, str]) -> dict[str, Any]:
    """Every setting that is not left to RocksDB, by Flink's key.

    Raises:
        ConfigurationError: a str that does not fit.
    """
    layers = ConfigLayers(code=options)
    values = dict(_PREDEFINED[layers.get(keys.PREDEFINED)])
    for option in keys.ROCKSDB_OPTIONS:
        if layers.is_set(option) or (option.default is not None and option.key not in values):
            values[option.key] = layers.get(option)
    return values


def rocksdb_options(options: Mapping[str, str], factory: Any = None) -> Options:
    """RocksDB's settings for a job's options.

    Args:
        factory: the options factory's class, or None.

    Raises:
        ConfigurationError: an option that cannot be used, or a factory that fails.
    """
    values = chosen(options)
    made = Options(raw_mode=True)
    made.create_if_missing(True)
    made.set_use_fsync(False)
    # Or the log's fsync waits for all that RocksDB has written and the kernel not yet.
    made.set_bytes_per_sync(_MB)
    made.set_stats_dump_period_sec(0)
    made.set_keep_log_file_num(values[keys.LOG_FILE_NUM.key])
    made.set_max_log_file_size(values[keys.LOG_MAX_FILE_SIZE.key])
    setters: dict[str, Callable[[Any], None]] = {
        "increase_parallelism": made.increase_parallelism,
        keys.OPEN_FILES.key: made.set_max_open_files,
        keys.THREADS.key: made.set_max_background_jobs,
        keys.LOG_DIR.key: made.set_db_log_dir,
        keys.DYNAMIC_LEVELS.key: made.set_level_compaction_dynamic_level_bytes,
        keys.TARGET_FILE_SIZE.key: made.set_target_file_size_base,
        keys.MAX_LEVEL_SIZE.key: made.set_max_bytes_for_level_base,
        keys.WRITE_BUFFER_SIZE.key: made.set_write_buffer_size,
        keys.WRITE_BUFFER_COUNT.key: made.set_max_write_buffer_number,
        keys.WRITE_BUFFER_MERGE.key: made.set_min_write_buffer_number_to_merge,
    }
    for key, setter in setters.items():
        if key in values:
            setter(values[key])
    if keys.COMPACTION_STYLE.key in values:
        made.set_compaction_style(_COMPACTION[values[keys.COMPACTION_STYLE.key]]())
    large = _COMPRESSION["LZ4_COMPRESSION"]()
    if keys.COMPRESSION.key in values:
        levels = compression_levels(values[keys.COMPRESSION.key])
        large = levels[-1]
        if len(levels) == 1:
            made.set_compression_type(levels[0])
        else:
            made.set_compression_per_level(levels)
    if values[keys.MIN_BLOB_SIZE.key]:
        made.set_enable_blob_files(True)
        made.set_min_blob_size(values[keys.MIN_BLOB_SIZE.key])
        made.set_blob_file_size(_BLOB_FILE_SIZE)
        made.set_blob_compression_type(large)
        made.set_enable_blob_gc(True)
    made.set_block_based_table_factory(_blocks(made, values))
    return made if factory is None else _from_factory(factory, made, dict(options))


def compression_levels(text: str) -> list[DBCompressionType]:
    """The compressions that a text names, separated by semicolons.

    Raises:
        ConfigurationError: an unknown one.
    """
    names = [name.strip().upper() for name in text.split(";") if name.strip()]
    unknown = [name for name in names if name not in _COMPRESSION]
    if unknown or not names:
        raise ConfigurationError(
            f"option {keys.COMPRESSION.key!r}: expected some of {', '.join(_COMPRESSION)}, got {text!r}"
        )
    return [_COMPRESSION[name]() for name in names]


def _blocks(made: Options, values: dict[str, Any]) -> BlockBasedOptions:
    blocks = BlockBasedOptions()
    if keys.BLOCK_SIZE.key in values:
        blocks.set_block_size(values[keys.BLOCK_SIZE.key])
    if keys.METADATA_BLOCK_SIZE.key in values:
        blocks.set_metadata_block_size(values[keys.METADATA_BLOCK_SIZE.key])
    if values[keys.BLOOM_FILTER.key]:
        blocks.set_bloom_filter(values[keys.BLOOM_BITS.key], False)
    if keys.FIXED_PER_SLOT.key in values:
        size = values[keys.FIXED_PER_SLOT.key]
        cache = Cache(size)
        share = int(size * min(1.0, values[keys.WRITE_BUFFER_RATIO.key]))
        made.set_write_buffer_manager(
            WriteBufferManager.new_write_buffer_manager_with_cache(share, False, cache)
        )
        blocks.set_block_cache(cache)
        blocks.set_cache_index_and_filter_blocks(True)
    elif keys.BLOCK_CACHE_SIZE.key in values:
        blocks.set_block_cache(Cache(values[keys.BLOCK_CACHE_SIZE.key]))
    return blocks


def _from_factory(factory: Any, made: Options, options: dict[str, str]) -> Options:
    what = name_of(factory)
    try:
        instance = factory()
        configure = hook_of(instance, "configure")
        if configure is not None:
            configure(options)
        for name in ("create_db_options", "create_column_options"):
            create = hook_of(instance, name)
            if create is not None:
                made = create(made)
    except Exception as error:
        raise ConfigurationError(
            f"option {keys.OPTIONS_FACTORY.key!r}: the options factory {what} failed: {error!r}"
        ) from error
    if not isinstance(made, Options):
        raise ArgumentTypeError(
            f"option {keys.OPTIONS_FACTORY.key!r}: the options factory {what} must return the Options, got {made!r}"
        )
    return made
