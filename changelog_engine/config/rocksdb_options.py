"""Options of the RocksDB state backend, by Flink's keys."""

from __future__ import annotations

from changelog_engine.config.option import (
    ChoiceOption,
    FlagOption,
    FloatOption,
    IntOption,
    MemoryOption,
    Option,
    choices,
    options_in,
)

_PREFIX = "state.backend.rocksdb."

LOCAL_DIR = Option(
    _PREFIX + "localdir",
    None,
    "Local folders for the files of RocksDB, separated by commas; unset: the machine's folder for temporary files.",
)
PREDEFINED = ChoiceOption(
    _PREFIX + "predefined-options",
    "DEFAULT",
    "Set of RocksDB settings that the other options change.",
    choices=choices(
        "DEFAULT", "SPINNING_DISK_OPTIMIZED", "SPINNING_DISK_OPTIMIZED_HIGH_MEM", "FLASH_SSD_OPTIMIZED"
    ),
)
OPTIONS_FACTORY = Option(
    _PREFIX + "options-factory", None, "Path of a Python class that has the last word on the settings."
)
TIMERS = ChoiceOption(
    _PREFIX + "timer-service.factory",
    "HEAP",
    "Where timers are kept: on the heap, whichever is asked for.",
    choices=choices("HEAP", "ROCKSDB"),
)
TRANSFER_THREADS = IntOption(
    _PREFIX + "checkpoint.transfer.thread.num",
    4,
    "Kept and given back; checkpoints move no files of RocksDB.",
    minimum=1,
)
CACHE_SIZE = MemoryOption(
    "changelog.rocksdb.cache-size",
    128 << 20,
    "About how much memory a subtask uses for decoded entries in front of RocksDB.",
    minimum=0,
)
MIN_BLOB_SIZE = MemoryOption(
    "changelog.rocksdb.min-blob-size",
    1 << 10,
    "Entries of at least this size are stored in separate files, which merging leaves alone; 0: next to their keys, as "
    "in Flink.",
    minimum=0,
)
FIXED_PER_SLOT = MemoryOption(
    _PREFIX + "memory.fixed-per-slot",
    None,
    "Bound of RocksDB's own memory in a subtask: block cache and write buffers; unset: as the settings say.",
    minimum=1 << 20,
)
WRITE_BUFFER_RATIO = FloatOption(
    _PREFIX + "memory.write-buffer-ratio", 0.5, "Share of write buffers in memory.fixed-per-slot.", minimum=0
)
THREADS = IntOption(
    _PREFIX + "thread.num",
    None,
    "Threads of flushes and compactions.",
    minimum=1,
    maximum=1_000,  # RocksDB starts them all, and ends the process where the system has no more
)
OPEN_FILES = IntOption(
    _PREFIX + "files.open", None, "Largest number of open files; -1 for no limit.", minimum=-1
)
LOG_MAX_FILE_SIZE = MemoryOption(
    _PREFIX + "log.max-file-size", 25 << 20, "Size of a file of RocksDB's own log.", minimum=0
)
LOG_FILE_NUM = IntOption(_PREFIX + "log.file-num", 1, "Files of RocksDB's own log.", minimum=1)
LOG_DIR = Option(_PREFIX + "log.dir", None, "Folder of RocksDB's own log; unset: beside the data.")
COMPACTION_STYLE = ChoiceOption(
    _PREFIX + "compaction.style", None, "How files are merged.", choices=choices("LEVEL", "UNIVERSAL", "FIFO")
)
DYNAMIC_LEVELS = FlagOption(
    _PREFIX + "compaction.level.use-dynamic-size", None, "Whether the sizes of levels follow the largest."
)
TARGET_FILE_SIZE = MemoryOption(
    _PREFIX + "compaction.level.target-file-size-base", None, "Size of a file of the first level.", minimum=1
)
MAX_LEVEL_SIZE = MemoryOption(
    _PREFIX + "compaction.level.max-size-level-base", None, "Size of the first level.", minimum=1
)
WRITE_BUFFER_SIZE = MemoryOption(_PREFIX + "writebuffer.size", None, "Size of a write buffer.", minimum=1)
WRITE_BUFFER_COUNT = IntOption(_PREFIX + "writebuffer.count", None, "Most write buffers.", minimum=1)
WRITE_BUFFER_MERGE = IntOption(
    _PREFIX + "writebuffer.number-to-merge",
    None,
    "Write buffers that are merged before they are written.",
    minimum=1,
)
BLOCK_SIZE = MemoryOption(_PREFIX + "block.blocksize", None, "Size of a block.", minimum=1)
METADATA_BLOCK_SIZE = MemoryOption(
    _PREFIX + "block.metadata-blocksize", None, "Size of a block of metadata.", minimum=1
)
BLOCK_CACHE_SIZE = MemoryOption(_PREFIX + "block.cache-size", None, "Size of the cache of blocks.", minimum=1)
BLOOM_FILTER = FlagOption(
    _PREFIX + "use-bloom-filter", False, "Whether files have a Bloom filter of their keys."
)
BLOOM_BITS = FloatOption(
    _PREFIX + "bloom-filter.bits-per-key", 10.0, "Bits per key of the Bloom filter.", minimum=1
)
COMPRESSION = Option(
    _PREFIX + "compression.per.level",
    None,
    "Compression of each level, separated by semicolons, such as `SNAPPY_COMPRESSION;LZ4_COMPRESSION`; "
    "one holds for all.",
)

ROCKSDB_OPTIONS = options_in(globals())
