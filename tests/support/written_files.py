"""Files written by a bulk sink and read back, for tests of formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from changelog_engine.connectors import SinkContext
from changelog_engine.connectors.files import BasePathBuckets, FileSink
from changelog_engine.testing.conformance import check_source


def write(folder: Path, factory: Any, elements: list[Any]) -> Path:
    """Write elements by a bulk sink; returns the one file."""
    sink = FileSink(str(folder), factory._factory, BasePathBuckets())
    writer = sink.committing_writer(SinkContext("job", "sink", 0, 1, "run", 1, True, ()))
    try:
        for start in range(0, len(elements), 7):
            writer.write(elements[start : start + 7])
        writer.commit(writer.prepare(False).committables)
    finally:
        writer.close()
    (path,) = folder.iterdir()
    return path


def read(source: Any) -> list[Any]:
    """What a source of the API gives, read in every way."""
    return check_source(source._source)
