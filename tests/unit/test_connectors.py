"""Sources read ranges that can be read again; sinks show and call what they promise."""

from __future__ import annotations

import time
from decimal import Decimal

import pytest

from changelog_engine.connectors import (
    CollectionSource,
    CollectSink,
    FunctionSink,
    IterableSource,
    NumberSequenceSource,
    PrintSink,
    Sink,
    Source,
    Split,
)
from changelog_engine.errors import ConfigurationError, TypeMismatchError
from changelog_engine.types import Row, Types


def read_split(source, split, step=3, start=None):
    """All elements of a split, by steps, with the position after each step."""
    reader = source.reader(split)
    position = split.start if start is None else start
    elements, positions, finished = [], [position], False
    while not finished:
        values, position, finished, *_ = reader.read(position, step)
        assert len(values) <= step
        elements += values
        positions.append(position)
    reader.close()
    return elements, positions


def read_all(source, parallelism=1, step=3):
    return [each for split in source.splits(parallelism) for each in read_split(source, split, step)[0]]


def check_replay(source, split, step=3):
    """From every position given out, a new reader and one that has gone on give the rest."""
    elements, positions = read_split(source, split, step)
    for back in positions:
        rest = read_split(source, split, step, start=back)[0]
        assert list(rest) == (elements[len(elements) - len(rest) :] if rest else [])
    reader = source.reader(split)
    first = reader.read(positions[0], step)
    if len(positions) > 2:
        reader.read(positions[1], step)
    assert list(reader.read(positions[0], step).values) == list(first.values)
    reader.close()


class TestCollection:
    def test_elements_in_order_from_one_subtask(self):
        source = CollectionSource([3, 1, 2, "x", None])
        assert isinstance(source, Source)
        assert not source.parallel
        assert len(source.splits(8)) == 1
        assert read_all(source, step=2) == [3, 1, 2, "x", None]
        check_replay(source, source.splits(1)[0], step=2)

    def test_an_empty_collection_ends_at_once(self):
        words = {f"w{number}" for number in range(20)}
        assert CollectionSource(words)._elements == sorted(words), "or another order in each run"
        assert CollectionSource(frozenset([2, "a", 1]))._elements == [1, 2, "a"]
        source = CollectionSource([])
        assert source.reader(source.splits(1)[0]).read(0, 10) == ([], 0, True, None, None)

    def test_a_change_in_place_does_not_reach_a_replay(self):
        source = CollectionSource([[1], [2]])
        reader = source.reader(source.splits(1)[0])
        reader.read(0, 2).values[0].append("changed")
        assert reader.read(0, 2).values == [[1], [2]]

    def test_elements_are_checked_with_their_index(self):
        assert CollectionSource([1, None, 2], Types.INT()).output_type == Types.INT()
        with pytest.raises(TypeMismatchError, match="element 1"):
            CollectionSource([1, "two"], Types.LONG())
        rows = CollectionSource([(1, "a")], Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()]))
        assert read_all(rows) == [Row(id=1, name="a")]

    def test_objects_are_maps_of_their_attributes_where_these_are_declared_as_strings(self):
        class Reading:
            def __init__(self, **attributes):
                vars(self).update(attributes)

        def of(element, declared):
            return read_all(CollectionSource([element], declared))[0]

        texts = Types.MAP(Types.STRING(), Types.STRING())
        reading, name = Reading(id="s1", n=1, x=1e20, ok=True), f"{Reading.__module__}.{Reading.__qualname__}"
        expected = {"__class__": name, "id": "s1", "n": "1", "x": "1.0E20", "ok": "true"}
        assert of(reading, texts) == expected
        named = Types.ROW_NAMED(["n", "info"], [Types.INT(), texts])
        assert of((1, reading), named) == of(Row(n=1, info=reading), named) == Row(n=1, info=expected)
        assert of((1, [reading]), Types.TUPLE([Types.INT(), Types.LIST(texts)])) == (1, [expected])

        for refused in (Reading(), Reading(n=None), Reading(n=[1]), Reading, 5):
            with pytest.raises(
                TypeMismatchError, match=r"^element 0 of from_collection is declared MAP<STRING, STRING>"
            ):
                of(refused, texts)
        with pytest.raises(TypeMismatchError, match="element 0"):
            of(reading, Types.MAP(Types.STRING(), Types.LONG()))

    def test_numbers_and_bools_are_texts_where_strings_are_declared(self):
        def of(element, declared):
            return read_all(CollectionSource([element], declared))[0]

        string = Types.STRING()
        for value, text in (
            (True, "true"),
            (-5, "-5"),
            (2**70, "1180591620717411303424"),
            (1e20, "1.0E20"),
            (float("inf"), "Infinity"),
            (Decimal("1.50"), "1.50"),
            ("as it is", "as it is"),
        ):
            assert of(value, string) == text
        texts = Types.MAP(string, string)
        assert of({1: "a", 2.5: True}, texts) == {"1": "a", "2.5": "true"}
        assert of({"n": 1, "k": 2}, Types.MAP(string, Types.INT())) == {"n": 1, "k": 2}
        assert of({1: 2}, Types.MAP(string, Types.INT())) == {"1": 2}
        named = Types.ROW_NAMED(["n", "s"], [Types.INT(), string])
        assert of((1, 2), named) == of(Row(n=1, s=2), named) == of({"n": 1, "s": 2}, named) == Row(n=1, s="2")
        assert of((1, {"k": 2}, [3]), Types.TUPLE([Types.INT(), texts, Types.BASIC_ARRAY(string)])) == (
            1,
            {"k": "2"},
            ["3"],
        )
        assert of([1, "two"], Types.LIST(string)) == ["1", "two"]
        for refused, declared in (
            (b"ab", string),
            ([1], string),
            ({1: "a", "1": "b"}, texts),
            ({"n": 1}, named),
            ((1, "2", 3), named),
            (1, Types.CHAR()),
        ):
            with pytest.raises(TypeMismatchError, match="element 0 of from_collection"):
                of(refused, declared)

    @pytest.mark.parametrize("collection", [5, None])
    def test_what_is_not_a_collection_is_refused(self, collection):
        with pytest.raises(ConfigurationError, match="from_collection needs a list"):
            CollectionSource(collection)

    def test_any_iterable_is_a_collection(self):
        assert read_all(CollectionSource(n * n for n in range(4))) == [0, 1, 4, 9]
        assert [read_all(CollectionSource(each)) for each in ("ab", b"a", {"k": 1})] == [
            ["a", "b"],
            [97],
            ["k"],
        ]


