"""Options by Flink's keys and options factories, seen in the settings that RocksDB itself wrote down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rocksdict import DBCompressionType, Options

from changelog_engine.errors import ConfigurationError
from changelog_engine.state.local_folder import LocalFolder
from changelog_engine.state.rocksdb_options import rocksdb_options
from changelog_engine.state.rocksdb_store import RocksStore


def settings_on_disk(root: Path, options: dict[str, str], factory: Any = None) -> dict[str, str]:
    """RocksDB's settings as it wrote them down itself."""
    store = RocksStore(LocalFolder(str(root), "test"), rocksdb_options(options, factory))
    file = max(Path(store.folder.path).glob("OPTIONS-*"))
    lines = [line.strip().split("=", 1) for line in file.read_text().splitlines() if "=" in line]
    store.close()
    return dict(lines)  # type: ignore[arg-type]


KEY = "state.backend.rocksdb."
MB = 1 << 20


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"use_fsync": "false", "filter_policy": "nullptr", "stats_dump_period_sec": "0"}),
        (
            {KEY + "predefined-options": "FLASH_SSD_OPTIMIZED"},
            {"max_open_files": "-1", "max_background_jobs": "4"},
        ),
        (
            {KEY + "predefined-options": "SPINNING_DISK_OPTIMIZED"},
            {"compaction_style": "kCompactionStyleLevel", "level_compaction_dynamic_level_bytes": "true"},
        ),
        (
            {
                KEY + "predefined-options": "SPINNING_DISK_OPTIMIZED_HIGH_MEM",
                KEY + "block.blocksize": "8 kb",
            },
            {
                "target_file_size_base": str(256 * MB),
                "max_bytes_for_level_base": str(1024 * MB),
                "write_buffer_size": str(64 * MB),
                "min_write_buffer_number_to_merge": "3",
                "max_write_buffer_number": "4",
                "block_size": "8192",
                "filter_policy": "bloomfilter",
            },
        ),
        (
            {
                KEY + "compaction.style": "universal",
                KEY + "compaction.level.use-dynamic-size": "false",
                KEY + "files.open": "77",
                KEY + "thread.num": "3",
                KEY + "writebuffer.size": "3 mb",
                KEY + "writebuffer.count": "5",
                KEY + "use-bloom-filter": "true",
                KEY + "bloom-filter.bits-per-key": "7",
                KEY + "compression.per.level": "zstd_compression",
                KEY + "memory.fixed-per-slot": "32 mb",
            },
            {
                "compaction_style": "kCompactionStyleUniversal",
                "level_compaction_dynamic_level_bytes": "false",
                "max_open_files": "77",
                "max_background_jobs": "3",
                "write_buffer_size": str(3 * MB),
                "max_write_buffer_number": "5",
                "filter_policy": "bloomfilter",
                "compression": "kZSTD",
                "cache_index_and_filter_blocks": "true",
            },
        ),
        (
            {KEY + "compression.per.level": "NO_COMPRESSION;LZ4_COMPRESSION"},
            {"compression_per_level": "kNoCompression:kLZ4Compression"},
        ),
    ],
    ids=["default", "flash", "spinning", "high memory", "one by one", "compression"],
)
def test_options_reach_rocksdb(tmp_path: Path, options: dict[str, str], expected: dict[str, str]) -> None:
    found = settings_on_disk(tmp_path, options)
    assert {name: found.get(name) for name in expected} == expected


class Factory:
    """An options factory as users write them."""

    def configure(self, options: dict[str, str]) -> None:
        self.size = int(options["my.size"])

    def create_db_options(self, options: Options) -> Options:
        options.set_max_open_files(55)
        return options

    def create_column_options(self, options: Options) -> Options:
        options.set_write_buffer_size(self.size)
        options.set_compression_type(DBCompressionType.none())
        return options


class Forgetful:
    """A factory without a return statement."""

    def create_db_options(self, options: Options) -> None:
        options.set_max_open_files(1)


def test_an_options_factory_has_the_last_word(tmp_path: Path) -> None:
    options = {KEY + "writebuffer.size": "9 mb", KEY + "writebuffer.count": "6", "my.size": str(2 * MB)}
    found = settings_on_disk(tmp_path, options, Factory)
    names = ("max_open_files", "write_buffer_size", "compression", "max_write_buffer_number")
    assert [found[name] for name in names] == ["55", str(2 * MB), "kNoCompression", "6"]
    with pytest.raises(ConfigurationError, match="Factory failed: KeyError"):
        rocksdb_options({}, Factory)
    with pytest.raises(ConfigurationError, match="Forgetful must return the Options, got None"):
        rocksdb_options({}, Forgetful)
    with pytest.raises(ConfigurationError, match=r"compression.per.level.*FAST"):
        rocksdb_options({KEY + "compression.per.level": "FAST"})
