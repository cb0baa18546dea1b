"""State backends and checkpoint storages of the API: getters, defaults, errors, and what the engine is told."""

from __future__ import annotations

import pickle
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from support.backends import SQLiteBackend
from support.functions import Count, counted, rounds
from support.graphs import keyed_job
from support.jobs import TestJob

from api.common.configuration import Configuration
from api.datastream import (
    CustomCheckpointStorage,
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    FileSystemCheckpointStorage,
    FsStateBackend,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    MemoryStateBackend,
    PredefinedOptions,
    RocksDBStateBackend,
    StateBackend,
    StreamExecutionEnvironment,
)
from changelog_engine.errors import ConfigurationError, NotSerializableError
from changelog_engine.graph.nodes import JobSettings
from changelog_engine.state import StateBackend as StateBackendBase

FIVE_MB = 5_242_880
KEY = "state.backend.rocksdb."


def configured(options: dict[str, str]) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(Configuration(options))


def settings(env: StreamExecutionEnvironment) -> JobSettings:
    return env._settings.job_settings()


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (HashMapStateBackend, "hashmap"),
        (MemoryStateBackend, "hashmap"),
        (lambda: FsStateBackend("/x"), "hashmap"),
        (EmbeddedRocksDBStateBackend, "rocksdb"),
        (lambda: RocksDBStateBackend("/x"), "rocksdb"),
        (lambda: CustomStateBackend(SQLiteBackend), "custom"),
    ],
    ids=["hashmap", "memory", "fs", "rocksdb", "old rocksdb", "custom"],
)
def test_the_environment_keeps_the_backend(make: Any, kind: str) -> None:
    env, backend = configured({}), make()
    assert isinstance(backend, StateBackend)
    assert env.set_state_backend(backend) is env
    assert env.get_state_backend() is backend
    assert settings(env).state_backend == kind


def test_the_later_one_holds() -> None:
    env = configured({}).set_state_backend(EmbeddedRocksDBStateBackend())
    env.configure(Configuration({"state.backend": "hashmap"}))
    assert env.get_state_backend() == HashMapStateBackend()
    assert settings(env).state_backend == "hashmap"
    env.configure(Configuration({"state.backend.type": "rocksdb"}))
    assert isinstance(env.get_state_backend(), EmbeddedRocksDBStateBackend)
    env.set_state_backend(HashMapStateBackend())
    assert settings(env).state_backend == "hashmap"


@pytest.mark.parametrize("wrong", [StateBackend(), EmbeddedRocksDBStateBackend, "rocksdb", None])
def test_what_is_not_a_backend_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="set_state_backend needs a backend"):
        configured({}).set_state_backend(wrong)


def test_backends_by_configuration() -> None:
    env = configured(
        {
            "state.backend.type": "org.apache.flink.contrib.streaming.state.EmbeddedRocksDBStateBackendFactory",
            KEY + "localdir": "/a,/b",
            KEY + "predefined-options": "flash_ssd_optimized",
            KEY + "checkpoint.transfer.thread.num": "9",
        }
    )
    backend = env.get_state_backend()
    assert isinstance(backend, EmbeddedRocksDBStateBackend)
    assert backend.get_db_storage_paths() == ["/a", "/b"]
    assert backend.get_predefined_options() is PredefinedOptions.FLASH_SSD_OPTIMIZED
    assert backend.get_number_of_transfer_threads() == 9
    assert backend.get_options() is None
    own = configured({"state.backend.type": "sqlite_backend.SQLiteBackend"})
    assert repr(own.get_state_backend()) == "CustomStateBackend('sqlite_backend.SQLiteBackend')"
    assert pickle.loads(settings(own).state_class or b"") is SQLiteBackend
    with pytest.raises(ConfigurationError, match="hashmap, rocksdb and the path of a Python class"):
        configured({"state.backend.type": "roksdb"})
    with pytest.raises(ConfigurationError, match=r"org\.apache\.flink\.Mine"):
        configured({"state.backend.type": "org.apache.flink.Mine"})
    with pytest.raises(
        ConfigurationError, match=r"no\.such\.Class.*cannot be imported|is not a Python class"
    ):
        settings(configured({"state.backend.type": "no.such.Class"}))
    with pytest.raises(ConfigurationError, match=r"did you mean 'state\.backend\.rocksdb\.localdir'"):
        configured({KEY + "localdirs": "/a"})
    assert settings(configured({KEY + "log.level": "INFO_LEVEL"})).state_options == {}


