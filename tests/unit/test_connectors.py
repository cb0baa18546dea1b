"""Sources read ranges that can be read again; sinks show and call what they promise."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import time

import pytest

from changelog_engine.connectors import (
    ByteLineReader,
    CollectionSource,
    CollectSink,
    FunctionSink,
    IterableSource,
    NumberSequenceSource,
    PrintSink,
    Sink,
    Source,
    Split,
    TextFileSource,
)
from changelog_engine.errors import ConfigurationError, NotSupportedError, StorageError, TypeMismatchError
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

    def test_empty(self):
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

    @pytest.mark.parametrize("collection", ["text", b"bytes", {"a": 1}, 5, None])
    def test_no_collection(self, collection):
        with pytest.raises(ConfigurationError, match="from_collection needs a list"):
            CollectionSource(collection)

    def test_iterables(self):
        assert read_all(CollectionSource(n * n for n in range(4))) == [0, 1, 4, 9]


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
    def test_bad_bounds(self, start, end):
        with pytest.raises(ConfigurationError, match="NumberSequenceSource"):
            NumberSequenceSource(start, end)


class TestIterable:
    def test_generator(self):
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

    def test_no_function(self):
        with pytest.raises(ConfigurationError, match="from_collection"):
            IterableSource([1, 2])  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="returned NoneType"):
            IterableSource(lambda: None).reader(Split("iterable", 0)).read(0, 1)  # type: ignore[arg-type,return-value]


TEXTS = [
    "",
    "\n",
    "one",
    "one\n",
    "one\n\nthree  \n last",
    "windows\r\n\r\nlines\r\n",
    "old\rmac\r\rlines",
    "mixed\r\r\n\n\rend\r",
    "übung\nmächt ☂ 𝄞\n",
]


class TestTextFile:
    @pytest.mark.parametrize("text", TEXTS)
    @pytest.mark.parametrize("step", [1, 2, 100])
    def test_lines(self, tmp_path, text, step):
        path = tmp_path / "f.txt"
        path.write_bytes(text.encode())
        source = TextFileSource([str(path)])
        expected = [line.rstrip("\n") for line in io.StringIO(text, newline=None)]
        assert read_all(source, step=step) == expected
        check_replay(source, source.splits(1)[0], step)

    @pytest.mark.parametrize("chunk", [1, 2, 3, 5, 64])
    def test_chunks_of_any_size(self, tmp_path, chunk):
        seed = random.randrange(10**9)
        rng = random.Random(seed)
        text = "".join(rng.choice(["a", "bb", "ü", "\n", "\r\n", "\r"]) for _ in range(300))
        path = tmp_path / "f.txt"
        path.write_bytes(text.encode())
        expected = [line.rstrip("\n") for line in io.StringIO(text, newline=None)]
        reader = ByteLineReader(str(path), "utf-8", chunk)
        lines, position, finished = [], 0, False
        while not finished:
            values, position, finished, *_ = reader.read(position, 7)
            lines += values
            again = ByteLineReader(str(path), "utf-8", chunk + 1)
            assert list(again.read(position, 10**6).values) == expected[len(lines) :], f"seed {seed}"
            again.close()
        reader.close()
        assert lines == expected, f"seed {seed}"

    @pytest.mark.parametrize(
        ("ending", "opened"),
        [(".gz", gzip.open), (".GZIP", gzip.open), (".bz2", bz2.open), (".xz", lzma.open)],
    )
    def test_compressed(self, tmp_path, ending, opened):
        path = tmp_path / f"f.txt{ending}"
        with opened(path, "wb") as stream:
            stream.write("eins\r\n\nzwei ü\nende".encode())
        source = TextFileSource([str(path)])
        assert read_all(source) == ["eins", "", "zwei ü", "ende"]
        check_replay(source, source.splits(1)[0], step=2)

    @pytest.mark.parametrize("charset", ["utf-16", "utf-16-le", "latin-1", "cp1252", "utf-8-sig", "gb18030"])
    def test_charsets(self, tmp_path, charset):
        text = "grün\n\nlast ü"
        path = tmp_path / "f.txt"
        path.write_bytes(text.encode(charset))
        source = TextFileSource([str(path)], charset)
        assert read_all(source, step=1) == ["grün", "", "last ü"]

    def test_undecodable_bytes_are_replaced(self, tmp_path):
        (tmp_path / "f").write_bytes(b"a\xff\nb\n")
        assert read_all(TextFileSource([str(tmp_path / "f")])) == ["a�", "b"]

    def test_folders(self, tmp_path):
        for name in ["b.txt", "a.txt", ".hidden", "_meta", "sub/c.txt", "sub/_x", ".git/d.txt", "_tmp/e.txt"]:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(name)
        source = TextFileSource([f"file://{tmp_path}", str(tmp_path / "a.txt")])
        splits = source.splits(2)
        assert [split.id for split in splits] == [
            str(tmp_path / name) for name in ["a.txt", "b.txt", "sub/c.txt"]
        ]
        assert read_all(source) == ["a.txt", "b.txt", "sub/c.txt"]
        assert read_all(TextFileSource([str(tmp_path / "_meta")])) == ["_meta"]

    def test_a_file_that_was_cut(self, tmp_path):
        path = tmp_path / "f.txt"
        path.write_text("1\n2\n3\n")
        source = TextFileSource([str(path)])
        path.write_text("1\n")
        with pytest.raises(StorageError, match="cut or replaced"):
            source.reader(source.splits(1)[0]).read(4, 10)
        with gzip.open(tmp_path / "g.gz", "wb") as stream:
            stream.write(b"1\n")
        packed = TextFileSource([str(tmp_path / "g.gz")])
        with pytest.raises(StorageError, match="cut or replaced"):
            packed.reader(packed.splits(1)[0]).read(4, 10)

    def test_a_broken_archive(self, tmp_path):
        (tmp_path / "g.gz").write_bytes(b"no gzip")
        source = TextFileSource([str(tmp_path / "g.gz")])
        with pytest.raises(StorageError, match=r"g\.gz"):
            source.reader(source.splits(1)[0]).read(0, 10)

    def test_errors_name_the_path(self, tmp_path):
        with pytest.raises(ConfigurationError, match="does not exist"):
            TextFileSource([str(tmp_path / "none")]).splits(1)
        with pytest.raises(NotSupportedError, match="s3://bucket"):
            TextFileSource(["s3://bucket/x"])
        with pytest.raises(ConfigurationError, match="unknown charset"):
            TextFileSource(["x"], "utf-9")
        with pytest.raises(ConfigurationError, match="at least one path"):
            TextFileSource([])
        (tmp_path / "f.zip").write_bytes(b"")
        source = TextFileSource([str(tmp_path / "f.zip")])
        with pytest.raises(NotSupportedError, match="decompress"):
            source.reader(source.splits(1)[0])


class TestSinks:
    @pytest.mark.parametrize(
        ("identifier", "parallelism", "line"),
        [(None, 1, "x"), ("id", 1, "id> x"), (None, 4, "3> x"), ("id", 4, "id:3> x"), ("", 1, "x")],
    )
    def test_print_prefix(self, identifier, parallelism, line):
        assert PrintSink(identifier).lines(["x"], 2 % parallelism, parallelism) == [line]

    def test_print_follows_the_type(self):
        values = [("a", 1), None]
        assert PrintSink(None, Types.TUPLE([Types.STRING(), Types.INT()])).lines(values, 0, 1) == [
            "(a,1)",
            "None",
        ]
        assert PrintSink().lines([("a", 1), 1.0], 0, 1) == ["('a', 1)", "1.0"]

    def test_function_sink(self):
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
