"""The ledger against a model that keeps every mutation of every branch. Reliability cases 45 and 46.

A life is checkpoints on several branches, snapshots, truncations and merges; then a file is lost from the list or from the
disk, is damaged, or comes back into the list. Whoever reads a checkpoint afterwards gets the model's state, or an error, and
all get the same: what is wrong with the list is said by all in the same words, with the same file.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import event, given, settings
from hypothesis import strategies as st
from support.materialized import merging_few
from support.readers import refusal
from unit.test_commit_helpers import Driver, fold

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.changelog.part_reader import check_bytes
from changelog_engine.changelog.segments import segment_of
from changelog_engine.errors import ChangelogEngineError, CorruptChangelogError, RestoreError
from changelog_engine.graph.descriptions import DescribedOperator, DescribedState
from changelog_engine.graph.key_groups import key_group_range
from changelog_engine.history.tables import Selection, Tables
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.ledger.ledger import Ledger, plan_restore
from changelog_engine.savepoints.forks import fork_job
from changelog_engine.savepoints.writer import create_savepoint
from changelog_engine.storage.delta_actions import AddFile
from changelog_engine.types import Types
from changelog_engine.verification.verify import verify
from materializer.fold import state_at
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.snapshot_plan import plan_snapshot
from materializer.truncation import truncate

GROUPS, SUBTASKS = 8, 2
KEYS = ["1" * (group or GROUPS) for group in range(GROUPS)]  # the helper takes the length for the key group
_STATE = DescribedState("n", "value", Types.LONG().spec())
OPERATORS = [
    DescribedOperator("count", "count", "process", SUBTASKS, GROUPS, True, Types.LONG().spec(), (_STATE,))
]

State = dict[str, int]


class Model:
    """A job, and every mutation of every branch."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.driver = Driver.start(base)
        self.driver.operators = OPERATORS
        self.states: dict[int, State] = {}
        self.clock = 0

    @property
    def folder(self) -> JobFolder:
        return self.driver.folder

    def checkpoint(self, keys: list[int]) -> None:
        """Some keys get a value that there never was before."""
        last = self.driver.last
        state = dict(self.states[last.id]) if last is not None else {}
        rows: dict[int, State] = {}
        for key in keys:
            self.clock += 1
            state[KEYS[key]] = self.clock
            rows.setdefault(key * SUBTASKS // GROUPS, {})[KEYS[key]] = self.clock
        parts = [self.driver.part(some, subtask) for subtask, some in sorted(rows.items())]
        row = self.driver.row(parts)
        self.driver.committer.commit(row, parts)
        self.driver.last = row
        self.states[row.id] = state

    def rewind(self, checkpoint: int) -> None:
        """Another driver goes on from an older checkpoint."""
        self.driver = Driver.start(self.base, str(checkpoint))
        self.driver.operators = OPERATORS

    def fork(self, row: Checkpoint) -> None:
        """Go on with a copy, which has the history of the checkpoint."""
        self.base += "/fork"
        fork_job(self.folder, row, f"{self.base}/job")
        self.states = {n: state for n, state in self.states.items() if segment_of(row.lineage, n)}
        self.rewind(row.id)

    def rows(self) -> list[Checkpoint]:
        lineage = Ledger(self.folder.open_changelog()).lineage
        return [lineage.checkpoint(number) for number in lineage.checkpoints.ids()]


def life(model: Model, draw: Any) -> None:
    """Everything that happens to a log that is whole."""
    steps = st.sampled_from(["checkpoint"] * 3 + ["rewind", "snapshot", "truncate", "fork", "optimize"])
    for what in ["checkpoint", *draw(st.lists(steps, min_size=2, max_size=6), "steps")]:
        if what == "checkpoint":
            model.checkpoint(draw(st.lists(st.integers(0, 7), min_size=0, max_size=4, unique=True), "keys"))
            continue
        there = [row.id for row in model.rows()]
        if what == "truncate":
            with merging_few():
                truncate(
                    model.folder,
                    Retention(draw(st.sampled_from([0, 2_000, 1 << 40]), "history"), 1, 1 << 40),
                    lambda now=float(there[-1] + 1): now,  # type: ignore[misc]
                )
        elif what == "optimize":  # somebody else's, which leaves the rows what they are
            DeltaTable(model.folder.changelog.root).optimize.compact()
        elif what == "fork":
            model.fork(draw(st.sampled_from(model.rows()), "of"))
        elif what == "rewind":
            model.rewind(draw(st.sampled_from(there), "to"))
        else:
            materialize(model.folder, draw(st.sampled_from(there), "of"), piece_bytes=64)


def harm(model: Model, draw: Any) -> None:
    """Something that must not happen."""
    table = draw(st.sampled_from(["changelog", "snapshots"]), "table")
    log = model.folder.open_changelog() if table == "changelog" else model.folder.open_snapshots()
    root = Path(log.storage.root)
    listed = sorted(str(path) for path in log.files()["path"].to_pylist())
    if not listed:
        return
    path = draw(st.sampled_from(listed), "file")
    how = draw(st.sampled_from(["unlisted", "deleted", "changed", "back"]), "how")
    if how == "unlisted":
        log.commit([], [path])
    elif how == "deleted":
        (root / path).unlink()
    elif how == "changed":
        data = bytearray((root / path).read_bytes())
        # How long a file is may differ by a byte from run to run: it holds times.
        data[draw(st.integers(0, 1 << 20), "byte") % len(data)] ^= 1 << draw(st.integers(0, 7), "bit")
        (root / path).write_bytes(bytes(data))
    else:
        gone = sorted(p.name for p in root.glob("*.parquet") if p.name not in listed)
        if gone:
            name = draw(st.sampled_from(gone), "of the past")
            log.commit([AddFile(name, (root / name).stat().st_size, 0, {})])


def restored(folder: JobFolder, row: Checkpoint) -> State:
    """By the subtasks."""
    point = plan_restore(folder, row)
    found: State = {}
    for subtask in range(SUBTASKS):
        found.update(fold(point, key_group_range(subtask, GROUPS, SUBTASKS)))
    return found


def folded(folder: JobFolder, row: Checkpoint) -> State:
    """By the materializer's fold."""
    entries = state_at(folder.changelog.root, row.id, allow_pickle=True).states.get(("count", "n"), {})
    return {str(key): entries[key] for key in entries}


def selected(folder: JobFolder, row: Checkpoint) -> Selection:
    """By the history, which reads no file but looks at their checksums."""
    return Tables(folder.storage.root).state(row, None)


def check(model: Model, folder: JobFolder) -> None:
    """Ask everybody for every checkpoint that there was."""
    for number, state in model.states.items():
        try:
            ledger = Ledger(folder.open_changelog())
            row = ledger.lineage.checkpoint(number)
            base = ledger.base(row)
        except RestoreError:
            continue  # truncated, or its row was lost from the list: every reader begins with it
        except CorruptChangelogError as error:
            refused = {(type(error), error.path)}
            with tempfile.TemporaryDirectory() as directory:
                said = [refusal(reader) for reader in planners(folder, number, directory)]
            told = {(type(each), getattr(each, "path", None)) for each in said}
            event("refused")
        else:
            refused = told = set()
        assert told == refused, number
        if refused:
            continue
        refused = [refusal(partial(reader, folder, row)) for reader in (restored, folded, selected)]
        if refused == [None, None, None]:
            assert [reader(folder, row) for reader in (restored, folded)] == [state, state], number
            chosen = selected(folder, row)
            if base.snapshot is not None and chosen.snapshot != base.checkpoint:  # it goes by an older one
                assert (
                    refusal(partial(check_bytes, ledger.snapshots.storage, base.snapshot.paths)) is not None
                )
                base = next(each for each in ledger.bases(row.lineage) if each.checkpoint == chosen.snapshot)
            assert chosen.snapshot == base.checkpoint
            assert set(chosen.log) == {file.path for file in base.suffix.files}
        else:
            assert {(type(error), getattr(error, "path", None)) for error in refused} == {
                (CorruptChangelogError, getattr(refused[0], "path", None))
            }, number


def planners(folder: JobFolder, number: int, directory: str) -> list[Any]:
    """Everybody who asks which files there are."""

    def row() -> Checkpoint:
        return Ledger(folder.open_changelog()).lineage.checkpoint(number)

    return [
        lambda: plan_restore(folder, row()),
        lambda: state_at(folder.changelog.root, number),
        lambda: Tables(folder.storage.root).state(row(), None),
        lambda: plan_snapshot(folder, number),
        lambda: fork_job(folder, row(), f"{directory}/fork"),
        lambda: create_savepoint(folder, row(), directory),
    ]


@pytest.mark.slow
@settings(max_examples=25)
@given(data=st.data())
def test_case_45_every_reader_agrees_with_the_model(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as base:
        model = Model(base)
        life(model, data.draw)
        for row in model.rows():
            assert restored(model.folder, row) == model.states[row.id]
        assert verify(model.folder).faults == []
        harm(model, data.draw)
        try:
            check(model, model.folder)
        except ChangelogEngineError as error:
            raise AssertionError("a reader raised what the ledger did not") from error