def test_rocksdb_settings_reach_the_engine_over_the_configuration() -> None:
    env = configured(
        {
            KEY + "predefined-options": "SPINNING_DISK_OPTIMIZED",
            KEY + "localdir": "/conf",
            KEY + "writebuffer.size": "3 mb",
            "changelog.rocksdb.cache-size": "7 mb",
        }
    )
    backend = EmbeddedRocksDBStateBackend()
    env.set_state_backend(backend)
    expected = {
        KEY + "predefined-options": "SPINNING_DISK_OPTIMIZED",
        KEY + "localdir": "/conf",
        KEY + "writebuffer.size": "3 mb",
        "changelog.rocksdb.cache-size": "7 mb",
    }
    assert settings(env).state_options == expected
    backend.set_db_storage_paths("/code")
    backend.set_predefined_options(PredefinedOptions.DEFAULT)
    assert settings(env).state_options == {
        **expected,
        KEY + "localdir": "/code",
        KEY + "predefined-options": "DEFAULT",
    }


def test_options_that_rocksdb_does_not_take_fail_before_the_job() -> None:
    env = configured({"state.backend.type": "rocksdb", KEY + "compression.per.level": "FAST"})
    with pytest.raises(ConfigurationError, match="FAST"):
        settings(env)
    backend = EmbeddedRocksDBStateBackend()
    backend.set_options("no.such.Factory")
    with pytest.raises(ConfigurationError, match=r"no\.such\.Factory"):
        settings(configured({}).set_state_backend(backend))


class Factory:
    """An options factory."""


def test_java_factories_are_refused_and_python_ones_kept() -> None:
    backend = EmbeddedRocksDBStateBackend()
    assert backend.get_options() is None
    env = configured({}).set_state_backend(backend)
    name = "org.apache.flink.contrib.streaming.state.DefaultConfigurableOptionsFactory"
    backend.set_options(name)
    assert backend.get_options() == name
    assert settings(env).state_class is None
    backend.set_options(f"{__name__}.Factory")
    assert pickle.loads(settings(env).state_class or b"") is sys.modules[__name__].Factory


@pytest.mark.parametrize("make", [EmbeddedRocksDBStateBackend, lambda: RocksDBStateBackend("/x")])
def test_rocksdb_backends_give_back_what_was_set(make: Any) -> None:
    backend = make()
    assert backend.get_db_storage_paths() is None
    assert backend.get_predefined_options() is PredefinedOptions.DEFAULT
    assert backend.is_incremental_checkpoints_enabled() is False
    for option in PredefinedOptions:
        backend.set_predefined_options(option)
        assert backend.get_predefined_options() is option
    backend.set_db_storage_paths("file:///a/", "/b")
    assert backend.get_db_storage_paths() == ["/a", "/b"]
    for nothing in ((), (None,)):
        backend.set_db_storage_paths("/a")
        backend.set_db_storage_paths(*nothing)
        assert backend.get_db_storage_paths() is None
    for wrong in ("relative", "s3://x/y", "", 5):
        with pytest.raises(ConfigurationError):
            backend.set_db_storage_paths(wrong)
    with pytest.raises(ConfigurationError, match=r"PredefinedOptions\.FLASH_SSD_OPTIMIZED"):
        backend.set_predefined_options("DEFAULT")
    with pytest.raises(ConfigurationError, match="set_options"):
        backend.set_options(None)


def test_predefined_options_have_pyflinks_numbers() -> None:
    assert [(each.name, each.value) for each in PredefinedOptions] == [
        ("DEFAULT", 0),
        ("SPINNING_DISK_OPTIMIZED", 1),
        ("SPINNING_DISK_OPTIMIZED_HIGH_MEM", 2),
        ("FLASH_SSD_OPTIMIZED", 3),
    ]


