"""The demo's folder: made by it, locked while it runs, and begun anew by the next demo.

Invariants:
    * A folder that has anything in it and no mark of the demo is refused; nothing of it is changed.
    * In a folder with the mark only what the demo itself makes is removed, and links are not followed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from changelog_engine.errors import ForeignPathError, StorageError
from changelog_engine.storage.locks import LockTakenError, lock_file
from changelog_engine.storage.retry import storage_error

MARK = ".changelog-engine-demo"
SCRIPT, DATA, OUTPUT, JOBS, JOB = "payments.py", "payments.csv", "job.log", "jobs", "payments"


@contextmanager
def demo_folder(path: Path) -> Iterator[None]:
    """Make the folder, or empty one that an earlier demo left, and hold it.

    Raises:
        ForeignPathError: it has files, and no demo made it.
        StorageError: it cannot be written, or a demo runs in it.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        mark = path / MARK
        if not mark.is_file() and any(path.iterdir()):
            raise ForeignPathError(
                f"{path} has files, and no demo made them: name another folder by --folder, or remove it",
                str(path),
            )
    except OSError as error:
        raise _explained(error, "make the demo's folder", path) from error
    try:
        lock = lock_file(str(mark), os.O_CREAT | os.O_NOFOLLOW)
    except LockTakenError as error:
        raise StorageError(
            f"a demo is running in {path}: wait for its end, or name another folder by --folder", str(path)
        ) from error
    try:
        try:
            text = files("changelog_engine.demo").joinpath("scripts", SCRIPT).read_text(encoding="utf-8")
            _empty(path, text)
            (path / JOBS).mkdir(exist_ok=True)
            (path / SCRIPT).write_text(text, encoding="utf-8")
        except OSError as error:
            raise _explained(error, "begin the demo anew in", path) from error
        yield
    finally:
        lock.release()


def empty_job(path: Path) -> None:
    """Remove what the job left.

    Raises:
        OSError: it cannot be removed.
    """
    job = path / JOBS / JOB
    if (path / JOBS).is_symlink():
        (path / JOBS).unlink()
    elif job.is_symlink():
        job.unlink()
    elif job.exists():
        shutil.rmtree(job)


def _empty(path: Path, text: str) -> None:
    script = path / SCRIPT
    if script.exists() and script.read_text(encoding="utf-8", errors="replace") != text:
        raise ForeignPathError(
            f"{script} is not what the demo writes, so it may be yours: name another folder by --folder, or remove "
            f"{SCRIPT} there",
            str(script),
        )
    for name in (SCRIPT, DATA, OUTPUT):
        (path / name).unlink(missing_ok=True)
    empty_job(path)


def _explained(error: OSError, what: str, path: Path) -> StorageError:
    return error if isinstance(error, StorageError) else storage_error(error, what, str(path), 1)
