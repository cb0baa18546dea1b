"""The settings of one environment, and those of a job that are made of them.

Setters and Configurations write the same entries, by Flink's keys, so the later one holds; getters read the strongest
level: code over command line over file over default.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from changelog_engine.config import (
    ConfigLayers,
    Option,
    absolute_path,
    canonical,
    observing_options,
    options,
    outer_layers,
    program_options,
)
from changelog_engine.config import rocksdb_options as rocksdb
from changelog_engine.connectors import IterableSource
from changelog_engine.errors import ArgumentTypeError, ConfigurationError, InvalidJobError, NotSupportedError
from changelog_engine.graph.files import JobFiles
from changelog_engine.graph.nodes import JOB_OPTIONS, JobSettings, Node
from changelog_engine.state.backends import (
    HASHMAP,
    ROCKSDB,
    check_backend_class,
    check_rocksdb,
    load_class,
    local_dirs,
    options_factory,
    pickled_class,
)

from .._arguments import PARALLELISM_DEFAULT, PARALLELISM_UNKNOWN
from .._arguments import max_parallelism as checked_max_parallelism
from .._arguments import parallelism as checked_parallelism
from ..common.configuration import Configuration
from ..common.restart_strategy import RestartStrategyConfiguration, settings_of, strategy_of
from ._dependencies import Dependencies
from .checkpoint_storage import CheckpointStorage, FileSystemCheckpointStorage, JobManagerCheckpointStorage
from .state_backend import (
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    PredefinedOptions,
    StateBackend,
)

_LOG = logging.getLogger("changelog_engine")
CHANGELOG_CHECKPOINT_INTERVAL_MS = 1000
_default_local_parallelism: list[int | None] = [None]  # of environments made from now on
_LOCAL_MASTER = re.compile(r"local\[(\d+)(?:,\d+)?\]")
# What may be a point (ledger/points.py) or a savepoint's path; the job's start says which it is.
_RESTORE = re.compile(
    r"auto|none|latest|-?\d+|attempt:\d+|as-of:.+|\d+:\d.*|\d+-\d.*|savepoint-.+|.*/.*|[A-Za-z][A-Za-z0-9+.-]*:/.+"
)


class EnvironmentSettings:
    """Every setting of one environment, by Flink's keys."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._outer = outer_layers()
        self.kept: dict[str, Any] = {}
        self._code: dict[str, str] = {}
        self._job_parameters: dict[str, str] | None = None
        self._state_backend: StateBackend | None = None
        self._checkpoint_storage: CheckpointStorage | None = None
        self.dependencies = Dependencies()
        self._local_parallelism = _default_local_parallelism[0]
        for text in (self._outer.file, self._outer.command_line):
            _refuse_unsupported(ConfigLayers(code=text))
        if configuration is not None:
            self.configure(configuration)

    def configure(self, configuration: Configuration) -> None:
        """Take over all entries of a configuration; nothing changes when one of them cannot be used."""
        if not isinstance(configuration, Configuration):
            raise ArgumentTypeError(
                f"a Configuration is needed, got {configuration!r}; Configuration.from_dict() makes one"
            )
        entries = canonical(configuration.to_dict(), "the Configuration")
        _refuse_unsupported(ConfigLayers(code=entries))
        self._code.update(entries)
        # What was set before as an object gives way.
        if options.STATE_BACKEND.key in entries:
            self._state_backend = None
        if options.CHECKPOINT_DIR.key in entries:
            self._checkpoint_storage = None
        if options.JOB_PARAMETERS.key in entries:
            self._job_parameters = None

    def live_entries(self) -> LiveEntries:
        """All entries of all levels as they are, to be read and set."""
        return LiveEntries(self)

    def remove(self, key: str) -> None:
        """Take an entry out that the program set.

        Raises:
            ConfigurationError: the command line or the file sets it.
        """
        self._code.pop(key, None)
        if self.layers().text(key) is not None:
            raise ConfigurationError(
                f"option {key!r} cannot be removed by the program: the command line or the configuration file sets it"
            )

    def layers(self) -> ConfigLayers:
        """All levels as they are now."""
        return ConfigLayers(self._code, self._outer.command_line, self._outer.file)

    def get(self, option: Option) -> Any:
        """The value that holds."""
        return self.layers().get(option)

    def get_from_code(self, option: Option) -> Any:
        """The value that the program set, or None."""
        return option.parse(self._code[option.key]) if option.key in self._code else None

    def set(self, option: Option, text: str) -> None:
        """Set an option in code."""
        option.parse(text)
        self._code[option.key] = text

    def unset(self, option: Option) -> None:
        """Forget what the program set."""
        self._code.pop(option.key, None)

    def set_parallelism(self, parallelism: Any, what: str) -> None:
        """Set the parallelism of operators that set none; see ExecutionConfig.set_parallelism."""
        if parallelism == PARALLELISM_DEFAULT:
            self.unset(options.PARALLELISM)
        elif parallelism != PARALLELISM_UNKNOWN:
            self.set(options.PARALLELISM, str(checked_parallelism(parallelism, what)))

    def parallelism(self) -> int:
        """The job's parallelism: as set, else the cores that Spark's local master has."""
        value: int | None = self.get(options.PARALLELISM)
        if value is not None:
            return value
        if self._local_parallelism is not None:
            return self._local_parallelism
        master = _LOCAL_MASTER.fullmatch(self.layers().text("spark.master") or "")
        return int(master[1]) if master and int(master[1]) else _cores()

    def set_restart_strategy(self, strategy: RestartStrategyConfiguration) -> None:
        """Replace the program's restart strategy."""
        for key in [key for key in self._code if key.startswith("restart-strategy")]:
            del self._code[key]
        self._code.update(strategy._options())

    def restart_strategy(self) -> RestartStrategyConfiguration:
        """The restart strategy that holds."""
        return strategy_of(settings_of(self.get))

    def job_parameters(self) -> dict[str, str]:
        """The job's parameters; a copy."""
        if self._job_parameters is not None:
            return dict(self._job_parameters)
        return dict(self.get(options.JOB_PARAMETERS))

    def set_job_parameters(self, parameters: Mapping[str, str]) -> None:
        """Replace the job's parameters."""
        self._job_parameters = dict(parameters)

    def set_state_backend(self, backend: StateBackend) -> None:
        """Set the program's state backend. What is set on the object later holds too."""
        self._state_backend = backend

    def state_backend(self) -> StateBackend | None:
        """The backend that the program set, as an object or by its configuration; None for none."""
        if self._state_backend is not None:
            return self._state_backend
        kind = self.get_from_code(options.STATE_BACKEND)
        return None if kind is None else self._configured_backend(kind)

    def set_checkpoint_storage(self, storage: CheckpointStorage) -> None:
        """Set the program's checkpoint storage; its folder takes the place of the one before."""
        self._checkpoint_storage = storage
        self.unset(options.CHECKPOINT_DIR)
        if storage._path is not None:
            self.set(options.CHECKPOINT_DIR, storage._path)

    def checkpoint_storage(self) -> CheckpointStorage | None:
        """The storage that the program set, else the one that the options name; None for neither."""
        if self._checkpoint_storage is not None:
            return self._checkpoint_storage
        folder = self.get(options.CHECKPOINT_DIR)
        if self.get(options.CHECKPOINT_STORAGE) == "jobmanager":
            return JobManagerCheckpointStorage(folder)
        return FileSystemCheckpointStorage(folder) if folder else None

    def job_files(self) -> JobFiles:
        """The files that the job needs: those that the program added, and those that its configuration names."""
        return self.dependencies.job_files(self.get)

    def job_settings(self, sources: Sequence[Node] = ()) -> JobSettings:
        """How a job runs that is executed now; says so when it turns checkpoints on for the changelog.

        Args:
            sources: of the job; they decide what AUTOMATIC means.
        """
        get = self.get
        batch = bool(sources) and self.is_batch(sources)
        changelog: bool = get(options.CHANGELOG_ENABLED) and not batch
        interval_ms: int | None = None if batch else get(options.CHECKPOINT_INTERVAL) or None
        if changelog and interval_ms is None:
            interval_ms = CHANGELOG_CHECKPOINT_INTERVAL_MS
            _LOG.warning(
                "The changelog is on and checkpointing is off: a checkpoint is made every %d ms. "
                "Say env.enable_checkpointing(interval) to choose.",
                interval_ms,
            )
        return JobSettings(
            **{name: get(option) for name, option in JOB_OPTIONS.items()},
            checkpoint_interval_ms=interval_ms,
            changelog=changelog,
            base_path=self._base_path(),
            **self._state_settings(),
            delete_on_cancel=get(options.CHECKPOINT_RETENTION) == "DELETE_ON_CANCELLATION",
            materialize_interval_ms=max(get(options.MATERIALIZE_INTERVAL), 1)
            if get(options.MATERIALIZE_ENABLED)
            else None,
            restart=settings_of(self.get),
            restore=self._restore(),
            claim_savepoint=get(options.SAVEPOINT_CLAIM_MODE) == "CLAIM",
            drop_removed_state=get(options.REMOVED_STATE) == "drop",
            batch=batch,
            thread_mode=get(program_options.EXECUTION_MODE) == "thread",
            periodic_watermarks=get(options.AUTO_WATERMARK_INTERVAL) > 0,
            epoch_target_ms=get(options.EPOCH_TARGET) or None,
            parameters=self.job_parameters(),
            spark=self.layers().spark(),
            file_systems=self.layers().file_systems(),
            files=self.job_files(),
            json_logs=get(observing_options.LOG_FORMAT) == "json",
        )

    def _restore(self) -> str:
        """Where the run begins: execution.savepoint.path stands in for changelog.restore."""
        restore: str = self.get(options.RESTORE)
        savepoint: str | None = self.get(options.SAVEPOINT_PATH)
        if savepoint is None:
            return restore
        if restore not in (options.RESTORE.default, savepoint):
            raise ConfigurationError(
                f"{options.SAVEPOINT_PATH.key} = {savepoint} and {options.RESTORE.key} = {restore} both say where "
                "the job begins: set one of them"
            )
        return savepoint if "/" in savepoint else f"./{savepoint}"

    def is_batch(self, sources: Sequence[Node]) -> bool:
        """Whether a job runs in BATCH mode.

        A source function is taken for one that never ends, as in Flink; only a program that says BATCH knows better.

        Raises:
            InvalidJobError: BATCH was asked for, and a source never ends.
        """
        mode = self.get(options.RUNTIME_MODE)
        if mode == "AUTOMATIC":
            return all(
                each.function.bounded and not isinstance(each.function, IterableSource) for each in sources
            )
        endless = [repr(each.label) for each in sources if not each.function.bounded]
        if mode == "BATCH" and endless:
            raise InvalidJobError(
                f"RuntimeExecutionMode.BATCH needs sources that end, and of this job {' and '.join(endless)} "
                f"{'does' if len(endless) == 1 else 'do'} not: use STREAMING or AUTOMATIC"
            )
        return bool(mode == "BATCH")

    def _base_path(self) -> str:
        brought = self._backend()._checkpoints
        path = self.get(options.BASE_PATH) or (None if brought is None else brought._path)
        return absolute_path(path or self.layers().base_path())

    def _state_settings(self) -> dict[str, Any]:
        """The fields of JobSettings that tell where state is kept.

        Raises:
            ConfigurationError: an option that cannot be used, or a class that cannot be imported.
            NotSerializableError: a class that cannot be shipped.
        """
        backend = self._backend()
        storage = backend._checkpoints or self.checkpoint_storage()
        chosen: dict[str, Any] = {
            "state_backend": backend._kind,
            "max_state_bytes": None if storage is None else storage._max_state_size,
        }
        if backend._kind == ROCKSDB:
            layers = self.layers()
            texts = {option.key: layers.text(option.key) for option in rocksdb.ROCKSDB_OPTIONS}
            said = {key: text for key, text in texts.items() if text is not None} | backend._options()
            factory = options_factory(said)
            check_rocksdb(said)
            chosen["state_options"] = said
            if factory is not None:
                chosen["state_class"] = pickled_class(factory, f"option {rocksdb.OPTIONS_FACTORY.key!r}")
        elif isinstance(backend, CustomStateBackend):
            found = backend._backend
            if isinstance(found, str):
                found = load_class(found, "the custom state backend")
                check_backend_class(found, "the custom state backend")
            chosen["state_class"] = pickled_class(found, "the custom state backend")
        return chosen

    def _backend(self) -> StateBackend:
        return self.state_backend() or self._configured_backend(self.get(options.STATE_BACKEND))

    def _configured_backend(self, kind: str) -> StateBackend:
        if kind == HASHMAP:
            return HashMapStateBackend()
        if kind != ROCKSDB:
            return CustomStateBackend(kind)
        backend, get = EmbeddedRocksDBStateBackend(), self.get
        backend._paths = local_dirs(get(rocksdb.LOCAL_DIR)) or None
        backend._predefined = PredefinedOptions[get(rocksdb.PREDEFINED)]
        backend._factory = get(rocksdb.OPTIONS_FACTORY)
        backend._threads = get(rocksdb.TRANSFER_THREADS)
        return backend


