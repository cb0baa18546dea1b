"""Another parallelism while a job runs: what is refused, what the client gets, and what is told of it afterwards."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from click.testing import CliRunner, Result
from support.functions import CountAlone
from support.graphs import GraphBuilder

from api.common import Types, WatermarkStrategy
from api.common.configuration import Configuration
from api.datastream import StreamExecutionEnvironment
from changelog_engine.cli import main
from changelog_engine.clock import wall_ms
from changelog_engine.connectors import NumberSequenceSource, PrintSink
from changelog_engine.driver import inbox
from changelog_engine.driver.inbox import RequestInbox
from changelog_engine.driver.rescaling import RescaleRequests
from changelog_engine.errors import ConfigurationError, InvalidJobError, JobExecutionError, StorageError
from changelog_engine.event_time import MIN_WATERMARK
from changelog_engine.graph.nodes import JobSettings, NodeKind, Partitioner, PartitionSpec
from changelog_engine.graph.plan import JobPlan, plan_job
from changelog_engine.graph.rescaling import changes, in_words, rescaled
from changelog_engine.in_process.capture import without_spark
from changelog_engine.ledger.job_folder import open_job_folder
from changelog_engine.ledger.ownership import DriverIdentity
from changelog_engine.ledger.requests import (
    DriverAnswer,
    answer_to,
    clear_requests,
    give_answer,
    make_request,
    take_requests,
    withdraw_request,
)
from changelog_engine.operators.build import StageBuilder
from changelog_engine.operators.inputs import Inputs, merged_inputs
from changelog_engine.operators.stateless import merged_times
from changelog_engine.spark.early_workers import EarlyWorkers
from changelog_engine.spark.errands import Errands
from changelog_engine.spark.placement import Placement
from changelog_engine.storage.local_disk import LocalDisk
from materializer.fold import state_at


def plan_of(**more: Any) -> JobPlan:
    """A parallel source, keyed counts of two kinds, and a map that the program wants alone."""
    build = GraphBuilder(parallelism=2, max_parallelism=8)
    numbers = build.source(NumberSequenceSource(1, 9), uid="numbers")
    alone = build.add(NodeKind.MAP, "alone", numbers, function=str, uid="alone", parallelism=1, **more)
    counts = build.process(build.key_by(numbers, int, Types.LONG()), CountAlone(), uid="counts")
    build.collect(counts, uid="collected")
    build.collect(alone, uid="alone too")
    return plan_job(build.graph())


def test_lines_behind_a_union_begin_alike_where_one_stream_is_rescaled() -> None:
    build = GraphBuilder(max_parallelism=8)
    numbers = build.source(NumberSequenceSource(1, 9))
    streams = [
        build.process(build.key_by(numbers, int, Types.LONG()), CountAlone(), uid=uid)
        for uid in ("left", "right")
    ]
    printed = PrintSink()
    sink = build.add(NodeKind.SINK, "print", build.add(NodeKind.UNION, "union", *streams), function=printed)
    plan = plan_job(build.graph())
    for wanted, lines in (({}, ["7", "7"]), ({"left": 3}, ["1> 7", "1> 7"])):
        then = rescaled(plan, wanted) if wanted else plan
        operators = [
            StageBuilder(then, {sink: printed}, JobSettings(), stage, 0, None, 0, wall_ms)._sink(
                then.graph.nodes[sink], printed
            )
            for stage in then.stages
            if sink in stage.nodes
        ]
        assert [line for operator in operators for line in operator.render([7])] == lines  # type: ignore[attr-defined]


def test_only_numbers_of_subtasks_change() -> None:
    plan = plan_of()
    found = rescaled(plan, 4)
    assert [stage.parallelism for stage in found.stages] == [4, 1, 4]
    assert [(change.operator, change.before, change.after) for change in changes(plan, found)] == [
        ("numbers", 2, 4), ("counts", 2, 4),
    ]  # fmt: skip
    assert in_words(changes(plan, found)) == "2 -> 4"
    for old, new in zip(plan.stages, found.stages, strict=True):
        assert (old.uid, old.nodes, old.max_parallelism) == (new.uid, new.nodes, new.max_parallelism)
        assert [edge.id for edge in old.inputs] == [edge.id for edge in new.inputs]
    again = rescaled(found, {"counts": 3, "collected": 3, "alone": 4})
    assert in_words(changes(found, again)) == "'alone' 1 -> 4, 'counts' 4 -> 3"
    assert [edge.partitioner for edge in again.stages[1].inputs] == [Partitioner.FORWARD]
    assert [edge.partitioner for edge in plan.stages[1].inputs] == [Partitioner.REBALANCE]
    assert rescaled(again, 2) == plan, "an operator that was named before is what the program says again"


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (0, "parallelism of the job must be a whole number, at least 1; got 0"),
        (True, "got True"),
        (9, "'source' has max parallelism 8, so it cannot have parallelism 9"),
        ({}, "no operator is named"),
        ({"count": 2}, "no operator with uid 'count'; it has 'numbers', 'alone', 'alone too', 'counts'"),
        ({"counts": 2, "collected": 3}, "'counts' and 'collected' are chained"),
        ({"alone": 4.0}, "parallelism of operator 'alone' must be a whole number"),
    ],
)
def test_what_cannot_be_is_named(wanted: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        rescaled(plan_of(), wanted)


def test_what_the_program_fixed_stays() -> None:
    with pytest.raises(ConfigurationError, match="'alone' has max parallelism 1"):
        rescaled(plan_of(max_parallelism=1), {"alone": 2})
    build = GraphBuilder(parallelism=1)
    build.collect(build.source([1, 2], uid="source"))
    with pytest.raises(ConfigurationError, match="no operator of job 'job' can have parallelism 2"):
        rescaled(plan_job(build.graph()), 2)
    with pytest.raises(
        ConfigurationError, match=r"source 'source', which reads with one subtask only\. Call reb"
    ):
        rescaled(plan_job(build.graph()), {"source": 2})
    build = GraphBuilder(parallelism=2)
    spread = build.add(
        NodeKind.PARTITION,
        "forward",
        build.source(NumberSequenceSource(1, 9)),
        function=PartitionSpec(Partitioner.FORWARD),
    )
    build.collect(spread, uid="end")
    assert rescaled(plan_job(build.graph()), 3).parallelism_of == {0: 3, 1: 3}
    with pytest.raises(
        InvalidJobError, match=r"forward\(\) connects 'source' \(parallelism 2\) with 'end' \(para"
    ):
        rescaled(plan_job(build.graph()), {"end": 3})


def test_executors_that_are_not_there_yet_start_nothing() -> None:
    """A request may come while a job waits for its cluster."""
    context, rdds = mock.MagicMock(master="yarn"), mock.Mock()
    placement = Placement(context, [2], lambda: None)
    workers = EarlyWorkers(context, "run", mock.Mock(), placement, mock.Mock())
    workers.start_more(plan_of(), rescaled(plan_of(), 4), rdds, lambda: False)
    rdds.warm_up.assert_not_called()
    context.setJobGroup.assert_not_called()


@pytest.mark.parametrize("failure", [None, ConnectionResetError("the JVM ended"), ValueError("a bug")])
def test_who_waits_for_the_first_processes_waits_until_their_start_is_over(failure: Exception | None) -> None:
    """Also until it has failed: the first epoch says why."""
    begun, goes_on = threading.Event(), threading.Event()

    def start_workers(stages: Iterable[tuple[int, int]]) -> None:
        begun.set()
        goes_on.wait(60)
        if failure is not None:
            raise failure

    functions = mock.Mock(start_workers=start_workers)
    workers = EarlyWorkers(mock.Mock(), "run", functions, None, mock.Mock())
    errands = Errands()
    errands.run(partial(workers.start, plan_of()))
    waiting = threading.Thread(target=workers.wait)
    waiting.start()
    assert begun.wait(60)
    assert waiting.is_alive()
    goes_on.set()
    waiting.join(60)
    assert not waiting.is_alive()
    errands.close()


def test_time_goes_on_where_it_was() -> None:
    old = [Inputs([(0, 0), (0, 1)]) for _ in range(2)]
    for inputs, current in zip(old, (7, 9), strict=True):
        inputs.watermarks = {(0, 0): current, (0, 1): 20}
        inputs.current = current
    old[0].idle = {(0, 1)}
    merged = merged_inputs([inputs.snapshot() for inputs in old])
    new = Inputs([(0, 0), (0, 1)])
    new.restore(merged)
    assert (new.watermarks, new.current, new.idle) == ({(0, 0): 7, (0, 1): 20}, 7, set())
    more = Inputs([(0, 0), (0, 1), (0, 2)])
    more.restore(merged)
    assert (set(more.watermarks.values()), more.current) == ({MIN_WATERMARK}, 7)
    others = Inputs([(1, 0)])
    others.restore(merged)
    assert others.current == MIN_WATERMARK
    assert merged_times([5, 3]) == 3
    assert merged_times([5, None]) is None
    split = [{"current": 4, "splits": {"a": 5}}, {"current": 2, "splits": {"b": 3}, "before": 1}]
    assert merged_times(split) == {"current": 2, "splits": {"a": 5, "b": 3}, "before": 1}


def environment(base: Path, **options: str) -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("state.changelog.dstl.dfs.base-path", str(base))
    for key, value in options.items():
        configuration.set_string(key.replace("__", "."), value)
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def endless(env: StreamExecutionEnvironment, name: str) -> Any:
    """A job that counts for as long as it is let."""
    env.set_parallelism(2)
    numbers = env.from_source(
        NumberSequenceSource(0, 10**12), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    counts = numbers.key_by(lambda number: number % 10, Types.LONG()).process(CountAlone(), Types.LONG())
    counts.uid("counts").filter(lambda count: count < 0).print()
    return env.execute_async(name)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A job that was rescaled by its client and from the console, and what each of them was told."""
    base = tmp_path_factory.mktemp("rescaled")
    console, path = CliRunner(), f"{base}/job"

    def ask(*arguments: str) -> Result:
        return console.invoke(main, ["rescale", path, *arguments])

    # The job counts as fast as it can for as long as a request waits for the driver's look.
    with without_spark(), mock.patch.object(inbox, "_LOOK_S", 0.05):
        env = environment(base, execution__checkpointing__interval="50 ms", state__changelog__enabled="true")
        client = endless(env, "job")
        told = SimpleNamespace(base=base, path=path, console=console, client=client)
        told.up, told.down = client.rescale(4).result(), client.rescale({"counts": 1}).result()
        told.same = client.rescale({"counts": 1}).result()
        told.refused = client.rescale(200).exception()
        told.asked = [ask("3"), ask("300"), ask("--operator", "counts=1"), ask("--operator", "count=1")]
        client.cancel().result()
        told.late, told.late_on_console = client.rescale(2).exception(), ask("2")
        unkept = endless(environment(base), "unkept")
        told.never = unkept.rescale(2).exception()
        unkept.cancel().result()
    return told


