"""Reliability case 7 for sinks that commit: whatever dies between two steps, each element is there once."""

from __future__ import annotations

import random
import shutil
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest
from deltalake import DeltaTable
from support.chance import chosen_seed
from support.graphs import GraphBuilder
from support.jobs import NO_RESTART, TestJob
from support.part_files import lines, sink_to
from support.script import DriverKilled, Failure, Fault, Script

import changelog_engine
from api.common.typeinfo import Types
from api.datastream import KeyedProcessFunction
from api.datastream.connectors import JdbcConnectionOptions, JdbcSink
from api.datastream.state import ValueStateDescriptor
from changelog_engine.connectors import (
    CommittingSink,
    CommittingWriter,
    NumberSequenceSource,
    Prepared,
    SinkContext,
)
from changelog_engine.connectors.delta.sink import DeltaSink
from changelog_engine.driver.sinks import prepared_sinks
from changelog_engine.errors import JobExecutionError, RestoreError, UserFunctionError
from changelog_engine.graph.nodes import JobGraph, NodeKind
from changelog_engine.inspection.jobs import job_status
from changelog_engine.ledger.attempt_notes import note_file
from changelog_engine.operators.sink import CommittingSinkOperator
from changelog_engine.operators.standing_still import StandingStill
from changelog_engine.replay.job import replay_graph
from changelog_engine.testing.conformance import check_committing_sink

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "examples" / "connectors"))
from folder_sink import FolderSink, FolderWriter

NUMBERS = 300


def visible(folder: Path | str) -> Counter[str]:
    """The lines of the files that are not hidden."""
    files = [file for file in Path(folder).glob("*.txt") if not file.name.startswith(".")]
    return Counter(line for file in files for line in file.read_text().splitlines())


class Same(KeyedProcessFunction):
    """Gives the elements on, so that the sink's stage is keyed."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield str(value)


def job_into(sink: Any, parallelism: int, keyed: bool, numbers: int = NUMBERS) -> JobGraph:
    build = GraphBuilder(parallelism=parallelism, max_parallelism=16)
    stream = build.source(NumberSequenceSource(1, numbers))
    if keyed:
        stream = build.process(build.key_by(stream, int, Types.LONG()), Same(), uid="same")
    build.add(NodeKind.SINK, "sink", stream, function=sink, uid="sink")
    return build.graph()


def exactly_once(numbers: int = NUMBERS) -> Counter[str]:
    return Counter(str(number) for number in range(1, numbers + 1))


@pytest.mark.parametrize("seed", range(30))
def test_each_element_once_whatever_dies(tmp_path: Path, seed: int) -> None:
    """Failures at random steps, barriers at random, another parallelism after each."""
    randomly = random.Random(seed)
    failures = tuple(
        Failure(randomly.randint(1, 14), randomly.choice(list(Fault)), 0, randomly.randint(0, 1))
        for _ in range(5)
    )
    barriers = (*(randomly.random() < 0.7 for _ in range(7)), True)
    job = TestJob(
        tmp_path / "log",
        Script((randomly.randint(5, 30),), barriers, failures),
        tells=seed % 3 > 0,
        tolerable_failures=seed % 5,
    )
    out, keyed = tmp_path / "out", bool(seed % 2)
    job.run(lambda driver: job_into(FolderSink(str(out)), 1 + (seed + driver) % 3, keyed))
    if visible(out) != exactly_once():  # the driver died between the last commit and the sinks'
        assert job.commits[-1].finished
        job.run_driver(job_into(FolderSink(str(out)), 2, keyed))
    assert visible(out) == exactly_once()


def killed_before_its_sinks_committed(folder: Path) -> tuple[TestJob, JobGraph, Path]:
    """A job whose driver died behind its last checkpoint, its graph, and where its sink writes."""
    out = folder / "out"
    job = TestJob(folder / "log", Script((NUMBERS,), (True,), (Failure(1, Fault.COMMITTED),)))
    graph = job_into(FolderSink(str(out)), 1, False)
    with pytest.raises(DriverKilled):
        job.run_driver(graph)
    assert job.commits[-1].finished
    assert visible(out) != exactly_once(), "nothing was left to make up for"
    return job, graph, out


def test_the_last_checkpoint_is_committed_by_the_next_run(tmp_path: Path) -> None:
    """The driver dies after the last commit, before the sinks': the next run makes up for it, and one more begins anew."""
    job, graph, out = killed_before_its_sinks_committed(tmp_path)
    path = str(tmp_path / "log" / "job")
    assert job_status(path).summary.state == "killed"
    job.run_driver(graph)
    assert visible(out) == exactly_once()
    assert job_status(path).summary.state == "finished"
    job.run_driver(graph)
    assert visible(out) == exactly_once() + exactly_once()