def test_transfer_threads_and_incremental_checkpoints() -> None:
    new, old = (
        EmbeddedRocksDBStateBackend(True),
        RocksDBStateBackend("/x", enable_incremental_checkpointing=True),
    )
    assert new.is_incremental_checkpoints_enabled() is old.is_incremental_checkpoints_enabled() is True
    assert (new.get_number_of_transfer_threads(), old.get_number_of_transfering_threads()) == (4, 4)
    new.set_number_of_transfer_threads(7)
    old.set_number_of_transfering_threads(8)
    assert (new.get_number_of_transfer_threads(), old.get_number_of_transfering_threads()) == (7, 8)
    with pytest.raises(ConfigurationError, match="set_number_of_transfer_threads"):
        new.set_number_of_transfer_threads(0)
    with pytest.raises(ConfigurationError, match="enable_incremental_checkpointing"):
        EmbeddedRocksDBStateBackend("yes")  # type: ignore[arg-type]


def test_the_memory_backend_brings_its_storage_along() -> None:
    assert MemoryStateBackend.DEFAULT_MAX_STATE_SIZE == FIVE_MB
    backend = MemoryStateBackend()
    assert (backend.get_max_state_size(), backend.is_using_asynchronous_snapshots()) == (FIVE_MB, True)
    given = MemoryStateBackend("file:///a/", "/b", 50_000, False)
    assert (given.get_max_state_size(), given.is_using_asynchronous_snapshots()) == (50_000, False)
    assert str(given) == (
        "MemoryStateBackend(checkpoint_path=file:/a, savepoint_path=/b, max_state_size=50000, "
        "using_asynchronous_snapshots=False)"
    )
    for wrong in ({"max_state_size": 0}, {"using_asynchronous_snapshots": 1}, {"checkpoint_path": ""}):
        with pytest.raises(ConfigurationError):
            MemoryStateBackend(**wrong)


def test_the_file_system_backend_brings_its_storage_along() -> None:
    backend = FsStateBackend("file:///a/b/")
    assert backend.get_checkpoint_path() == "file:/a/b"
    assert backend.get_min_file_size_threshold() == 20_480
    assert backend.get_write_buffer_size() == 4_096
    assert backend.is_using_asynchronous_snapshots() is True
    given = FsStateBackend("/a", "/s", 2_048, 8_192, False)
    assert (given.get_min_file_size_threshold(), given.get_write_buffer_size()) == (2_048, 8_192)
    assert given.is_using_asynchronous_snapshots() is False
    with pytest.raises(ConfigurationError, match="checkpoint_directory_uri is needed"):
        FsStateBackend()
    with pytest.raises(ConfigurationError, match="between -1 and 1048576"):
        FsStateBackend("/a", file_state_size_threshold=1_048_577)


