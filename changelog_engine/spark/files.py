"""What a job's workers need besides the engine: modules, packages, archives, files under names, an interpreter, jars.

Everything but jars and an absolute interpreter travels as ONE archive, named by its contents: ``python/<n>`` are entries of
the import path, ``work`` is the workers' working directory. Spark unpacks it on each executor before the job's first task.

Invariants:
    * Staging runs nothing on Spark and touches no job folder; what can be refused is refused there.
    * A process serves jobs with the same files only: their name is one of the variables by which Spark finds it. So a module
      that changed between two jobs of a session is never a stale one.
    * Jobs without files do none of this.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pyspark import SparkContext, SparkFiles

from changelog_engine.config import local_path, paths
from changelog_engine.errors import ConfigurationError, EnvironmentNotReadyError, StorageError
from changelog_engine.graph.files import JobFiles, Requirements
from changelog_engine.graph.nodes import JobSettings
from changelog_engine.spark.masters import is_local
from changelog_engine.spark.session import active_context

log = logging.getLogger("changelog_engine")

FILES_VARIABLE = "CHANGELOG_ENGINE_FILES"
_ZIP_ENDINGS = (".zip", ".egg", ".whl", ".jar")
_CHUNK = 1 << 20


@dataclass(frozen=True)
class StagedFiles:
    """The archive of a job's files, on the driver's disk.

    Args:
        archive: its path; None for a job that has none.
        name: the folder it is unpacked to.
        python: the interpreter; absolute, or relative to the working directory; None for the driver's.
    """

    archive: str | None = None
    name: str = ""
    python: str | None = None


@dataclass(frozen=True)
class WorkerFiles:
    """What the Python side of a job's tasks differs in: the interpreter (None for Spark's), and variables."""

    python: str | None = None
    variables: dict[str, str] = field(default_factory=dict)


NO_FILES = WorkerFiles()


def with_jars(settings: JobSettings) -> dict[str, str]:
    """The options of a session that a job starts: its own, and its jars.

    A session that is active already keeps its class path; a warning names the jars that are not on it.
    """
    if not settings.files.jars:
        return settings.spark
    active = active_context()
    if active is not None:
        loaded = {local_path(jar) for jar in active.getConf().get("spark.jars", "").split(",")}
        missing = [jar for jar in settings.files.jars if local_path(jar) not in loaded]
        if missing:
            log.warning(
                "Jars reach a Spark session when it starts, and one is active already: %s cannot be added. Give them to "
                "the session that you start: SparkSession.builder.config('spark.jars', ...)",
                ", ".join(missing),
            )
        return settings.spark
    given = [jar for jar in settings.spark.get("spark.jars", "").split(",") if jar]
    return {**settings.spark, "spark.jars": ",".join([*given, *settings.files.jars])}


def stage(files: JobFiles) -> StagedFiles:
    """Put a job's files into one archive.

    Raises:
        ConfigurationError: a file of a kind that cannot be imported or unpacked, or an interpreter that is not there.
        EnvironmentNotReadyError: pip could not install the required packages.
    """
    executable = files.python_executable
    if executable is not None and os.path.isabs(executable) and not os.path.isfile(executable):
        raise ConfigurationError(f"set_python_executable: there is no interpreter {executable!r}")
    if not (files.python_files or files.archives or files.cached or files.requirements):
        return StagedFiles(python=executable)
    with tempfile.TemporaryDirectory(prefix="changelog-engine-") as scratch:
        root = Path(scratch)
        work = root / "work"
        work.mkdir()
        for number, path in enumerate(files.python_files):
            _put_python(Path(path), root / "python" / str(number))
        if files.requirements is not None:
            _install(files.requirements, executable, root / "python" / str(len(files.python_files)))
        for path, target in files.archives:
            _unpack(Path(path), work / target)
        for path, name, runnable in files.cached:
            if (work / name).exists():
                raise ConfigurationError(
                    f"register_cached_file: an archive is unpacked to {name!r}; take another name"
                )
            shutil.copyfile(path, work / name)
            (work / name).chmod(0o755 if runnable else 0o644)
        if executable is not None and os.sep in executable and not (work / executable).is_file():
            # An absolute path stays what it is: work / "/x" is "/x".
            raise ConfigurationError(
                f"set_python_executable: no archive of the job has {executable!r}; a relative path begins with an "
                "archive's target_dir"
            )
        return _packed(root, executable)


def add_archive(context: SparkContext, staged: StagedFiles) -> WorkerFiles:
    """Hand the archive to Spark, once per session."""
    if staged.archive is None:
        return WorkerFiles(staged.python)
    listed = {entry.rpartition("#")[2] for entry in context.listArchives}
    if staged.name not in listed:
        context.addArchive(f"{staged.archive}#{staged.name}")
    return WorkerFiles(_on_workers(context, staged), {FILES_VARIABLE: staged.name})


def workers_directory(context: SparkContext) -> str | None:
    """Where functions of a job that starts now work: where the program does; None where Spark says it, on other machines."""
    return paths.working_directory() if is_local(context.master) else None


def enter() -> None:
    """In a worker, before its job's functions are unpickled: use the files of the job, if it has any.

    Raises:
        EnvironmentNotReadyError: somebody removed them.
    """
    name = os.environ.get(FILES_VARIABLE)
    if name:
        _enter(name)


def work_in(folder: str | None) -> None:
    """In a worker: go where the program works, unless the job's files lie in a folder of their own.

    A worker serves one job after the other, and programs may change their folder between them.

    Args:
        folder: None leaves the worker where it is.

    Raises:
        StorageError: it cannot be entered.
    """
    if folder is None or os.environ.get(FILES_VARIABLE):
        return
    try:
        os.chdir(folder)
    except OSError as error:
        raise StorageError(
            f"the folder {folder}, in which the program started the job, cannot be entered ({error.strerror}): "
            "relative paths of its functions begin there. Put it back",
            folder,
        ) from error


@functools.cache  # "." stands for another folder after the first time
def _enter(name: str) -> None:
    root = Path(os.path.abspath(SparkFiles.getRootDirectory()), name)
    entries = sorted((root / "python").iterdir()) if (root / "python").is_dir() else []
    if not all(any(path.is_file() for path in folder.rglob("*")) for folder in entries or [root]):
        raise EnvironmentNotReadyError(
            f"the files that the job ships are gone from Spark's folder {root}: somebody removed them, as cleaners of "
            "temporary files do with old ones",
            "Run the job again: it goes on from its last checkpoint. Name folders that nobody cleans by spark.local.dir",
        )
    sys.path[1:1] = [str(entry) for entry in entries]
    sys.path[:] = [_absolute(entry) for entry in sys.path]
    work = root / "work"
    work.mkdir(exist_ok=True)  # Spark drops folders that have no files when it unpacks
    os.chdir(work)


def _absolute(entry: str) -> str:
    """Relative entries that Spark made stay true; in a folder that is gone they lead nowhere anyway."""
    try:
        return os.path.abspath(entry) if entry else entry
    except FileNotFoundError:
        return entry


def _on_workers(context: SparkContext, staged: StagedFiles) -> str | None:
    """The interpreter as the executor's process sees it, which starts it."""
    python = staged.python
    if python is None or os.path.isabs(python) or os.sep not in python:
        return python
    root = SparkFiles.getRootDirectory() if is_local(context.master) else "."
    return os.path.join(root, staged.name, "work", python)


