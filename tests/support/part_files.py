"""Part files of a sink, as a reader of the folder sees them, and writers of one subtask."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from changelog_engine.connectors import CommittingWriter, SinkContext
from changelog_engine.connectors.files import BasePathBuckets, FileSink, StringEncoder


def finished(out: Path) -> list[Path]:
    """Files that are not hidden."""
    return [
        path
        for path in sorted(Path(out).rglob("*"))
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(out).parts)
    ]


def hidden(out: Path) -> list[Path]:
    """Files that are."""
    return [path for path in Path(out).rglob("*") if path.is_file() and path not in finished(out)]


def lines(out: Path) -> Counter[str]:
    """What the finished files say."""
    return Counter(line for path in finished(out) for line in path.read_text().splitlines())


def sink_to(out: Path, rolling: Any = None, **more: Any) -> FileSink:
    """A sink of text, without buckets unless they are given."""
    return FileSink(str(out), StringEncoder(), more.pop("buckets", BasePathBuckets()), rolling, **more)


def context(
    subtask: int = 0,
    parallelism: int = 1,
    attempt: int = 1,
    restored: Any = (),
    job: str = "job",
    folder: str = "",
) -> SinkContext:
    """Where a writer stands."""
    return SinkContext(job, "sink", subtask, parallelism, "run", attempt, True, restored, folder)


class Clock:
    """A wall clock that a test turns."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def bucket_of(value: Any) -> str:
    """Some bucket of a number."""
    return f"b{int(value) % 3}/deep" if int(value) % 4 else ""


def counter_of(path: Path) -> int:
    """The counter in a part file's name."""
    return int(path.name.split(".")[0].rsplit("-", 1)[1])


def commit_at_once(writers: Sequence[CommittingWriter], committables: Sequence[Any]) -> None:
    """Have all writers commit the same, each in a thread; raises what one of them raises."""
    start = threading.Barrier(len(writers))

    def commit(writer: CommittingWriter) -> None:
        start.wait()
        writer.commit(committables)

    with ThreadPoolExecutor(len(writers)) as pool:
        list(pool.map(commit, writers))
