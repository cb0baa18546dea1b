"""The base classes of sources and sinks: what must be given, what has a default, and who is refused."""

from __future__ import annotations

import ast
import contextlib
import copy
import inspect
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.functions import Count
from support.graphs import GraphBuilder
from support.jobs import TestJob

from api.common import Encoder, RestartStrategies, Row, Types, WatermarkStrategy
from api.datastream import OutputTag, StreamExecutionEnvironment
from api.datastream.connectors import FileSink, FileSource, JdbcConnectionOptions, JdbcSink, StreamFormat
from api.datastream.connectors import Sink as ApiSink
from api.datastream.connectors import Source as ApiSource
from api.datastream.connectors.delta import DeltaSink
from api.datastream.connectors.hybrid_source import HybridSource as ApiHybrid
from changelog_engine import connectors as engine
from changelog_engine.connectors import (
    CommittingSink,
    CommittingWriter,
    DiscoveringSource,
    HybridSource,
    NumberSequenceSource,
    Position,
    Prepared,
    Range,
    Sink,
    SinkContext,
    SinkWriter,
    Source,
    SourceOfParts,
    Split,
    SplitReader,
)
from changelog_engine.connectors.delta import DeltaSource as EngineDeltaSource
from changelog_engine.connectors.state_changes import StateChangesSource
from changelog_engine.errors import ArgumentTypeError, ConfigurationError, JobExecutionError
from changelog_engine.replay.source import ReplayReader, replayed
from changelog_engine.testing import At, ScriptedSource, conformance, state_conformance, without_spark
from changelog_engine.testing.conformance import check_committing_sink, check_sink, check_source

NO_WATERMARKS = WatermarkStrategy.no_watermarks()


class Least(Source):
    """What must be given, and nothing else."""

    elements: Sequence[Any] = (1, 2, 3)

    def splits(self, parallelism: int) -> list[Split]:
        return [Split("only", 0)]

    def reader(self, split: Split) -> SplitReader:
        return LeastReader(self.elements)


class LeastReader(SplitReader):
    def __init__(self, elements: Sequence[Any]) -> None:
        self.elements = elements

    def read(self, position: Position, max_records: int) -> Range:
        after = min(position + max_records, len(self.elements))
        return Range(self.elements[position:after], after, after == len(self.elements))


class Most(DiscoveringSource):
    """What may be given; the calls are counted."""

    bounded, parallel, timed, acknowledges = True, False, True, True
    watermarks_by_split, bad_tag, output_type, discovery_interval_ms = True, "bad", Types.LONG(), 0
    calls: list[Any] = []  # noqa: RUF012 # of all copies

    def splits(self, parallelism: int) -> list[Split]:
        return [Split("a", 0)]

    def reader(self, split: Split) -> SplitReader:
        return MostReader()

    def discover(self, known: Mapping[str, tuple[Position, bool]]) -> list[Split]:
        return [] if "b" in known else [Split("b", 0)]

    def with_options(self, options: Mapping[str, str]) -> Most:
        self.calls.append("with_options")
        return Most()

    def check_before_start(self) -> None:
        self.calls.append("check_before_start")

    def job_ended(self) -> None:
        self.calls.append("job_ended")


class MostReader(SplitReader):
    def begin_epoch(self, durable: bool) -> None:
        Most.calls.append(("begin_epoch", durable))

    def read(self, position: Position, max_records: int) -> Range:
        after = min(position + max_records, 4)
        self.watermark = after
        found = list(range(position, after))
        return Range(
            found, after, after == 4, [each + 1 for each in found], [("bad", each) for each in found]
        )

    def at_barrier(self, position: Position) -> Position:
        Most.calls.append("at_barrier")
        return position

    def acknowledged(self, position: Position) -> None:
        Most.calls.append(("acknowledged", position))

    def close(self) -> None:
        Most.calls.append("close")