class LiveEntries(MutableMapping[str, Any]):
    """The options of an environment, as a mapping: what is set here is checked at once, and holds for the environment."""

    def __init__(self, settings: EnvironmentSettings) -> None:
        self._settings = settings

    def __getitem__(self, key: str) -> str:
        return self._settings.layers().merged()[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._settings.configure(Configuration({key: value}))

    def __delitem__(self, key: str) -> None:
        self._settings.remove(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings.layers().merged())

    def __len__(self) -> int:
        return len(self._settings.layers().merged())


def default_local_parallelism() -> int:
    """Parallelism of environments that nothing else gives one: as set, else the cores."""
    return _default_local_parallelism[0] or _cores()


def set_default_local_parallelism(parallelism: int) -> None:
    """Set the parallelism of environments made from now on that nothing else gives one."""
    _default_local_parallelism[0] = parallelism


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _refuse_unsupported(level: ConfigLayers) -> None:
    """Refuse values that are well written and not in this version, or out of range."""
    if level.is_set(options.PARALLELISM):
        checked_parallelism(level.get(options.PARALLELISM), f"option {options.PARALLELISM.key!r}")
    if level.is_set(options.MAX_PARALLELISM):
        checked_max_parallelism(level.get(options.MAX_PARALLELISM), f"option {options.MAX_PARALLELISM.key!r}")
    if level.get(options.LINEAGE_RECORDS):
        raise NotSupportedError(f"{options.LINEAGE_RECORDS.key} is not part of this version; leave it false")
    if not _RESTORE.fullmatch(level.get(options.RESTORE)):
        raise ConfigurationError(
            f"option {options.RESTORE.key!r}: expected auto, none, latest, a checkpoint id, -2, attempt:3, "
            f"a time such as 12:00:05 or 2026-01-31T12:00:05, or the path of a savepoint, got {level.get(options.RESTORE)!r}"
        )