def test_without_a_note_of_its_end_an_attempt_whose_input_ended_has_finished(tmp_path: Path) -> None:
    """The next run begins anew, and commits all the same what the first one's sinks had prepared."""
    job, graph, out = killed_before_its_sinks_committed(tmp_path)
    (tmp_path / "log" / "job" / "changelog" / note_file(1)).unlink()
    job.run_driver(graph)
    assert visible(out) == exactly_once() + exactly_once()


class Total(KeyedProcessFunction):
    """Gives numbers on with how many there were of their key, which is their remainder."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.total.update((self.total.value() or 0) + 1)
        yield f"{value} {self.total.value()}"


def totals_into(out: Path, name: str) -> JobGraph:
    build = GraphBuilder(name)
    keyed = build.key_by(build.source(NumberSequenceSource(1, 30)), lambda number: number % 2, Types.LONG())
    build.add(
        NodeKind.SINK,
        "sink",
        build.process(keyed, Total(), uid="totals"),
        function=FolderSink(str(out)),
        uid="sink",
    )
    return build.graph()


@pytest.mark.parametrize("epochs", [2, 3], ids=["in the middle", "at the end"])
def test_a_repaired_job_commits_what_its_parent_had_prepared(tmp_path: Path, epochs: int) -> None:
    """The parent died between a checkpoint and its sinks' commits: the fork makes them, once, and goes on as corrected."""
    out, base = tmp_path / "out", tmp_path / "log"
    job = TestJob(base, Script((10,), (True,), (Failure(epochs, Fault.COMMITTED),)))
    with pytest.raises(DriverKilled):
        job.run_driver(totals_into(out, "job"))
    covered = Counter(f"{number} {(number + 1) // 2}" for number in range(1, 10 * epochs + 1))
    assert visible(out) < covered, "nothing was left to commit"
    fix = {"totals": {"total": {"key": [0], "value": [1000]}}}
    said = {"who": "ann", "why": "counted wrongly"}
    changelog_engine.repair(f"{base}/job", "latest", fix, **said, target=f"{base}/mended")
    assert visible(out) < covered, "a repair commits nothing by itself"
    TestJob(base, Script((10,))).run(totals_into(out, "mended"))
    rest = range(10 * epochs + 1, 31)
    assert visible(out) == covered + Counter(
        f"{number} {(number + 1) // 2 if number % 2 else 1000 + (number - 10 * epochs) // 2}"
        for number in rest
    )


def test_without_checkpoints_all_is_committed_at_the_end(tmp_path: Path) -> None:
    out = tmp_path / "out"
    job = TestJob(tmp_path / "log", Script((50,)), checkpoint_interval_ms=None, changelog=False)
    job.run(job_into(FolderSink(str(out)), 2, False))
    assert visible(out) == exactly_once()