def test_the_client_is_told_when_the_job_goes_on(story: SimpleNamespace) -> None:
    assert str(story.up).startswith(f"rescaled 2 -> 4 at checkpoint {story.up.checkpoint}, paused for ")
    assert 0 <= story.up.pause_ms < 60_000
    assert story.down.checkpoint > story.up.checkpoint
    assert (story.same.checkpoint, str(story.same)) == (None, "not rescaled: the job has this parallelism")


def test_the_client_is_told_why_not(story: SimpleNamespace) -> None:
    assert isinstance(story.refused, ConfigurationError)
    assert isinstance(story.late, JobExecutionError)
    assert "the job has ended, so it cannot be rescaled" in str(story.late)
    assert "this job makes none: call env.enable_checkpointing" in str(story.never)
    for wrong in (0, "2", {"counts": 0}, {1: 2}, 1.5):
        with pytest.raises(ConfigurationError, match=r"JobClient\.rescale"):
            story.client.rescale(wrong)


def test_the_console_tells_the_same(story: SimpleNamespace) -> None:
    assert [each.exit_code for each in story.asked] == [0, 1, 0, 1]
    done, too_many, back, unknown = (each.output for each in story.asked)
    rescaled = r"rescaled 'numbers' 4 -> 3, 'counts' 1 -> 3 at checkpoint \d+, paused for .*\n"
    assert re.fullmatch(rescaled, done)
    assert "has max parallelism 128, so it cannot have parallelism 300" in too_many
    assert back.startswith("rescaled 3 -> 1 at checkpoint")
    assert "no operator with uid 'count'" in unknown
    assert "no driver runs the job in" in story.late_on_console.output
    assert list(Path(story.path, "requests").iterdir()) == []


