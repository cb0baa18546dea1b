"""Opens the state backend that a job's settings ask for, in the worker process that uses it."""

from __future__ import annotations

import importlib
import inspect
import os
import pickle
from collections.abc import Mapping
from typing import Any

from changelog_engine.codec import by_value
from changelog_engine.config import ConfigLayers, local_path
from changelog_engine.config import rocksdb_options as keys
from changelog_engine.errors import ArgumentTypeError, ConfigurationError, NotSerializableError
from changelog_engine.graph.nodes import JobSettings
from changelog_engine.state.backend import PAGE, StateBackend
from changelog_engine.state.heap import HeapBackend

HASHMAP, ROCKSDB, CUSTOM = "hashmap", "rocksdb", "custom"
# Flink's factory that applies the options by key, which happens here in any case.
_FLINK_FACTORIES = (
    "org.apache.flink.contrib.streaming.state.DefaultConfigurableOptionsFactory",
    "org.apache.flink.state.rocksdb.DefaultConfigurableOptionsFactory",
)
_OLDER = ("state", "timers")  # what backends had to implement before they gave tables only


def open_backend(settings: JobSettings, job: str, stage: int, subtask: int) -> StateBackend:
    """A backend, empty.

    Args:
        job: its name, for the names of local folders.

    Raises:
        ConfigurationError: a custom backend that is not one, or options that RocksDB does not take.
    """
    if settings.state_backend == HASHMAP:
        return HeapBackend()
    loaded = None if settings.state_class is None else pickle.loads(settings.state_class)
    if settings.state_backend == CUSTOM:
        return _custom(loaded)
    from changelog_engine.state.local_folder import LocalFolder
    from changelog_engine.state.rocksdb import RocksDBBackend
    from changelog_engine.state.rocksdb_options import rocksdb_options
    from changelog_engine.state.rocksdb_store import RocksStore

    options = settings.state_options
    roots = local_dirs(ConfigLayers(code=options).get(keys.LOCAL_DIR))
    root = roots[(stage + subtask) % len(roots)] if roots else None

    def open_store() -> RocksStore:
        folder = LocalFolder(root, f"{job}-stage-{stage}-subtask-{subtask}")
        return RocksStore(folder, rocksdb_options(options, loaded))

    return RocksDBBackend(open_store, ConfigLayers(code=options).get(keys.CACHE_SIZE), root)


def local_dirs(text: str | None) -> list[str]:
    """The folders that an option names, separated by commas, or plain ones by colons.

    Raises:
        ConfigurationError: one is relative or not local.
    """
    found = []
    text = text or ""
    parts = text.split(os.pathsep) if "," not in text and "file:" not in text.lower() else text.split(",")
    for part in [part.strip() for part in parts]:
        if not part:
            continue
        path = local_path(part)
        if path is None or not (os.path.isabs(part) or part.lower().startswith("file:")):
            raise ConfigurationError(
                f"option {keys.LOCAL_DIR.key!r}: expected absolute local paths, got {part!r}"
            )
        found.append(path)
    return found


def check_rocksdb(options: Mapping[str, str]) -> None:
    """Refuse options that RocksDB does not take, before anything runs.

    Raises:
        ConfigurationError: names the option.
    """
    from changelog_engine.state.rocksdb_options import rocksdb_options

    local_dirs(ConfigLayers(code=options).get(keys.LOCAL_DIR))
    rocksdb_options(options)


def options_factory(options: Mapping[str, str]) -> Any:
    """The class of the options factory, or None. Flink's own factory does what happens here in any case.

    Raises:
        ConfigurationError: it cannot be imported.
    """
    path = ConfigLayers(code=options).get(keys.OPTIONS_FACTORY)
    if path is None or path in _FLINK_FACTORIES:
        return None
    return load_class(path, f"option {keys.OPTIONS_FACTORY.key!r}")


def pickled_class(found: Any, what: str) -> bytes:
    """A class for the workers, by value when they cannot import it.

    Raises:
        NotSerializableError: it cannot be pickled; the message begins with ``what``.
    """
    try:
        return by_value.dumps(found)
    except Exception as error:
        raise NotSerializableError(f"{what}: {found!r} cannot be shipped to the workers: {error}") from error


def check_backend_class(found: Any, what: str) -> None:
    """Refuse what cannot make a state backend.

    Raises:
        ArgumentTypeError: it is not a class or a function.
        ConfigurationError: a class that does not derive from StateBackend, or one for its older form.
    """
    if not callable(found):
        raise ArgumentTypeError(f"{what} must be a class that derives from StateBackend, got {found!r}")
    if isinstance(found, type):
        _check_class(found, what)


def _check_class(found: type, what: str) -> None:
    older = [name for name in _OLDER if name in dir(found)]
    if older:
        raise ConfigurationError(
            f"{what}: {found.__qualname__} has {' and '.join(f'{name}()' for name in older)}, which state backends "
            "no longer have. A backend gives tables, and the engine makes the handles: derive from "
            "changelog_engine.state.StateBackend, keep table(operator, state, kind), end_epoch() and close(), and remove "
            f"state(), timers(), cursor and queues; see {PAGE}"
        )
    if not issubclass(found, StateBackend):
        raise ConfigurationError(
            f"{what}: {found.__qualname__} does not derive from changelog_engine.state.StateBackend: see {PAGE}"
        )
    if inspect.isabstract(found):
        raise ConfigurationError(f"{what}: {found.__qualname__} has no method table(): see {PAGE}")


def _custom(factory: Any) -> StateBackend:
    check_backend_class(factory, "the custom state backend")
    try:
        backend = factory()
    except Exception as error:
        raise ConfigurationError(f"the custom state backend {factory!r} cannot be made: {error!r}") from error
    _check_class(type(backend), "the custom state backend")
    assert isinstance(backend, StateBackend)
    return backend


def load_class(path: str, what: str) -> Any:
    """The class that a path such as ``package.module.Class`` names.

    Raises:
        ConfigurationError: it is not there; the message begins with ``what``.
    """
    module, _, name = path.replace(":", ".").rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"{what}: {path!r} is not a Python class that can be imported: {error}; "
            "give 'package.module.Class', the module beside the program or installed"
        ) from error