class TestNumberSequence:
    @pytest.mark.parametrize("parallelism", [1, 2, 3, 7, 50])
    def test_pieces_cover_the_sequence(self, parallelism):
        source = NumberSequenceSource(-5, 10)
        splits = source.splits(parallelism)
        assert len(splits) == min(parallelism, 16)
        assert [n for split in splits for n in read_split(source, split)[0]] == list(range(-5, 11))
        for split in splits:
            check_replay(source, split)

    def test_ranges_are_never_lists(self):
        source = NumberSequenceSource(1, 10**12)
        values, position, finished, *_ = source.reader(source.splits(1)[0]).read(1, 10**6)
        assert values == range(1, 10**6 + 1)
        assert (position, finished) == (10**6 + 1, False)

    @pytest.mark.parametrize(("start", "end"), [(2, 1), (0, 2**63), ("0", 1), (True, 2), (0.0, 1)])
    def test_a_sequence_refuses_bad_bounds(self, start, end):
        with pytest.raises(ConfigurationError, match="NumberSequenceSource"):
            NumberSequenceSource(start, end)


class TestIterable:
    def test_a_generator_function_is_read_again_from_every_position(self):
        source = IterableSource(lambda: (n * 2 for n in range(10)), Types.INT())
        assert read_all(source) == [n * 2 for n in range(10)]
        check_replay(source, source.splits(1)[0])

    def test_a_slow_one_gives_what_it_has(self, monkeypatch):
        monkeypatch.setattr("changelog_engine.connectors.iterable.READ_BUDGET_S", 0.05)

        def slow():
            for n in range(1000):
                time.sleep(0.01)
                yield n

        began = time.monotonic()
        values = IterableSource(slow).reader(Split("iterable", 0)).read(0, 1000).values
        assert 0 < len(values) < 100
        assert time.monotonic() - began < 1

    def test_a_fast_one_fills_the_range(self):
        reader = IterableSource(lambda: iter(range(10**6))).reader(Split("iterable", 0))
        assert reader.read(0, 50_000).values == list(range(50_000))

    def test_generators_are_closed(self):
        closed = []

        def generator():
            try:
                yield from range(10)
            finally:
                closed.append(True)

        reader = IterableSource(generator).reader(Split("iterable", 0))
        reader.read(0, 3)
        reader.close()
        assert closed == [True]

    def test_one_that_changes_its_mind(self):
        given = iter([range(10), range(3)])
        reader = IterableSource(lambda: next(given)).reader(Split("iterable", 0))
        assert reader.read(0, 5).next == 5
        reader.close()
        with pytest.raises(ConfigurationError, match="gave 3 elements this time and at least 5 before"):
            reader.read(5, 5)

    def test_an_iterable_source_needs_a_function_that_gives_one(self):
        with pytest.raises(ConfigurationError, match="from_collection"):
            IterableSource([1, 2])  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="returned NoneType"):
            IterableSource(lambda: None).reader(Split("iterable", 0)).read(0, 1)  # type: ignore[arg-type,return-value]


class TestSinks:
    @pytest.mark.parametrize(
        ("identifier", "parallelism", "line"),
        [(None, 1, "x"), ("id", 1, "id> x"), (None, 4, "3> x"), ("id", 4, "id:3> x"), ("", 1, "x")],
    )
    def test_printed_lines_begin_with_identifier_and_subtask(self, identifier, parallelism, line):
        assert PrintSink(identifier).lines(["x"], 2 % parallelism, parallelism) == [line]

    def test_print_follows_the_type(self):
        values = [("a", 1), None]
        assert PrintSink(None, Types.TUPLE([Types.STRING(), Types.INT()])).lines(values, 0, 1) == [
            "(a,1)",
            "None",
        ]
        assert PrintSink().lines([("a", 1), 1.0], 0, 1) == ["('a', 1)", "1.0"]

    def test_a_function_sink_calls_hooks_where_there_are_some(self):
        got = []

        class Invoked:
            def invoke(self, value):
                got.append(("invoked", value))

            def flush(self):
                got.append("flush")

            def close(self):
                got.append("close")

        for function in (Invoked(), lambda value: got.append(("called", value))):
            sink = FunctionSink(function)
            assert isinstance(sink, Sink)
            writer = sink.writer(0, 1)
            writer.write([1, 2])
            writer.flush()
            writer.close()
        assert got == [("invoked", 1), ("invoked", 2), "flush", "close", ("called", 1), ("called", 2)]
        with pytest.raises(ConfigurationError, match="invoke"):
            FunctionSink(5)

    def test_driver_sinks_have_no_writer(self):
        assert not isinstance(PrintSink(), Sink)
        assert not isinstance(CollectSink(), Sink)