class Plain(Sink):
    """Appends to a file; what must be given, and nothing else."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def writer(self, subtask: int, parallelism: int) -> SinkWriter:
        return PlainWriter(self.path)


class PlainWriter(SinkWriter):
    def __init__(self, path: Path) -> None:
        self.path = path
        self.waiting: list[Any] = []

    def write(self, values: Sequence[Any]) -> None:
        self.waiting += values

    def flush(self) -> None:
        with self.path.open("a") as file:
            file.writelines(f"{value}\n" for value in self.waiting)
        self.waiting = []


class Kept(Sink):
    """Shows one value for each that it was given."""

    def __init__(self, visible: list[Any], shown: Any) -> None:
        self._visible, self._shown = visible, shown

    def writer(self, subtask: int, parallelism: int) -> SinkWriter:
        return KeptWriter(self._visible, self._shown)

    def __reduce__(self) -> Any:
        """Shipped, it is the same one: the test looks at its list."""
        _KEPT.append(self)
        return _kept_at, (len(_KEPT) - 1,)


_KEPT: list[Kept] = []


def _kept_at(place: int) -> Kept:
    return _KEPT[place]


class Giving(Least):
    """Gives some elements the first time, others from then on."""

    def __init__(self, first: list[Any], again: list[Any]) -> None:
        self.first, self.again = first, again

    def reader(self, split: Split) -> SplitReader:
        given, self.first = self.first, self.again
        return LeastReader(given)


class Two(NamedTuple):
    first: Any
    second: Any


@dataclass(frozen=True)
class Point:
    x: Any


class Bad(Least):
    """2 goes to the side output; a reader that forgets does not say so when it reads several at once."""

    bad_tag = "bad"
    forgets = False

    def reader(self, split: Split) -> SplitReader:
        return BadReader(self.elements, self.forgets)


class BadReader(LeastReader):
    def __init__(self, elements: Sequence[Any], forgets: bool) -> None:
        super().__init__(elements)
        self.forgets = forgets

    def read(self, position: Position, max_records: int) -> Range:
        found = super().read(position, max_records)
        bad = [("bad", value) for value in found.values if value == 2]
        good = [value for value in found.values if value != 2]
        return found._replace(values=good, aside=None if self.forgets and good else bad)


class KeptWriter(SinkWriter):
    def __init__(self, visible: list[Any], shown: Any) -> None:
        self._visible, self._shown = visible, shown

    def write(self, values: Sequence[Any]) -> None:
        self._visible += [self._shown for _ in values]

    def flush(self) -> None: ...


class Forgets(Plain):
    """Its writers lose what a flush finds."""

    def writer(self, subtask: int, parallelism: int) -> SinkWriter:
        return ForgetsWriter(self.path)


class ForgetsWriter(PlainWriter):
    def flush(self) -> None:
        self.waiting = self.waiting[1:]
        super().flush()


class Timed(Plain):
    """Takes elements with their times."""

    def writer(self, subtask: int, parallelism: int) -> SinkWriter:
        return TimedWriter(self.path)


class TimedWriter(PlainWriter):
    def write_timed(self, values: Sequence[Any], timestamps: Sequence[int] | None, watermark: int) -> None:
        self.write([f"{values} {timestamps} {watermark}"])


class Duck:
    """The members of all of them, and no base class."""

    bounded, parallel, output_type, parts = True, True, None, ()

    def splits(self, parallelism: int) -> list[Split]:
        return []

    def reader(self, split: Split) -> Any:
        return self

    def read(self, position: Position, max_records: int) -> Range:
        return Range([], position, True)

    def writer(self, subtask: int, parallelism: int) -> Any:
        return self

    def committing_writer(self, context: SinkContext) -> Any:
        return self

    def write(self, values: Sequence[Any]) -> None: ...

    def flush(self) -> None: ...


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


class TestDefaults:
    def test_a_source_needs_two_methods(self) -> None:
        assert check_source(Least(), [1, 2, 3]) == [1, 2, 3]
        source = Least()
        assert (source.bounded, source.parallel, source.timed, source.acknowledges) == (
            False,
            True,
            False,
            False,
        )
        assert (source.watermarks_by_split, source.output_type, source.bad_tag) == (False, None, None)
        assert source.with_options({"a": "b"}) is source
        assert source.reader(Split("only", 0)).watermark is None

    def test_a_sink_needs_a_writer(self, tmp_path: Path) -> None:
        check_sink(Plain(tmp_path / "out"), lambda: lines(tmp_path / "out"), runs=30)
        sink = Plain(tmp_path / "out")
        assert sink.for_type(Types.LONG()) is sink
        assert sink.with_options({}) is sink

    @pytest.mark.parametrize("parallelism", [1, 2])
    def test_the_least_source_and_sink_run(self, tmp_path: Path, parallelism: int) -> None:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(parallelism)
        env.from_source(Least(), NO_WATERMARKS, "least").sink_to(Plain(tmp_path / "out"))
        with without_spark():
            env.execute("least")
        assert sorted(lines(tmp_path / "out")) == ["1", "2", "3"]

    @pytest.mark.parametrize(
        "base",
        [
            Source,
            DiscoveringSource,
            SourceOfParts,
            SplitReader,
            Sink,
            SinkWriter,
            CommittingSink,
            CommittingWriter,
        ],
    )
    def test_what_must_be_given_is_abstract(self, base: type) -> None:
        assert inspect.isabstract(base)
        with pytest.raises(TypeError, match="abstract"):
            base()


class TestOverrides:
    def test_all_are_called(self) -> None:
        Most.calls.clear()
        assert check_source(Most(), range(4)) == [0, 1, 2, 3]
        assert {"with_options", "check_before_start", "job_ended", "close", "at_barrier"} <= {
            call for call in Most.calls if isinstance(call, str)
        }
        assert {("begin_epoch", True), ("begin_epoch", False), ("acknowledged", 4)} <= {
            call for call in Most.calls if isinstance(call, tuple)
        }

    def test_the_engine_calls_all(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Most.calls.clear()
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(1)
        env.enable_checkpointing(60_000)  # at the end: the epochs before it have none
        stream = env.from_source(Most(), NO_WATERMARKS, "most")
        stream.sink_to(Timed(tmp_path / "out"))
        stream.get_side_output(OutputTag("bad", Types.LONG())).sink_to(Plain(tmp_path / "bad"))
        with without_spark():
            env.execute("most")
        # Of the split that came later too
        assert sorted(lines(tmp_path / "bad")) == sorted(2 * ["0", "1", "2", "3"])
        assert "".join(lines(tmp_path / "out")).count("[1, 2, 3, 4]") == 2
        assert [call for call in Most.calls if isinstance(call, str)].count("job_ended") == 1
        assert {
            "with_options",
            "check_before_start",
            "close",
            ("begin_epoch", False),
            ("acknowledged", 4),
        } <= {*Most.calls}


@pytest.mark.parametrize(("element", "times"), [(At("a", 7), [7]), ("a", [None])])
def test_the_log_has_the_times_of_a_source_that_is_timed(
    tmp_path: Path, element: Any, times: list[int | None]
) -> None:
    build = GraphBuilder()
    keyed = build.key_by(build.source(ScriptedSource([element])), lambda value: value, Types.STRING())
    build.collect(build.process(keyed, Count()))
    job = TestJob(tmp_path)
    job.run(build.graph())
    parts = [
        pq.read_table(path, columns=["event_time"]) for path in Path(job.table()).glob("**/part-*.parquet")
    ]
    found = [time for part in parts for time in part["event_time"].cast("int64").to_pylist()]
    assert found == [time and time * 1000 for time in times]


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (
                lambda env: env.from_source(Duck(), NO_WATERMARKS, "duck"),
                r"StreamExecutionEnvironment.from_source needs a Source, got .*Duck object.*: the class Duck does not "
                r"inherit changelog_engine.connectors.Source$",
            ),
            (
                lambda env: env.from_source(object(), NO_WATERMARKS, "object"),
                r"does not inherit changelog_engine.connectors.Source, and has no reader\(\) and no splits\(\)",
            ),
            (
                lambda env: env.from_source(Least, NO_WATERMARKS, "class"),
                r"got the class Least: give an object, Least\(...\)",
            ),
            (lambda env: ApiSource(Duck()), "Source needs a Source, got .*Duck"),
            (lambda env: ApiHybrid.builder(Duck()), "HybridSource.builder needs a Source, got .*Duck"),
            (lambda env: HybridSource([Duck()]), "HybridSource needs a Source, got .*Duck"),
            (
                lambda env: env.from_collection([1]).sink_to(Duck()),
                "DataStream.sink_to needs a Sink or a CommittingSink, got .*Duck.*does not inherit changelog_engine.conn",
            ),
            (lambda env: env.from_collection([1]).sink_to(42), r"has no writer\(\)"),
            (lambda env: ApiSink(Duck()), "Sink needs a Sink or a CommittingSink, got .*Duck"),
        ],
    )
    def test_where_it_is_given(self, call: Any, message: str) -> None:
        env = StreamExecutionEnvironment.get_execution_environment()
        with pytest.raises(ArgumentTypeError, match=message):
            call(env)

    def test_a_source_of_parts_needs_parts(self) -> None:
        class Own(SourceOfParts):
            reader = part_of = begin = discover_in = Least.splits

        env = StreamExecutionEnvironment.get_execution_environment()
        with pytest.raises(ConfigurationError, match="Own has no parts"):
            env.from_source(Own(), NO_WATERMARKS, "own")
        with pytest.raises(ConfigurationError, match="a Own decides itself how its parts begin"):
            HybridSource([Own()])
        one = NumberSequenceSource(1, 2)
        assert HybridSource([HybridSource([one]), one]).parts == (one, one)

    @pytest.mark.parametrize(
        ("source", "sink", "message"),
        [
            (
                "DuckReader",
                "Plain",
                r"DuckReader.reader\(\) must return a SplitReader, got .*Duck.*SplitReader$",
            ),
            (
                "Least",
                "DuckWriter",
                r"DuckWriter.writer\(\) must return a SinkWriter, got .*Duck.*SinkWriter$",
            ),
            (
                "Least",
                "DuckCommits",
                r"DuckCommits.committing_writer\(\) must return a CommittingWriter, got .*Duck.*"
                r"has no commit\(\) and no prepare\(\)$",
            ),
        ],
    )
    def test_where_it_is_opened(self, tmp_path: Path, source: str, sink: str, message: str) -> None:
        class DuckReader(Least):
            def reader(self, split: Split) -> SplitReader:
                return Duck()  # type: ignore[return-value]

        class DuckWriter(Plain):
            def writer(self, subtask: int, parallelism: int) -> SinkWriter:
                return Duck()  # type: ignore[return-value]

        class DuckCommits(CommittingSink):
            def __init__(self, path: Path) -> None: ...

            def committing_writer(self, context: SinkContext) -> CommittingWriter:
                return Duck()  # type: ignore[return-value]

        made: dict[str, Any] = {
            each.__name__: each for each in (Least, DuckReader, Plain, DuckWriter, DuckCommits)
        }
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_source(made[source](), NO_WATERMARKS, "s").sink_to(made[sink](tmp_path / "out"))
        with without_spark(), pytest.raises(JobExecutionError, match=f"(?m){message}"):
            env.execute("refused")
        assert lines(tmp_path / "out") == []


class TestWhatStandsForOthers:
    """A source that stands for others says what they say, so that no attribute is forgotten when one is added."""

    def other(self, name: str) -> Any:
        """A value of an attribute that is not its default."""
        default = vars(Source)[name]
        return {"output_type": Types.LONG(), "bad_tag": "bad"}.get(name, not default)

    # Which parts are asked: see SourceOfParts. Replays acknowledge nothing, and have no stream that reads a side output.
    @pytest.mark.parametrize(
        "name", [each for each in Source.__annotations__ if each != "watermarks_by_split"]
    )
    def test_a_hybrid_source_answers_as_its_part(self, name: str) -> None:
        part = type("Part", (Least,), {"bounded": True, name: self.other(name)})()
        assert vars(HybridSource([part]))[name] == self.other(name)

    @pytest.mark.parametrize(
        "name",
        [each for each in Source.__annotations__ if each not in {"acknowledges", "bad_tag", "replayable"}],
    )
    def test_a_replayed_source_answers_as_the_original(self, name: str) -> None:
        source = type("Original", (Least,), {name: self.other(name)})()
        assert vars(replayed(source, "source"))[name] == self.other(name)

    @pytest.mark.parametrize("name", [each for each in vars(SplitReader) if not each.startswith("_")])
    def test_a_replays_reader_has_every_member_of_use(self, name: str) -> None:
        """Each member of a reader is a replay's own, or is of no use to it."""
        assert name in vars(ReplayReader) or name in {"acknowledged", "at_barrier", "watermark", "behind"}


