"""A source that does what a script says: elements, watermarks, checkpoints, crashes and pauses.

Invariants:
    * The position is an index of the script, so a restore goes on at any item.
    * What is not an element ends the epoch: all elements before it have been processed when it happens, and a watermark has
      come to all stages before the next item, or the end.
    * A crash happens once, in whatever process it is met: a file says that it has happened.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import os
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from changelog_engine.clock import monotonic_s
from changelog_engine.connectors.protocols import Position, Range, Source, Split, SplitReader
from changelog_engine.errors import ConfigurationError
from changelog_engine.event_time import NO_TIMESTAMP
from changelog_engine.types import TypeInformation

_KILLED = 137


class ScriptedCrashError(Exception):
    """What a `Crash` of a script raises."""


@dataclass(frozen=True)
class At:
    """An element with a timestamp.

    Args:
        timestamp: ms.

    Source: no counterpart in PyFlink; Flink's StreamRecord
    """

    value: Any
    timestamp: int


@dataclass(frozen=True)
class Watermark:
    """No element at or before this time follows.

    Args:
        timestamp: ms; each watermark of a script is larger than the one before.

    Source: no counterpart in PyFlink; Flink's Watermark
    """

    timestamp: int


@dataclass(frozen=True)
class Checkpoint:
    """Nothing after it is read before a checkpoint has what stands before it.

    The checkpoint comes when the job's interval says, so give the job a short one. Without checkpointing it has no effect.
    """


@dataclass(frozen=True)
class Crash:
    """A failure, once.

    Args:
        kill: False raises `ScriptedCrashError` in the task, which fails the epoch. True ends the worker process at once, as
            SIGKILL does; only on Spark, because in-process that would end the test itself.
    """

    kill: bool = False


@dataclass(frozen=True)
class Pause:
    """The source has nothing to give for a while; epochs and checkpoints go on.

    Args:
        duration_ms: how long, from when it is met; again after a restore.
    """

    duration_ms: int


_STOPS = (Watermark, Checkpoint, Crash, Pause)


class ScriptedSource(Source):
    """A source for tests that follows a script, for ``env.from_source``.

    On Spark and in the in-process runner alike. With ``WatermarkStrategy.no_watermarks()`` the script's own timestamps and
    watermarks hold; any other strategy replaces them. It is bounded, reads in one subtask, and can be replayed.

    Args:
        script: plain elements; `At` for elements with timestamps; `Watermark`, `Checkpoint`, `Crash` and `Pause`.
        type_info: declared type of the elements; None for undeclared.
        memory: folder in which crashes note that they have happened, which all workers see. None, the default: a
            temporary one, removed with this process. Name one when a script is to be run by one process after another.

    Raises:
        ConfigurationError: ``script`` is not a list of items, or its watermarks do not grow.

    Example:
        >>> source = ScriptedSource([At("a", 1), Watermark(5), Checkpoint(), "b"])
        >>> reader = source.reader(source.splits(1)[0])
        >>> reader.read(0, 10).values, reader.read(1, 10).next, reader.watermark
        (['a'], 2, 5)
    """

    bounded = True
    parallel = False

    def __init__(
        self,
        script: Iterable[Any],
        type_info: TypeInformation | None = None,
        memory: str | os.PathLike[str] | None = None,
    ) -> None:
        if isinstance(script, (str, bytes, dict)) or not isinstance(script, Iterable):
            raise ConfigurationError(
                f"ScriptedSource: script must be a list of items, got {type(script).__name__}"
            )
        self.script = list(script)
        self.output_type = type_info
        times = [item.timestamp for item in self.script if isinstance(item, Watermark)]
        if any(later <= earlier for earlier, later in itertools.pairwise(times)):
            raise ConfigurationError(f"ScriptedSource: the watermarks of a script must grow, got {times}")
        self.timed = any(isinstance(item, At) for item in self.script)
        self._driver = os.getpid()
        self._name = uuid.uuid4().hex if memory is None else "crash"
        self._memory = None if memory is None else os.fspath(memory)
        if memory is None and any(isinstance(item, Crash) for item in self.script):
            self._memory = tempfile.mkdtemp(prefix="changelog-engine-script-")
            weakref.finalize(self, shutil.rmtree, self._memory, True)

    def splits(self, parallelism: int) -> list[Split]:
        return [Split("script", 0)]

    def reader(self, split: Split) -> ScriptedReader:
        return ScriptedReader(self)

    def timestamps(self, items: list[Any]) -> list[int] | None:
        """The timestamps of some elements; None when no element of the script has one."""
        if not self.timed:
            return None
        return [item.timestamp if isinstance(item, At) else NO_TIMESTAMP for item in items]

    def crash(self, index: int) -> None:
        """Crash, unless the crash at this index has happened.

        Raises:
            ConfigurationError: it is to kill a worker process, and there is none.
        """
        assert self._memory is not None
        kill = self.script[index].kill
        if kill and os.getpid() == self._driver:
            raise ConfigurationError(
                "Crash(kill=True) ends a worker process of Spark, and this job runs in the process that made the source: "
                "use Crash()"
            )
        os.makedirs(self._memory, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(os.path.join(self._memory, f"{self._name}-{index}"), os.O_CREAT | os.O_EXCL))
            if kill:
                os._exit(_KILLED)
            raise ScriptedCrashError(f"crash of item {index} of the script")


class ScriptedReader(SplitReader):
    """Reads a script; see `ScriptedSource`."""

    def __init__(self, source: ScriptedSource) -> None:
        self._source = source
        self._durable = True
        self._pause: tuple[int, float] | None = None  # index, end
        self.replays = False  # in a replay nothing crashes or pauses

    def begin_epoch(self, durable: bool) -> None:
        self._durable = durable

    def read(self, position: Position, max_records: int) -> Range:
        """The elements up to the next item that is none; or what that does, and no elements."""
        script = self._source.script
        if self.watermark is None:
            before = [item.timestamp for item in script[:position] if isinstance(item, Watermark)]
            self.watermark = before[-1] if before else None
        end = position
        while end < len(script) and end - position < max_records and not isinstance(script[end], _STOPS):
            end += 1
        if end == position and end < len(script):
            end += self._stopped(position)
            # Behind a last watermark the end comes in an epoch of its own, or nobody would see the watermark.
            return Range([], end, end == len(script) and not isinstance(script[position], Watermark))
        items = script[position:end]
        values = [item.value if isinstance(item, At) else item for item in copy.deepcopy(items)]
        return Range(values, end, end == len(script), self._source.timestamps(items))

    def _stopped(self, index: int) -> int:
        """Do what an item says; returns 1 when it is done."""
        item = self._source.script[index]
        if isinstance(item, Watermark):
            self.watermark = item.timestamp
        elif isinstance(item, Checkpoint):
            return int(self._durable)
        elif self.replays:
            return 1
        elif isinstance(item, Crash):
            self._source.crash(index)
        elif isinstance(item, Pause):
            if self._pause is None or self._pause[0] != index:
                self._pause = index, monotonic_s() + item.duration_ms / 1000
            return int(monotonic_s() >= self._pause[1])
        return 1
