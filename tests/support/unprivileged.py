"""Tests of what a user may not do: root, who may everything, stands back for them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

_NOBODY = 65_534


@contextlib.contextmanager
def closed_folder() -> Iterator[Path]:
    """A folder that may be read and not written, by whoever the process is until the end of the context."""
    with tempfile.TemporaryDirectory() as above:
        closed = Path(above) / "closed"
        closed.mkdir()
        for folder in (Path(above), closed):
            folder.chmod(0o555)
        try:
            with _not_root():
                yield closed
        finally:
            for folder in (Path(above), closed):
                folder.chmod(0o755)


@contextlib.contextmanager
def nobodys_copy(folder: Path) -> Iterator[Path]:
    """A copy of a folder that belongs to a user without rights, who the process is until the end of the context.

    It does not lie below pytest's temporary folders, which every pytest that starts closes for others.
    """
    with tempfile.TemporaryDirectory() as above:
        copy = Path(shutil.copytree(folder, Path(above) / "base" / folder.name))
        if os.geteuid() == 0:
            for path in (Path(above), *Path(above).rglob("*")):
                os.chown(path, _NOBODY, _NOBODY)
        with _not_root():
            yield copy


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """A folder that cannot be written: mounted so where that is allowed, else by the permissions of all that is in it."""
    if os.geteuid() == 0 and _mounted("--bind", folder, folder):
        try:
            if not _mounted("-o", "remount,ro,bind", folder):
                raise OSError(f"{folder} could not be mounted again")
            yield
        finally:
            subprocess.run(["umount", folder], check=True)
        return
    modes = {path: path.stat().st_mode for path in (folder, *folder.rglob("*"))}
    for path, mode in modes.items():
        path.chmod(mode & ~0o222)
    try:
        with _not_root():
            yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def _mounted(*arguments: object) -> bool:
    return subprocess.run(["mount", *map(str, arguments)], capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def _not_root() -> Iterator[None]:
    as_root = os.geteuid() == 0
    if as_root:
        os.seteuid(_NOBODY)
    try:
        yield
    finally:
        if as_root:
            os.seteuid(0)
