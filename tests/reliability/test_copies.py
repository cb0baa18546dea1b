"""Reliability case 64: copies of a running job's folder restore exactly, or say what they lack."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.chance import chosen_seed
from support.functions import Count
from support.graphs import keyed_job
from support.jobs import NO_RESTART, TestJob
from support.killed_drivers import KEYS, Numbers
from support.materialized import AT_ONCE
from support.script import Script

from api.common.typeinfo import Types
from changelog_engine.changelog.model import Checkpoint
from changelog_engine.connectors.protocols import Range
from changelog_engine.errors import ChangelogEngineError
from changelog_engine.ledger.job_folder import find_job_folder
from materializer.fold import state_at
from materializer.materialize import materialize
from materializer.truncation import truncate

COPIES = 6
Copier = Callable[[Path, Path], None]


class Pairs(Numbers):
    """The numbers with their keys."""

    output_type: Any = None

    def read(self, position: int, max_records: int) -> Range:
        """See SplitReader."""
        found = super().read(position, max_records)
        return found._replace(values=[(number % KEYS, number) for number in found.values])


def graph(end: Path) -> Any:
    return keyed_job(Pairs(end), Count(), key_type=Types.LONG())


def counts(numbers: int) -> Counter[int]:
    return Counter(number % KEYS for number in range(numbers))


def read_until(checkpoint: Checkpoint) -> int:
    """How many numbers a checkpoint covers."""
    ((position, _),) = [split for splits in checkpoint.sources.values() for split in splits.values()]
    return int(position)


def with_cp(source: Path, target: Path) -> None:
    """What it finds gone it says, and goes on."""
    subprocess.run(["cp", "-r", source, target], capture_output=True, check=False)


def listed_first(source: Path, target: Path) -> None:
    """As rsync does: list everything, copy file by file in the names' order, leave out what is gone by then."""
    target.mkdir(parents=True, exist_ok=True)
    found = [Path(folder) / name for folder, _, names in os.walk(source) for name in names]
    for path in sorted(found):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(path, copy)


def once_more(source: Path, target: Path) -> None:
    """A copy brought up to date by a second one: files that are there already stay, also those that the job deleted."""
    listed_first(source, target)
    time.sleep(0.05)
    listed_first(source, target)


def log_first(source: Path, target: Path) -> None:
    """The table's log, and some time later its files."""
    listed_first(source / "changelog" / "_delta_log", target / "changelog" / "_delta_log")
    time.sleep(0.01)
    partial = target.with_name("rest")
    listed_first(source, partial)
    for path in partial.rglob("*"):
        copy = target / path.relative_to(partial)
        if path.is_file() and not copy.exists() and "_delta_log" not in path.parts:
            copy.parent.mkdir(parents=True, exist_ok=True)
            path.rename(copy)
    shutil.rmtree(partial)


class Upkept(TestJob):
    """A job that keeps what each of its checkpoints covers."""

    def __init__(self, base: Path) -> None:
        super().__init__(base, Script(sizes=(5, 17, 40)))
        self.read: dict[int, int] = {}

    def on_commit(self, checkpoint: Checkpoint) -> None:
        self.read[checkpoint.id] = read_until(checkpoint)


def copy_while_it_runs(job: Upkept, copy: Copier, into: Path, chance: random.Random) -> None:
    """Make the copies, at moments that are as they come; materialize and truncate in between."""
    folder = find_job_folder(job.settings.base_path, "job")
    for number in range(COPIES):
        before = len(job.commits)
        while len(job.commits) < before + chance.randint(0, 2):
            time.sleep(0.001)
        upkeep = threading.Thread(target=keep_up, args=(folder,)) if chance.random() < 0.5 else None
        if upkeep is not None:
            upkeep.start()
        time.sleep(chance.uniform(0, 0.01))
        (into / str(number)).mkdir(parents=True)
        copy(Path(folder.storage.root), into / str(number) / "job")
        if upkeep is not None:
            upkeep.join()


def keep_up(folder: Any) -> None:
    materialize(folder)
    truncate(folder, AT_ONCE)


@pytest.mark.slow
@pytest.mark.parametrize("copy", [with_cp, listed_first, once_more, log_first])
def test_case_64_a_copy_restores_exactly_or_says_what_it_lacks(tmp_path: Path, copy: Copier) -> None:
    seed = chosen_seed()
    job = Upkept(tmp_path / "log")
    end = tmp_path / "end"
    failures: list[BaseException] = []

    def copies() -> None:
        try:
            while not job.commits:
                time.sleep(0.001)
            copy_while_it_runs(job, copy, tmp_path / "copies", random.Random(seed))
        except BaseException as error:
            failures.append(error)
        finally:
            end.write_text(str(max(job.read.values()) + 100))

    copier = threading.Thread(target=copies)
    copier.start()
    job.run_driver(graph(end))
    copier.join()
    assert failures == []
    opened = [what_it_is(tmp_path / "copies" / str(number), end, job.read) for number in range(COPIES)]
    restored = [state for state, _ in opened if state]
    went_on = [end for _, end in opened if end]
    print(f"{len(restored)} of {COPIES} could be read, {len(went_on)} went on")
    assert went_on or copy is log_first, "no copy could be restored"


def what_it_is(base: Path, end: Path, read: dict[int, int]) -> tuple[bool, bool]:
    """Whether a copy's state could be read, and whether it went on to the end; raises when it was wrong."""
    complaints = []
    found = None
    try:
        folded = state_at(str(base / "job" / "changelog"))
    except ChangelogEngineError as error:
        complaints.append(str(error))
    else:
        found = folded.checkpoint.id
        assert read_until(folded.checkpoint) == read[found]
        assert folded.states["process", "count"] == counts(read[found])
    again = TestJob(base, restart=NO_RESTART)
    went_on = False
    try:
        again.run_driver(graph(end), restore="latest")
        went_on = True
    except ChangelogEngineError as error:
        complaints.append(str(error))
    assert all(str(base) in complaint for complaint in complaints), complaints
    if went_on:
        last = int(end.read_text())
        assert state_at(again.table()).states["process", "count"] == counts(last)
        begins = read[found] if found is not None else 0
        assert len(again.output) == last - begins, "it went on from the checkpoint that it was read at"
    return found is not None, went_on