@pytest.mark.parametrize("timeout", ["nan", "0", "-1", "soon"])
def test_a_timeout_that_is_no_length_of_time_is_refused(tmp_path: Path, timeout: str) -> None:
    refused = CliRunner().invoke(main, ["rescale", str(tmp_path), "2", "--timeout", timeout])
    assert (refused.exit_code, "Invalid value" in refused.output) == (2, True)


def test_no_element_is_lost_or_counted_twice_by_rescaling(story: SimpleNamespace) -> None:
    found = state_at(f"{story.path}/changelog")
    starts = {split.id: split.start for split in NumberSequenceSource(0, 10**12).splits(2)}
    (positions,) = found.checkpoint.sources.values()
    assert positions.keys() == starts.keys()
    read = sum(position - starts[split] for split, (position, _) in positions.items())
    assert sum(found.states["counts", "count"].values()) == read > 0
    assert found.checkpoint.attempt == 5


def test_timeline_and_status_tell_each_rescale(story: SimpleNamespace) -> None:
    timeline = story.console.invoke(main, ["timeline", story.path]).output
    assert f"rescaled 2 -> 4 at checkpoint {story.up.checkpoint}" in timeline
    assert f"rescaled 4 -> 1 at checkpoint {story.down.checkpoint}" in timeline
    status = json.loads(story.console.invoke(main, ["status", story.path, "--json"]).output)
    assert [each.split(" at ")[0] for each in status["rescales"]] == [
        "rescaled 2 -> 4", "rescaled 4 -> 1", "rescaled 'numbers' 4 -> 3, 'counts' 1 -> 3", "rescaled 3 -> 1"
    ]  # fmt: skip
    assert status["restarts"] == 0