def test_a_job_that_fails_shows_what_its_checkpoints_cover(tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = Script((50,), (True,), (Failure(3, Fault.WORKER),))
    job = TestJob(tmp_path / "log", script, restart=NO_RESTART)
    with pytest.raises(Exception, match="was lost"):
        job.run_driver(job_into(FolderSink(str(out)), 1, False))
    assert visible(out) == exactly_once(100), "the third epoch began with the commit of the second"
    job.run(job_into(FolderSink(str(out)), 1, False))
    assert visible(out) == exactly_once()


def test_a_sink_that_has_prepared_output_is_not_taken_away(tmp_path: Path) -> None:
    """With its uid it may move to another stage; without it the restore is refused, and nothing is lost."""
    out = tmp_path / "out"
    script = Script((50,), (True,), (Failure(2, Fault.COMMITTED),))
    job = TestJob(tmp_path / "log", script, restart=NO_RESTART)
    with pytest.raises(DriverKilled):
        job.run_driver(job_into(FolderSink(str(out)), 1, False))
    build = GraphBuilder(parallelism=1, max_parallelism=16)
    build.collect(build.source(NumberSequenceSource(1, NUMBERS)))
    with pytest.raises(
        RestoreError, match=r"output that sink 'sink' \(uid 'sink'\) has prepared and perhaps"
    ):
        job.run_driver(build.graph())
    job.run(job_into(FolderSink(str(out)), 2, True))
    assert visible(out) == exactly_once()


def test_a_replay_begins_at_a_checkpoint_that_has_prepared_output(tmp_path: Path) -> None:
    """It was refused: a replay writes to no sink, and the sink was missed."""
    job, out = TestJob(tmp_path / "log", Script((20,), (True,))), tmp_path / "out"
    job.run(job_into(FolderSink(str(out)), 2, True))
    written, starts = visible(out), [row for row in job.commits[:-1] if prepared_sinks(row)]
    assert starts
    for row in starts:
        report = replay_graph(job_into(FolderSink(str(out)), 2, True), job.settings, row.id)
        assert report.equal, report.text()
    assert visible(out) == written


class OneCommit(CommittingSink):
    """A sink whose commit is one for all subtasks, on the driver; the file ``commits`` has a line for each."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def committing_writer(self, context: SinkContext) -> OneCommitWriter:
        return OneCommitWriter(context)

    def commit_all(self, context: SinkContext, committables: Sequence[Any]) -> None:
        self.folder.mkdir(exist_ok=True)
        names = sorted(name for name, _ in committables)
        target = self.folder / f"{'+'.join(names)}.txt"
        if not target.exists():
            target.write_text("".join(line for _, lines in sorted(committables) for line in lines))


class OneCommitWriter(CommittingWriter):
    def __init__(self, context: SinkContext) -> None:
        self.name = f"{context.attempt}-{context.subtask}"
        self.count = 0
        self.lines: list[str] = []

    def write(self, values: Sequence[Any]) -> None:
        self.lines += (f"{value}\n" for value in values)

    def end_epoch(self) -> None:
        pass

    def prepare(self, final: bool) -> Prepared:
        lines, self.lines = self.lines, []
        self.count += 1
        return Prepared([[f"{self.name}-{self.count}", lines]] if lines else [])

    def commit(self, committables: Sequence[Any]) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.mark.parametrize("seed", range(10))
def test_one_commit_for_all_subtasks(tmp_path: Path, seed: int) -> None:
    randomly = random.Random(seed)
    faults = [Fault.WORKER, Fault.PARTS, Fault.COMMITTED, Fault.COMMIT_LIES, Fault.HANDED_OUT]
    failures = tuple(Failure(randomly.randint(1, 10), randomly.choice(faults)) for _ in range(4))
    job = TestJob(tmp_path / "log", Script((20,), (True,), failures))
    out = tmp_path / "out"
    job.run(lambda driver: job_into(OneCommit(str(out)), 2, False))
    if visible(out) != exactly_once():
        assert job.commits[-1].finished
        job.run_driver(job_into(OneCommit(str(out)), 2, False), restore="latest")
    assert visible(out) == exactly_once()


@pytest.mark.parametrize(("epoch", "said"), [(1, False), (2, True)])
def test_a_job_that_fails_behind_its_end_says_how_it_is_completed(
    tmp_path: Path, epoch: int, said: bool
) -> None:
    """Otherwise it would be run again as it was, from the beginning, and its sinks had all of it twice."""
    job = TestJob(tmp_path / "log", Script((20,), failures=(Failure(epoch, Fault.COMMIT_LIES),)))
    graph = job_into(FolderSink(str(tmp_path / "out")), 1, True, numbers=40)
    with pytest.raises(JobExecutionError, match="the answer to the commit was lost") as raised:
        job.run_driver(graph, restart=NO_RESTART)
    assert job.commits[-1].finished is said
    assert ("the next run only completes this one" in str(raised.value)) is said
    job.run_driver(graph)
    assert visible(tmp_path / "out") == exactly_once(40)


class Target(NamedTuple):
    """A sink of one of the families, what is seen of it, and what keeps it from its next commit until it is put back."""

    sink: CommittingSink
    seen: Callable[[], Counter[str]]
    take_away: Callable[[], object]
    put_back: Callable[[], object]


def target(family: str, folder: Path) -> Target:
    path, away = folder / "target", folder / "away"
    if family == "jdbc":
        database = sqlite3.connect(path, isolation_level=None)
        database.execute("CREATE TABLE t (n TEXT)")
        options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(f"jdbc:sqlite:{path}").build()
        made = JdbcSink.exactly_once_sink(
            "INSERT INTO t (n) VALUES (?)", Types.ROW([Types.STRING()]), options
        )
        return Target(
            made._function,
            lambda: Counter(n for (n,) in database.execute("SELECT n FROM t")),
            lambda: database.execute("ALTER TABLE t RENAME TO away"),
            lambda: database.execute("ALTER TABLE away RENAME TO t"),
        )

    def put_back() -> None:
        if path.exists():  # a new and empty table
            shutil.rmtree(path)
        away.rename(path)

    if family == "delta":
        sink: Any = DeltaSink(str(path), Types.ROW_NAMED(["n"], [Types.STRING()]))
        return Target(
            sink,
            lambda: Counter(DeltaTable(str(path)).to_pyarrow_table()["n"].to_pylist()),
            lambda: path.rename(away),
            put_back,
        )
    return Target(sink_to(path), lambda: lines(path), lambda: path.rename(away), put_back)


@pytest.mark.parametrize("stops", [False, True], ids=["input ends", "stopped"])
@pytest.mark.parametrize("family", ["files", "delta", "jdbc"])
def test_a_last_commit_that_fails_fails_the_job_and_is_made_by_the_next_run(
    tmp_path: Path, family: str, stops: bool
) -> None:
    one = target(family, tmp_path)
    texts = [str(number) for number in range(1, 41)]
    build, without = GraphBuilder(), GraphBuilder()
    stream = build.source(texts if family == "files" else [(text,) for text in texts], uid="source")
    build.add(NodeKind.SINK, "sink", stream, function=one.sink, uid="sink")
    without.collect(without.source(texts, uid="source"))
    job = TestJob(tmp_path / "log", Script((20,), (False,)), restart=NO_RESTART)

    def stop(stats: Any) -> None:
        if stops:
            job.coordinator.control.stop()

    def take_away(checkpoint: Any) -> None:
        one.take_away()

    with (
        mock.patch.object(job, "_observe", side_effect=stop),
        mock.patch.object(job, "on_commit", side_effect=take_away),
        pytest.raises(JobExecutionError, match="committing"),
    ):
        job.run_driver(build.graph())
    assert job.commits[-1].stopped is stops
    path = str(tmp_path / "log" / "job")
    assert job.coordinator.status == "FAILED"
    assert job_status(path).summary.state == "failed"
    with pytest.raises(
        RestoreError, match=r"output that sink 'sink' \(uid 'sink'\) has prepared and perhaps"
    ):
        job.run_driver(without.graph())
    one.put_back()
    assert not one.seen()
    job.run_driver(build.graph())
    assert job_status(path).summary.state == "finished"
    assert one.seen() == exactly_once(40)


class FailsOnce(OneCommit):
    """Its first commit fails; the file ``failed`` remembers."""

    def commit_all(self, context: SinkContext, committables: Sequence[Any]) -> None:
        self.folder.mkdir(exist_ok=True)
        if not (self.folder / "failed").exists():
            (self.folder / "failed").touch()
            raise OSError("the store is away")
        super().commit_all(context, committables)


def test_a_commit_that_fails_loses_no_collected_output(tmp_path: Path) -> None:
    """The checkpoint is durable, so what it covers is final, whatever its sinks do."""
    build = GraphBuilder(parallelism=1)
    numbers = build.source(NumberSequenceSource(1, NUMBERS))
    build.add(NodeKind.SINK, "sink", numbers, function=FailsOnce(str(tmp_path / "out")), uid="sink")
    build.collect(numbers)
    job = TestJob(tmp_path / "log", Script((50,)))
    job.run(build.graph())
    assert job.coordinator.restarts.count == 1
    assert job.output == list(range(1, NUMBERS + 1))
    assert visible(tmp_path / "out") == exactly_once()


class FailsBetween(FolderSink):
    """Its second commit fails; the file ``commits`` has a line for each."""

    def committing_writer(self, context: SinkContext) -> FolderWriter:
        writer = super().committing_writer(context)
        commit = writer.commit

        def counted(committables: Sequence[str]) -> None:
            with (Path(self.folder) / "commits").open("a") as file:
                file.write("one\n")
            if (Path(self.folder) / "commits").read_text() == "one\n" * 2:
                raise OSError("the folder is away")
            commit(committables)

        writer.commit = counted  # type: ignore[method-assign]
        return writer


def test_what_was_prepared_for_a_checkpoint_that_failed_is_kept_by_the_next(tmp_path: Path) -> None:
    """The driver dies behind that one: what the first one would have kept is nowhere else."""
    out = tmp_path / "out"
    faults = (Failure(1, Fault.COMMIT_FAILS), Failure(2, Fault.COMMITTED))
    job = TestJob(tmp_path / "log", Script((50,), (True,), faults), tolerable_failures=1)
    with pytest.raises(DriverKilled):
        job.run_driver(job_into(FolderSink(str(out)), 1, False))
    assert len(job.commits) == 1
    job.run(job_into(FolderSink(str(out)), 1, False))
    assert visible(out) == exactly_once()


class Notes(CommittingWriter):
    """Prepares what it is told, and notes what it commits; fails when it is told."""

    def __init__(self) -> None:
        self.prepares = Prepared([])
        self.committed: list[list[Any]] = []
        self.fails = False

    def write(self, values: Sequence[Any]) -> None:
        pass

    def prepare(self, final: bool) -> Prepared:
        return self.prepares

    def commit(self, committables: Sequence[Any]) -> None:
        if self.fails:
            raise OSError("the folder is away")
        self.committed.append(list(committables))


def test_checkpoints_keep_what_is_prepared_until_it_is_committed() -> None:
    """Against a model: any order of barriers, durable checkpoints and commits that fail."""
    context = SinkContext("job", "sink", 0, 1, "", 0, True, ())
    draw = random.Random(chosen_seed())
    for _ in range(200):
        operator = CommittingSinkOperator("sink", FolderSink("nowhere"), context, StandingStill(None))
        writer = operator._writer = Notes()
        waiting: list[tuple[int, str]] = []
        before = None
        for epoch in range(1, 7):
            names = [f"{epoch}-{number}" for number in range(draw.randrange(3))]
            state = draw.choice([None, None, "a", "b"])
            writer.prepares = Prepared(names, state)
            waiting += [(epoch, name) for name in names]
            kept = {"committables": [name for _, name in waiting], "state": state}
            expected = kept if waiting or state is not None else None
            assert operator.prepare(epoch, False) == expected
            assert operator.moved == (expected != before)
            before = expected
            for durable in [draw.randint(0, epoch) for _ in range(draw.randrange(3))]:
                due = [name for prepared, name in waiting if prepared <= durable]
                writer.committed, writer.fails = [], draw.random() < 0.3
                if due and writer.fails:
                    with pytest.raises(UserFunctionError, match="the folder is away"):
                        operator.commit(durable)
                    continue
                operator.commit(durable)
                assert writer.committed == ([due] if due else [])
                waiting = [each for each in waiting if each[0] > durable]


@pytest.mark.parametrize("tells", [True, False])
def test_a_commit_that_fails_between_epochs_fails_the_next_one(tmp_path: Path, tells: bool) -> None:
    """It was durable, so the next attempt commits it."""
    out = tmp_path / "out"
    job = TestJob(tmp_path / "log", Script((50,), (True,)), tells=tells, restart=NO_RESTART)
    with pytest.raises(JobExecutionError, match=r"(?s)committing.*the folder is away"):
        job.run_driver(job_into(FailsBetween(str(out)), 1, True))
    assert visible(out) == exactly_once(50)
    assert job.committed_epochs == [50, 50], "no epoch behind the failure was committed"
    job.run(job_into(FailsBetween(str(out)), 1, True))
    assert visible(out) == exactly_once()


def test_a_commit_that_fails_between_epochs_is_told_although_something_else_fails_first(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The sink's subtask never comes to the epoch that would raise it: the source's process is lost before."""
    script = Script((50,), (True,), (Failure(3, Fault.SUBTASK, stage=0),))
    job = TestJob(tmp_path / "log", script, restart=NO_RESTART)
    with pytest.raises(JobExecutionError, match="stage 0, subtask 0 was lost"):
        job.run_driver(job_into(FailsBetween(str(tmp_path / "out")), 1, True))
    assert visible(tmp_path / "out") == exactly_once(50)
    (told,) = [record.getMessage() for record in caplog.records if "the folder is away" in record.message]
    assert "committing" in told
    assert "'sink'" in told
    job.run(job_into(FailsBetween(str(tmp_path / "out")), 1, True))
    assert visible(tmp_path / "out") == exactly_once()


def test_a_process_that_ends_between_epochs_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """All that it held is in a checkpoint, so the job goes on without a restart: a line is all there is of it."""
    script = Script((50,), (True,), (Failure(3, Fault.GONE),))
    job = TestJob(tmp_path / "log", script)
    job.run(job_into(FolderSink(str(tmp_path / "out")), 1, True))
    assert job.coordinator.restarts.count == 0
    assert visible(tmp_path / "out") == exactly_once()
    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "same (1/1) ended between two epochs" in told
    assert "from checkpoint 3" in told


def test_who_is_told_commits_before_the_next_epoch(tmp_path: Path) -> None:
    """The third epoch is lost before any subtask ran: with news alone, what the second prepared is there."""
    shown = {}
    for tells in (True, False):
        out = tmp_path / f"out {tells}"
        script = Script((50,), (True,), (Failure(2, Fault.HANDED_OUT),))
        job = TestJob(tmp_path / f"log {tells}", script, tells=tells, restart=NO_RESTART)
        with pytest.raises(DriverKilled):
            job.run_driver(job_into(FolderSink(str(out)), 1, True))
        shown[tells] = visible(out)
        job.run(job_into(FolderSink(str(out)), 1, True))
        assert visible(out) == exactly_once()
    assert shown == {True: exactly_once(100), False: exactly_once(50)}


class TestConformance:
    def test_a_sink_that_keeps_its_promises(self, tmp_path: Path) -> None:
        check_committing_sink(
            FolderSink(str(tmp_path / "a")), lambda: visible(tmp_path / "a").elements(), runs=40
        )

    @pytest.mark.parametrize(
        "mistake", ["ShowsAtOnce", "ForgetsRestored", "CommitsTwice", "TakesBackPrepared"]
    )
    def test_mistakes_are_found(self, tmp_path: Path, mistake: str) -> None:
        sink = MISTAKES[mistake](str(tmp_path / "a"))
        with pytest.raises(AssertionError, match="the world sees other elements"):
            check_committing_sink(sink, lambda: visible(tmp_path / "a").elements(), runs=40)


class _Mistake(FolderSink):
    made: type[FolderWriter] = FolderWriter

    def committing_writer(self, context: SinkContext) -> FolderWriter:
        Path(self.folder).mkdir(exist_ok=True)
        writer = self.made(self.folder)
        for restored in context.restored:
            writer.commit(restored.prepared.committables)
        return writer


class ShowsAtOnce(_Mistake):
    class made(FolderWriter):
        def prepare(self, final: bool) -> Prepared:
            prepared = super().prepare(final)
            self.commit(prepared.committables)
            return prepared


class ForgetsRestored(_Mistake):
    def committing_writer(self, context: SinkContext) -> FolderWriter:
        return super().committing_writer(context._replace(restored=()))


class CommitsTwice(_Mistake):
    class made(FolderWriter):
        def commit(self, committables: Sequence[str]) -> None:
            for name in committables:
                for file in (Path(self.folder) / f".{name}", Path(self.folder) / name):
                    if file.exists():
                        (Path(self.folder) / f"again-{random.random()}-{name}").write_text(file.read_text())
            super().commit(committables)


class TakesBackPrepared(_Mistake):
    class made(FolderWriter):
        def prepare(self, final: bool) -> Prepared:
            self.prepared = super().prepare(final)
            return self.prepared

        def close(self) -> None:
            for name in getattr(self, "prepared", Prepared()).committables:
                (Path(self.folder) / f".{name}").unlink(missing_ok=True)


MISTAKES = {each.__name__: each for each in (ShowsAtOnce, ForgetsRestored, CommitsTwice, TakesBackPrepared)}
