"""Tests of what a user may not do: root, who may everything, stands back for them."""

from __future__ import annotations

import contextlib
import os
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
        as_root = os.geteuid() == 0
        if as_root:
            os.seteuid(_NOBODY)
        try:
            yield closed
        finally:
            if as_root:
                os.seteuid(0)
            for folder in (Path(above), closed):
                folder.chmod(0o755)