class TestConformance:
    """What breaks a promise about a default or an override is found."""

    @pytest.mark.parametrize(
        ("member", "value", "message"),
        [
            ("timed", False, "gives timestamps, and timed is False"),
            ("bad_tag", None, "for a side output, and bad_tag is None"),
            ("bounded", 1, "bounded is 1"),
            ("replayable", False, "Most says itself that it cannot be read again"),
            ("output_type", "LONG", "output_type is 'LONG'"),
            ("discovery_interval_ms", "1", "discovery_interval_ms is '1'"),
            ("with_options", lambda self, options: None, r"with_options\(\) gives None"),
            ("discover", lambda self, known: [Split(1, 0)], "are not all str"),  # type: ignore[arg-type]
        ],
    )
    def test_a_source_that_breaks_a_promise_is_named(
        self, monkeypatch: pytest.MonkeyPatch, member: str, value: Any, message: str
    ) -> None:
        monkeypatch.setattr(Most, member, value)
        with pytest.raises(AssertionError, match=message):
            check_source(Most())

    @pytest.mark.parametrize(
        ("watermarks", "message"),
        [
            ([9, 9, 9, 9], "an element of 2 after the watermark 9"),
            ([1, 0, 0, 0], "the watermark falls from 1 to 0"),
        ],
    )
    def test_a_watermark_that_falls_is_named(
        self, monkeypatch: pytest.MonkeyPatch, watermarks: list[int], message: str
    ) -> None:
        def read(self: Any, position: int, max_records: int) -> Range:
            self.watermark = watermarks[min(position, 3)]
            return Range([position], position + 1, position == 3, [position + 1])

        monkeypatch.setattr(MostReader, "read", read)
        with pytest.raises(AssertionError, match=message):
            check_source(Most())

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (1, 1.0), (1, True), (0.0, -0.0), ([1], [True]), ((1, 2), [1, 2]), ({"x": 1}, {"x": 1.0}), ({1}, {1.0}),
            (Row(x=1), Row(x=True)), (Row(1), Row(x=1)), (b"a", bytearray(b"a")), (Decimal(1), 1),
            (np.array([1]), np.array([1.0])), (np.array([1]), [1]), (Decimal("1.0"), Decimal("1.00")),
            (Two(1, 2), Two(1.0, 2)), (Two(1, 2), (1, 2)), (Point(1), Point(True)),
            (datetime(2024, 5, 6, 12, tzinfo=UTC), datetime(2024, 5, 6, 14, tzinfo=timezone(timedelta(hours=2)))),
        ],
        ids=repr,
    )  # fmt: skip
    def test_elements_are_compared_exactly(self, tmp_path: Path, one: Any, other: Any) -> None:
        """1 would pass for 1.0 and True: a sink that loses the class would keep its promises."""
        given = [one, 2]
        check_source(Giving(given, given), [2, one])
        with pytest.raises(AssertionError, match="missing"):
            check_source(Giving(given, given), [2, other])
        with pytest.raises(AssertionError, match="gives something else when it is read again"):
            check_source(Giving(given, [other, 2]))
        visible: list[Any] = []
        with pytest.raises(AssertionError, match="not visible"):
            check_sink(Kept(visible, other), lambda: visible, element=lambda number: one)
        visible.clear()
        check_sink(Kept(visible, one), lambda: visible, element=lambda number: one)

    @pytest.mark.parametrize(
        "value", [float("nan"), [float("nan")], {"x": {1, 2}}, Row(x=[1]), {1: "a", 2: "b"}]
    )
    def test_what_is_the_same_passes(self, value: Any) -> None:
        given = [copy.deepcopy(value), np.int64(2)]
        check_source(Giving(given, given), [2, copy.deepcopy(value)])

    def test_records_for_a_side_output_are_counted_when_they_are_read_again(self) -> None:
        """They could be lost, and nobody saw it."""
        check_source(Bad(), [1, 3])
        source = Bad()
        source.forgets = True
        with pytest.raises(
            AssertionError, match=r"puts 0 records aside when it is read again from [01], not 1"
        ):
            check_source(source, [1, 3])

    def test_who_does_not_inherit(self, tmp_path: Path) -> None:
        for check in (check_source, check_sink, check_committing_sink):
            with pytest.raises(AssertionError, match="Duck does not inherit"):
                check(Duck(), list)  # type: ignore[arg-type]

    @pytest.mark.parametrize("module", [conformance, state_conformance])
    def test_python_o_drops_no_check(self, module: ModuleType) -> None:
        """An assert statement would be gone, and whatever is checked would pass."""
        path = Path(inspect.getfile(module))
        assert not [
            node.lineno for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Assert)
        ]

    def test_a_sink_that_forgets(self, tmp_path: Path) -> None:
        with pytest.raises(AssertionError, match="these elements are not visible"):
            check_sink(Forgets(tmp_path / "out"), lambda: lines(tmp_path / "out"))