def _put_python(source: Path, target: Path) -> None:
    """Make a folder for the import path of a module, a folder or an archive."""
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    elif source.suffix == ".py":
        target.mkdir(parents=True)
        shutil.copyfile(source, target / source.name)
    elif source.name.lower().endswith(_ZIP_ENDINGS):
        _unpack(source, target)
    else:
        raise ConfigurationError(
            f"add_python_file: {str(source)!r} cannot be imported: give a .py file, a folder, or a file ending in "
            f"{', '.join(_ZIP_ENDINGS)}"
        )


def _unpack(archive: Path, target: Path) -> None:
    try:
        if archive.name.lower().endswith(_ZIP_ENDINGS):
            with zipfile.ZipFile(archive) as packed:
                for entry in packed.infolist():
                    made = packed.extract(entry, target)
                    mode = (entry.external_attr >> 16) & 0o777
                    if mode and not entry.is_dir():
                        os.chmod(made, mode | 0o600)
        else:
            with tarfile.open(archive) as packed_tar:
                packed_tar.extractall(target, filter="data")
    except (zipfile.BadZipFile, tarfile.TarError) as error:
        raise ConfigurationError(f"{str(archive)!r} cannot be unpacked: {error}") from error
    target.mkdir(exist_ok=True, parents=True)


def _install(requirements: Requirements, executable: str | None, target: Path) -> None:
    python = executable if executable is not None and os.path.isabs(executable) else sys.executable
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-compile", "--target", str(target), "-r", requirements.path]
    if requirements.cache is not None:
        command += ["--no-index", "--find-links", requirements.cache]
    remedy = (
        "Install the packages on every machine, or have set_python_requirements() name a folder made by 'pip download -d "
        "folder -r requirements.txt', or ship a Python with them by add_python_archive() and set_python_executable()"
    )
    try:
        # No limit of our own: a large download may be slow, and pip gives up by itself on an index that does not answer.
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise EnvironmentNotReadyError(
            f"pip could not be run for {requirements.path}: {error}", remedy
        ) from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-1000:]
        raise EnvironmentNotReadyError(
            f"pip could not install the packages of {requirements.path}: {said}", remedy
        )
    target.mkdir(exist_ok=True, parents=True)


def _packed(root: Path, executable: str | None) -> StagedFiles:
    digest = hashlib.sha256()
    for path, inner in _walk(root):
        digest.update(f"{inner}\0{path.stat().st_mode:o}\0".encode("utf-8", "surrogateescape"))
        if path.is_file():
            digest.update(path.stat().st_size.to_bytes(8, "big"))
            with path.open("rb") as stream:
                while chunk := stream.read(_CHUNK):
                    digest.update(chunk)
    name = f"changelog-files-{digest.hexdigest()[:20]}"
    archive = Path(_kept_folder(), f"{name}.zip")
    if not archive.exists():
        unfinished = archive.with_suffix(f".{os.urandom(4).hex()}")
        with zipfile.ZipFile(unfinished, "w") as packed:
            for path, inner in _walk(root):
                packed.write(path, inner)
        os.replace(unfinished, archive)
    return StagedFiles(str(archive), name, executable)


def _walk(root: Path) -> Iterator[tuple[Path, str]]:
    """Folders and files below, in an order that is always the same."""
    for path in sorted(root.rglob("*")):
        if path.is_dir() or path.is_file():
            yield path, path.relative_to(root).as_posix()


@functools.cache
def _kept_folder() -> str:
    """Where archives stay until this process ends: executors fetch them from here."""
    folder = tempfile.mkdtemp(prefix="changelog-engine-files-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