def test_requests_of_others(tmp_path: Path) -> None:
    """Those to a driver that is gone, those for which nobody waits, strangers' files and nonsense."""
    folder = open_job_folder(str(tmp_path), "job")
    me, other = DriverIdentity("here", 1, "now"), DriverIdentity("here", 2, "before")
    to_other, old = make_request(folder, 2, other, 60), make_request(folder, 2, me, -1)
    mine, far = make_request(folder, 2, me, 60), make_request(folder, 2, DriverIdentity(), 60)
    requests = tmp_path / "job" / "requests"
    (requests / f"{'a' * 32}.json").write_text("{")
    (requests / f"{'b' * 32}.json").write_text(
        json.dumps({"what": "rescale", "parallelism": 2, "more": "x" * 70_000})
    )
    (requests / f"{'0' * 32}.json").mkdir()
    (requests / "notes.txt").write_text("mine")
    for number in range(120):  # nobody fetched them
        give_answer(folder, f"{number:032x}", DriverAnswer(True, "yes"))
    taken: set[str] = set()
    assert {request.id for request in take_requests(folder, me, taken)} == {mine, far}
    assert {to_other, old} < taken
    assert sorted(each.name for each in requests.iterdir() if "answer" not in each.name) == [
        f"{'0' * 32}.json", f"{'b' * 32}.json", "notes.txt"
    ]  # fmt: skip
    give_answer(folder, mine, DriverAnswer(False, "no"))
    give_answer(folder, far, DriverAnswer(True, "yes"))
    assert answer_to(folder, mine) == DriverAnswer(False, "no")
    assert answer_to(folder, mine) is None
    make_request(folder, 2, DriverIdentity(), 60)  # on an object store, of a driver that has ended since
    clear_requests(folder)
    assert not take_requests(folder, me, taken)
    assert answer_to(folder, far) is None
    unread = make_request(folder, 2, me, 60)
    assert withdraw_request(folder, unread)
    assert not withdraw_request(folder, unread)
    open_job_folder(str(tmp_path), "job")  # nothing strange in it


def test_a_request_is_not_lost_with_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that cannot be read now is taken later; one whose answer cannot be written leaves the others theirs."""
    folder = open_job_folder(str(tmp_path), "job")
    first, second, third = sorted(make_request(folder, 2, DriverIdentity(), 60) for _ in range(3))
    for path in Path(folder.storage.root, "requests").iterdir():
        path.write_text(path.read_text().replace("rescale", "nonsense"))
    read, write = LocalDisk.read_document, LocalDisk.write_durable

    def broken(path: str) -> None:
        raise StorageError("the disk is away", path)

    monkeypatch.setattr(
        LocalDisk, "read_document", lambda self, path: broken(path) if second in path else read(self, path)
    )
    monkeypatch.setattr(
        LocalDisk,
        "write_durable",
        lambda self, path, data: broken(path) if first in path else write(self, path, data),
    )
    inbox = RequestInbox(folder, DriverIdentity(), RescaleRequests(plan_of(), True, lambda plan, over: None))
    inbox._look()
    monkeypatch.undo()
    assert [answer_to(folder, each) is None for each in (first, second, third)] == [True, True, False]
    inbox._look()
    answer = answer_to(folder, second)
    assert answer is not None
    assert "does not understand the request" in answer.text