def test_every_connector_here_inherits() -> None:
    """Sources, sinks, readers and writers of this package are instances of their base classes."""
    bases = (Source, engine.AnySink, SplitReader, engine.Writer)
    import pkgutil

    from changelog_engine import connectors, testing

    strangers = []
    for package in (connectors, testing):
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            module = __import__(found.name, fromlist=["_"])
            for name, each in inspect.getmembers(module, inspect.isclass):
                if each.__module__ != found.name or issubclass(each, bases):
                    continue
                members = {*vars(each)}
                if {"splits", "reader"} <= members or {"read", "close"} <= members:
                    strangers.append(f"{found.name}.{name}")
                if members & {"writer", "committing_writer"} or {"write", "prepare"} <= members:
                    strangers.append(f"{found.name}.{name}")
    assert strangers == []


def test_prepared_is_empty_by_default() -> None:
    assert Prepared() == ((), None)


def test_relative_paths_begin_where_the_program_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers may work elsewhere, and a program may go elsewhere while its job runs."""
    here, elsewhere = tmp_path / "here é", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(here)
    (here / "in").write_text("7\n")
    with contextlib.closing(sqlite3.connect("a b.db")) as database:
        database.execute("CREATE TABLE numbers (number INTEGER)")
    row = Types.ROW_NAMED(["number"], [Types.LONG()])
    url = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:sqlite:a%20b.db").build()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.enable_checkpointing(60_000).enable_changelog_state_backend(True)
    env.set_restart_strategy(RestartStrategies.no_restart())
    lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "in").build()
    numbers = env.from_source(lines, NO_WATERMARKS, "in").map(lambda line: Row(number=int(line)), row)
    numbers.sink_to(DeltaSink.for_row_data("table", row).build())
    numbers.add_sink(JdbcSink.sink("INSERT INTO numbers (number) VALUES (?)", row, url))
    texts = FileSink.for_row_format("out", Encoder.simple_string_encoder())
    numbers.map(str, Types.STRING()).sink_to(texts.build())
    keyed = numbers.key_by(lambda row: row[0], Types.LONG()).process(Count()).uid("count")
    keyed.sink_to(Plain(tmp_path / "counts"))
    monkeypatch.chdir(elsewhere)
    with without_spark():
        env.execute("here")
    with contextlib.closing(sqlite3.connect(here / "a b.db")) as database:
        assert database.execute("SELECT number FROM numbers").fetchall() == [(7,)]
    assert [path.read_text() for path in (here / "out").rglob("part-*")] == ["Row(number=7)\n"]
    assert [path.name for path in elsewhere.iterdir()] == ["changelog-data"]

    counts = StateChangesSource("changelog-data/here", "count", "count", until="newest")
    monkeypatch.chdir(here)
    table = EngineDeltaSource("table")
    monkeypatch.chdir(tmp_path)
    for source in (counts, table):
        (split,) = source.splits(1)
        with contextlib.closing(source.reader(split)) as reader:
            assert len(reader.read(split.start, 9).values) == 1
