"""From what a program and its configuration say of state backends and checkpoint storages to the job's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from changelog_engine.config import options
from changelog_engine.config import rocksdb_options as keys
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

from .checkpoint_storage import CheckpointStorage, JobManagerCheckpointStorage
from .state_backend import (
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    PredefinedOptions,
    StateBackend,
)

if TYPE_CHECKING:
    from ._settings import EnvironmentSettings

STATE_BACKEND, CHECKPOINT_STORAGE = "state backend", "checkpoint storage"  # in EnvironmentSettings.kept


def backend_from_code(settings: EnvironmentSettings) -> StateBackend | None:
    """The backend that the program set, as an object or by its configuration; None for none."""
    if settings.kept.get(STATE_BACKEND) is not None:
        backend: StateBackend = settings.kept[STATE_BACKEND]
        return backend
    kind = settings.get_from_code(options.STATE_BACKEND)
    return None if kind is None else _configured(kind, settings)


def storage_from_options(settings: EnvironmentSettings) -> CheckpointStorage | None:
    """The storage that the options name without a folder."""
    if settings.get(options.CHECKPOINT_STORAGE) == "jobmanager":
        return JobManagerCheckpointStorage(settings.get(options.CHECKPOINT_DIR))
    return None


def legacy_path(settings: EnvironmentSettings) -> str | None:
    """The folder of a backend that brings its checkpoint storage along."""
    storage = _backend(settings)._storage()
    return None if storage is None else storage._path


def state_settings(settings: EnvironmentSettings) -> dict[str, Any]:
    """The fields of JobSettings that tell where state is kept.

    Raises:
        ConfigurationError: an option that cannot be used, or a class that cannot be imported.
        NotSerializableError: a class that cannot be shipped.
    """
    backend = _backend(settings)
    chosen: dict[str, Any] = {"state_backend": backend._kind, "max_state_bytes": _bound(settings, backend)}
    if backend._kind == ROCKSDB:
        layers = settings.layers()
        texts = {option.key: layers.text(option.key) for option in keys.ROCKSDB_OPTIONS}
        texts = {key: text for key, text in texts.items() if text is not None} | backend._options()
        factory = options_factory(texts)
        check_rocksdb(texts)
        chosen["state_options"] = texts
        if factory is not None:
            chosen["state_class"] = pickled_class(factory, f"option {keys.OPTIONS_FACTORY.key!r}")
    elif isinstance(backend, CustomStateBackend):
        found = backend._backend
        if isinstance(found, str):
            found = load_class(found, "the custom state backend")
            check_backend_class(found, "the custom state backend")
        chosen["state_class"] = pickled_class(found, "the custom state backend")
    return chosen


def _backend(settings: EnvironmentSettings) -> StateBackend:
    return backend_from_code(settings) or _configured(settings.get(options.STATE_BACKEND), settings)


def _configured(kind: str, settings: EnvironmentSettings) -> StateBackend:
    if kind == HASHMAP:
        return HashMapStateBackend()
    if kind != ROCKSDB:
        return CustomStateBackend(kind)
    backend, get = EmbeddedRocksDBStateBackend(), settings.get
    backend._paths = local_dirs(get(keys.LOCAL_DIR)) or None
    backend._predefined = PredefinedOptions[get(keys.PREDEFINED)]
    backend._factory = get(keys.OPTIONS_FACTORY)
    backend._threads = get(keys.TRANSFER_THREADS)
    return backend


def _bound(settings: EnvironmentSettings, backend: StateBackend) -> int | None:
    storage = backend._storage() or settings.kept.get(CHECKPOINT_STORAGE) or storage_from_options(settings)
    return None if storage is None else storage._bound()