def test_old_rocksdb_backend() -> None:
    inner = RocksDBStateBackend("file:///a/").get_checkpoint_backend()
    assert isinstance(inner, FsStateBackend)
    assert inner.get_checkpoint_path() == "file:/a"
    memory = MemoryStateBackend()
    assert RocksDBStateBackend(checkpoint_stream_backend=memory).get_checkpoint_backend() is memory
    for wrong in ({}, {"checkpoint_stream_backend": "/a"}):
        with pytest.raises(ConfigurationError, match="needs checkpoint_data_uri"):
            RocksDBStateBackend(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("backend", "path", "bound"),
    [
        (MemoryStateBackend("/old", max_state_size=7), "/old", 7),
        (MemoryStateBackend(), "/conf", FIVE_MB),
        (FsStateBackend("/old"), "/old", None),
        (RocksDBStateBackend("/old"), "/old", None),
        (RocksDBStateBackend(checkpoint_stream_backend=MemoryStateBackend("/old")), "/old", FIVE_MB),
        (HashMapStateBackend(), "/conf", None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_old_backends_bring_their_storage_along(backend: StateBackend, path: str, bound: int | None) -> None:
    env = configured({"state.checkpoints.dir": "/conf"}).set_state_backend(backend)
    assert (settings(env).base_path, settings(env).max_state_bytes) == (path, bound)
    env.configure(Configuration({"state.changelog.dstl.dfs.base-path": "/log"}))
    assert settings(env).base_path == "/log"


def test_job_manager_storage() -> None:
    assert JobManagerCheckpointStorage.DEFAULT_MAX_STATE_SIZE == FIVE_MB
    env = configured({})
    assert settings(env).max_state_bytes is None
    env.get_checkpoint_config().set_checkpoint_storage(JobManagerCheckpointStorage())
    assert settings(env).max_state_bytes == FIVE_MB
    env.get_checkpoint_config().set_checkpoint_storage(JobManagerCheckpointStorage("/a", 99))
    assert (settings(env).max_state_bytes, settings(env).base_path) == (99, "/a")
    env.get_checkpoint_config().set_checkpoint_storage("/b")
    assert (settings(env).max_state_bytes, settings(env).base_path) == (None, "/b")


def test_storage_by_configuration() -> None:
    env = configured({"state.checkpoint-storage": "jobmanager", "state.checkpoints.dir": "/a"})
    storage = env.get_checkpoint_config().get_checkpoint_storage()
    assert isinstance(storage, JobManagerCheckpointStorage)
    assert storage.get_checkpoint_path() == "/a"
    assert (settings(env).max_state_bytes, settings(env).base_path) == (FIVE_MB, "/a")
    assert settings(configured({"execution.checkpointing.storage": "filesystem"})).max_state_bytes is None


def test_file_system_storage_limits() -> None:
    assert FileSystemCheckpointStorage.MAX_FILE_STATE_THRESHOLD == 1_048_576
    for given, kept in ((None, 20_480), (-1, 20_480), (0, 0), (1_048_576, 1_048_576)):
        assert FileSystemCheckpointStorage("/a", given).get_min_file_size_threshold() == kept
    for wrong in (-2, 1_048_577, 1.5):
        with pytest.raises(ConfigurationError, match="file_state_size_threshold"):
            FileSystemCheckpointStorage("/a", wrong)  # type: ignore[arg-type]


class OwnStorage:
    def __init__(self, path: Any, size: Any = None) -> None:
        self.path = path
        if size is not None:
            self.get_max_state_size = lambda: size

    def get_checkpoint_path(self) -> Any:
        return self.path


def test_a_custom_storage_says_where_checkpoints_lie() -> None:
    env = configured({})
    storage = CustomCheckpointStorage(OwnStorage("file:///own/", 77))
    env.get_checkpoint_config().set_checkpoint_storage(storage)
    assert env.get_checkpoint_config().get_checkpoint_storage() is storage
    assert storage.get_checkpoint_path() == "file:/own"
    assert (settings(env).base_path, settings(env).max_state_bytes) == ("/own", 77)
    assert CustomCheckpointStorage(OwnStorage(None)).get_checkpoint_path() is None
    for wrong in (object(), OwnStorage(5), OwnStorage("/a", 0)):
        with pytest.raises(ConfigurationError, match="CustomCheckpointStorage"):
            CustomCheckpointStorage(wrong)


def test_custom_backend_by_value(tmp_path: Path) -> None:
    class Local(SQLiteBackend):
        """No worker can import it."""

    env = configured({}).set_state_backend(CustomStateBackend(Local))
    chosen = settings(env)
    job = TestJob(tmp_path, state_backend=chosen.state_backend, state_class=chosen.state_class)
    elements = rounds(5, 40)
    job.run(keyed_job(elements, Count()))
    assert sorted(job.output) == sorted(counted(elements))


def test_what_is_not_a_custom_backend() -> None:
    class Alone:
        def table(self, operator: str, state: str, kind: Any) -> None: ...

    class Half(StateBackendBase):
        pass

    with pytest.raises(ConfigurationError, match="Alone does not derive from"):
        CustomStateBackend(Alone)
    with pytest.raises(ConfigurationError, match=r"Half has no method table\(\)"):
        CustomStateBackend(Half)
    for wrong in (5, None, ""):
        with pytest.raises(ConfigurationError, match="CustomStateBackend: state_backend"):
            CustomStateBackend(wrong)
    lock = threading.Lock()
    with pytest.raises(NotSerializableError, match="the custom state backend"):
        settings(configured({}).set_state_backend(CustomStateBackend(lambda: lock)))
