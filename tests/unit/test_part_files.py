"""Parts: what is written is what is read, and damage is found before it is used (reliability 4, 29, 30)."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import random
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.chance import chosen_seed
from support.memory_disk import MemoryDisk
from test_commit_helpers import Driver, fold, state_at

from changelog_engine.changelog import oversized, part_writer
from changelog_engine.changelog.buffer import ChangelogBuffer
from changelog_engine.changelog.bulk_fold import fold_state
from changelog_engine.changelog.fold import fill_state
from changelog_engine.changelog.log_files import parse_part
from changelog_engine.changelog.part_reader import read_part, read_rows
from changelog_engine.changelog.part_selection import PartFile
from changelog_engine.changelog.part_writer import PartWriter
from changelog_engine.changelog.row_filter import OfEntries
from changelog_engine.changelog.rows import SCHEMA
from changelog_engine.codec.keys import key_codec_for
from changelog_engine.codec.values import codec_for
from changelog_engine.errors import CorruptChangelogError, StateTooLargeError, TypeMismatchError
from changelog_engine.graph.nodes import StateKind, StateSpec
from changelog_engine.ledger.ledger import plan_restore
from changelog_engine.ledger.reading import read_parts
from changelog_engine.state.backend import EVENT_TIMERS
from changelog_engine.state.cursor import Cursor
from changelog_engine.state.mutation_log import PUT
from changelog_engine.storage.opening import open_storage
from changelog_engine.types import Types


def writer(folder: Path, **more: int) -> PartWriter:
    given = {
        "checkpoint_id": 3,
        "attempt": 2,
        "stage": 1,
        "subtask": 0,
        "number": 1,
        "first_sequence": 10,
        **more,
    }
    return PartWriter(str(folder), key_groups=range(8), **given)  # type: ignore[arg-type]


def columns(keys: list[str], values: object, **more: object) -> dict[str, object]:
    groups = pa.array(range(len(keys)), pa.int32())
    return {
        "operator": "op",
        "state": "s",
        "operation": "put",
        "key": pa.array(keys),
        "key_group": groups,
        "value": values,
        **more,
    }


def test_every_form_of_column(tmp_path: Path) -> None:
    made = writer(tmp_path)
    when = datetime(2024, 1, 1, tzinfo=UTC)
    times = pa.array([when, None], pa.timestamp("us", tz="UTC"))
    made.write(
        2, columns(["1", "2"], pa.array(["x", None]), event_time=times, payload=pa.array([b"p", None]))
    )
    made.write(2, columns(["1", "2"], pa.array(["y", "y"]).dictionary_encode(), operator="op2"))
    made.write(2, columns(["3", "4"], None, operation=pa.array(["remove", "clear"]).dictionary_encode()))
    made.write(0, {})
    made.write(
        1, {**columns(["5"], pa.array(["z"])), "key": pa.array(["5"]).dictionary_encode(), "map_key": "m"}
    )
    part = made.finish()
    assert (part.rows, part.first_sequence, part.first_key_group, part.last_key_group) == (7, 10, 0, 1)
    assert part.size == os.path.getsize(tmp_path / part.path)
    table = pq.read_table(tmp_path / part.path)
    assert table.schema.names == SCHEMA.names
    assert [f.type for f in table.schema] == [f.type for f in SCHEMA]
    assert table["sequence"].to_pylist() == list(range(10, 17))
    assert table["value"].to_pylist() == ["x", None, "y", "y", None, None, "z"]
    assert table["operation"].to_pylist() == ["put"] * 4 + ["remove", "clear", "put"]
    assert table["operator"].to_pylist() == ["op"] * 2 + ["op2"] * 2 + ["op"] * 3
    assert table["key"].to_pylist() == ["1", "2", "1", "2", "3", "4", "5"]
    assert table["event_time"].to_pylist() == [when] + [None] * 6
    assert table["payload"].to_pylist() == [b"p"] + [None] * 6
    assert table["map_key"].to_pylist() == [None] * 6 + ["m"]
    metadata = pq.read_metadata(tmp_path / part.path).metadata
    assert metadata[b"changelog.first_sequence"] == b"10"
    assert metadata[b"changelog.rows"] == b"7"
    assert metadata[b"changelog.operations"] == b'["clear", "put", "remove"]'


def test_forms_may_change_between_row_groups(tmp_path: Path) -> None:
    made = writer(tmp_path)
    n = 70_000
    keys = [str(i % 100) for i in range(n)]
    for number in range(4):
        column = pa.array(keys)
        value = pa.array([str(number)] * n)
        made.write(
            n,
            columns(
                keys,
                value.dictionary_encode() if number % 2 else value,
                key=column if number % 2 else column.dictionary_encode(),
                key_group=pa.array([0] * n, pa.int32()),
            ),
        )
    part = made.finish()
    footer = pq.read_metadata(tmp_path / part.path)
    assert footer.num_row_groups == 4
    table = pq.read_table(tmp_path / part.path)
    assert table["key"].to_pylist() == keys * 4
    assert table["value"].to_pylist() == [str(i // n) for i in range(4 * n)]


def test_what_one_array_would_not_hold_goes_into_several_row_groups(tmp_path: Path) -> None:
    made = writer(tmp_path)
    texts = [letter * 600 for letter in "abcdef"]
    with mock.patch.object(part_writer, "_ROW_GROUP_BYTES", 2_000):
        for text in texts:
            made.write(1, columns(["1"], pa.array([text])))
        part = made.finish()
    footer = pq.read_metadata(tmp_path / part.path)
    assert 2 <= footer.num_row_groups < len(texts)
    table = pq.read_table(tmp_path / part.path)
    assert table["value"].to_pylist() == texts
    assert table["sequence"].to_pylist() == list(range(10, 16))


def test_row_groups_of_large_values_end_by_their_bytes(tmp_path: Path) -> None:
    made = writer(tmp_path)
    for start in range(0, 30_000, 1_000):
        keys = [f'"{number}"' for number in range(start, start + 1_000)]
        assert made.write(1_000, columns(keys, pa.array(["x" * 2_000] * 1_000))) >= 2_000_000
    part = made.finish()
    groups = pq.ParquetFile(tmp_path / part.path).metadata
    rows = [groups.row_group(at).num_rows for at in range(groups.num_row_groups)]
    assert sum(rows) == 30_000
    assert max(rows) < 9_000


def test_columns_that_one_array_would_not_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written, folded and filled in pieces, with the bound far below Arrow's 2 GiB."""
    monkeypatch.setattr(oversized, "ARRAY_BYTES", 2_000)
    keys = [str(number) for number in range(40)]
    texts = [json.dumps(chr(97 + number % 26) * (100 + number)) for number in range(40)]
    repeated = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 20, pa.int32()), pa.array(texts[:2]))
    payloads = pa.chunked_array([[text.encode()] for text in texts], pa.binary())
    made = writer(tmp_path)
    made.write(40, columns(keys, pa.chunked_array([[text] for text in texts]), payload=payloads))
    made.write(40, columns(keys, repeated))
    with pytest.raises(ValueError, match="'value' has 39 values for 40 rows"):
        made.write(40, columns(keys, pa.array(texts[1:])))
    with pytest.raises(ValueError, match="'key' has 41 values for 40 rows"):
        made.write(40, columns([*keys, "40"], pa.array(texts)))
    part = made.finish()
    table = pq.read_table(tmp_path / part.path, schema=SCHEMA)
    assert table["sequence"].to_pylist() == list(range(10, 90))
    assert table["key"].to_pylist() == keys * 2
    assert table["value"].to_pylist() == [*texts, *texts[:2] * 20]
    assert table["payload"].to_pylist() == [*(text.encode() for text in texts), *[None] * 40]

    one = table.slice(0, 40).set_column(
        table.schema.names.index("payload"), SCHEMA.field("payload"), pa.nulls(40, pa.binary())
    )
    for folded in (fold_state([one]), fold_state([one.slice(0, 20), one.slice(20)])):
        assert folded["value"].num_chunks > 1
        assert folded["value"].to_pylist() == texts
        assert [piece.num_rows for piece in oversized.pieces(folded)] == [10] * 4
        filled: dict[int, str] = {}
        fill_state([folded], StateSpec("s", StateKind.VALUE, Types.STRING()), Types.LONG(), filled)
        assert filled == {number: json.loads(text) for number, text in enumerate(texts)}


def test_texts_behind_two_gib_of_others_become_short_arrays() -> None:
    """Offsets of a slice count from the beginning of the whole array. Nobody touches the zeros, so they are no memory."""
    zeros = np.zeros(2**31, np.uint8)
    offsets = np.array([0, 2**31 - 9, 2**31 - 6, 2**31 - 3, 2**31], np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(zeros)]
    far = pa.Array.from_buffers(pa.large_string(), 4, buffers).slice(1)
    column = mock.Mock()
    column.take.return_value = far
    found = oversized.taken(column, pa.array([1, 2, 3]), pa.string())
    assert found.type == pa.string()
    assert found.to_pylist() == ["\0\0\0"] * 3


def test_a_dictionary_of_which_no_text_is_used_is_not_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oversized, "ARRAY_BYTES", 10)
    unused = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int32()), pa.array(["much text"]))
    assert not oversized.is_long(unused)


def test_mutations_that_one_array_would_not_hold_are_encoded_in_halves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Arrow's own bound is 2 GiB of a column; here a codec's is ten values."""
    strings = codec_for(Types.STRING())
    whole = type(strings).encode_many

    def encode_few(self: Any, values: list[Any], admitted: bool = False) -> Any:
        if len(values) > 10 or "too long" in values:
            raise pa.ArrowCapacityError("more than one array holds")
        return whole(self, values, admitted)

    monkeypatch.setattr(type(strings), "encode_many", encode_few)
    buffer = ChangelogBuffer(Types.LONG(), True, 128)
    first, second = (
        buffer.log_of("op", StateSpec(name, StateKind.VALUE, Types.STRING())) for name in ("a", "b")
    )
    cursor = Cursor()
    for number in range(25):
        cursor.key, cursor.timestamp = number, number
        first.record(cursor.key, f"value {number}", PUT, cursor.timestamp)
        if number % 5 == 0:
            second.record(cursor.key, f"other {number}", PUT, cursor.timestamp)
    found: dict[str, list[Any]] = {"a": [], "b": []}
    for rows, drained in buffer.drain():
        assert len(drained["key"]) == len(drained["value"]) == len(drained["event_time"]) == rows
        found[drained["state"]] += zip(drained["key"].to_pylist(), drained["value"].to_pylist(), strict=True)
    assert found["a"] == [(str(number), f'"value {number}"') for number in range(25)]
    assert found["b"] == [(str(number), f'"other {number}"') for number in range(0, 25, 5)]
    assert not buffer.rows()
    first.record(cursor.key, "short", PUT, cursor.timestamp)
    second.record(cursor.key, "too long", PUT, cursor.timestamp)
    with pytest.raises(StateTooLargeError, match="state 'b' of operator 'op', key 24: one entry has more"):
        buffer.drain()
    assert buffer.rows() == 2  # they still wait


def test_an_int_that_its_type_has_no_bits_for_is_named() -> None:
    """LONG's bounds are looked at when the log is written, and nowhere before."""
    buffer = ChangelogBuffer(Types.TUPLE([Types.STRING(), Types.LONG()]), False, 128)
    log = buffer.log_of("totals", StateSpec("sum", StateKind.VALUE, Types.LONG()))
    key_codec = key_codec_for(Types.TUPLE([Types.STRING(), Types.LONG()]))
    cursor = Cursor()
    for number, value in enumerate((2**62, 2**63, 2**64)):
        cursor.key = key_codec.identity(("ann", number))
        log.record(cursor.key, value, PUT, cursor.timestamp)
    with pytest.raises(TypeMismatchError) as raised:
        buffer.drain()
    assert str(raised.value) == (
        "state 'sum' of operator 'totals', key ('ann', 1): value is declared LONG but got 9223372036854775808 of type int "
        "(outside -9223372036854775808 to 9223372036854775807). Declare the type that the values have in the state's "
        "descriptor, or convert the value"
    )


def test_few_rows_are_written_without_the_keys_of_others(tmp_path: Path) -> None:
    made = writer(tmp_path)
    keys = pa.array([f"key {zlib.crc32(b'%d' % number)}" for number in range(10_000)])
    some = pa.DictionaryArray.from_arrays(pa.array([7, 9, 7], pa.int32()), keys)
    made.write(3, columns(["1"] * 3, pa.array(["x"] * 3), key=some))
    part = made.finish()
    assert part.size < 10_000
    assert pq.read_table(tmp_path / part.path)["key"].to_pylist() == some.to_pylist()


def test_wrong_columns_are_refused(tmp_path: Path) -> None:
    made = writer(tmp_path)
    with pytest.raises(ValueError, match="'value' has 1 values for 2 rows"):
        made.write(2, columns(["1", "2"], pa.array(["x"])))
    with pytest.raises(ValueError, match="'key' has nulls"):
        made.write(2, columns(["1", None], pa.array(["x", "y"])))  # type: ignore[list-item]
    assert os.listdir(tmp_path) == []


def test_an_empty_part(tmp_path: Path) -> None:
    part = writer(tmp_path).finish()
    assert part.rows == 0
    assert pq.read_table(tmp_path / part.path).num_rows == 0


def test_finish_again_after_a_failure(tmp_path: Path) -> None:
    with MemoryDisk(str(tmp_path)).mounted() as disk:
        made = writer(tmp_path)
        made.write(1, columns(["1"], pa.array(["x"])))
        disk.fail("write", errno.ENOSPC)
        with pytest.raises(OSError, match="disk full"):
            made.finish()
        assert made.finish().rows == 1


def test_key_groups_and_operators(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    parts = [
        driver.part({"a": 1, "bb": 2, "ccc": 3}),
        driver.part({"dddddd": 6}, subtask=1),
        driver.part({"x": 9}, subtask=2, operator="other"),
    ]
    row = driver.row(parts)
    driver.committer.commit(row, parts)
    point = plan_restore(driver.folder, row)
    assert fold(point, range(3)) == {"a": 1, "bb": 2, "x": 9}
    assert fold(point, range(3, 8)) == {"ccc": 3, "dddddd": 6}
    assert [t.num_rows for t in read_parts(point, range(8), frozenset({"count"}))] == [3, 1]
    assert list(read_parts(point, range(8), frozenset({"nobody"}))) == []


def test_chosen_rows_are_those_of_all_rows(tmp_path: Path) -> None:
    """Of files with several row groups, some of which cannot hold what is wanted; with other columns that are constant."""
    chance = random.Random(chosen_seed())
    names = [("o", "a"), ("o", "b"), ("p", "a"), ("o", EVENT_TIMERS)]
    with mock.patch.object(part_writer, "ROW_GROUP_ROWS", 40):
        part_of = writer(tmp_path, first_sequence=7)
        for group in range(6):
            for operator, state in chance.sample(names, chance.randint(1, 4)):
                count = chance.randint(1, 30)
                keys = [str(chance.randrange(20)) for _ in range(count)]
                groups = pa.array([10 * group + chance.randrange(10) for _ in range(count)], pa.int32())
                given = columns(keys, pa.array([str(chance.randrange(9)) for _ in keys]), key_group=groups)
                part_of.write(count, {**given, "operator": operator, "state": state})
        part = part_of.finish()
    storage = open_storage(str(tmp_path))
    name = parse_part(part.path)
    file = PartFile(part.path, name, part.size, part.rows)
    whole = read_part(storage, file)
    assert pq.ParquetFile(tmp_path / part.path).metadata.num_row_groups > 1
    for _ in range(30):
        some = {each: {str(chance.randrange(20)) for _ in range(3)} for each in chance.sample(names, 2)}
        bounds = sorted(chance.sample(range(60), 2)) if chance.random() < 0.5 else None
        wanted = OfEntries(
            {each: pa.array(sorted(texts)) for each, texts in some.items()},
            None if bounds is None else np.arange(*bounds),
        )
        found = read_rows(storage, file, wanted, 7).to_pylist()
        expected = [
            row
            for row in whole.to_pylist()
            if row["value" if row["state"] == EVENT_TIMERS else "key"]
            in some.get((row["operator"], row["state"]), ())
        ]
        if bounds is None:
            assert found == expected
        else:  # row groups with other key groups only are left out, and no wanted row is
            assert [row for row in found if row["key_group"] in range(*bounds)] == [
                row for row in expected if row["key_group"] in range(*bounds)
            ]
            assert all(row in expected for row in found)
    with pytest.raises(CorruptChangelogError, match="has sequence number 7 where 8 is due"):
        read_rows(storage, file, wanted, 8)


def test_flipped_bits_are_found(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    driver.checkpoint({"a": 0})
    row = driver.checkpoint({f"key-{i}": i for i in range(200)})
    folder = tmp_path / "job" / "changelog"
    name = next(n for n in os.listdir(folder) if n.startswith("part-2-"))
    good = (folder / name).read_bytes()
    seed = chosen_seed()
    chance = random.Random(seed)
    for _ in range(50):
        data = bytearray(good)
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        (folder / name).write_bytes(data)
        with pytest.raises(
            CorruptChangelogError, match=f"{name} was changed.*still be restored is 1:"
        ) as caught:
            state_at(driver.folder, row)
        assert "changelog.restore = 1" in str(caught.value), f"seed {seed}"
    (folder / name).write_bytes(good[:-1])
    with pytest.raises(CorruptChangelogError, match="was changed"):
        state_at(driver.folder, row)
    (folder / name).write_bytes(good)
    assert len(state_at(driver.folder, row)) == 201


def test_missing_part_is_named_with_the_last_restorable_checkpoint(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    rows = [driver.checkpoint({"a": i}) for i in range(4)]
    folder = tmp_path / "job" / "changelog"
    name = next(n for n in os.listdir(folder) if n.startswith("part-3-"))
    (folder / name).unlink()
    with pytest.raises(CorruptChangelogError, match=f"{name} is missing.*still be restored is 2"):
        state_at(driver.folder, rows[3])
    assert state_at(driver.folder, rows[1]) == {"a": 1}
    first = next(n for n in os.listdir(folder) if n.startswith("part-1-"))
    (folder / first).unlink()
    with pytest.raises(CorruptChangelogError, match=f"{first} is missing.*No earlier checkpoint"):
        state_at(driver.folder, rows[1])


def test_truncated_range_is_refused(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    rows = [driver.checkpoint({"a": i}) for i in range(4)]
    paths = driver.log.files()["path"].to_pylist()
    driver.log.commit([], [p for p in paths if p.startswith("part-2-")])
    with pytest.raises(CorruptChangelogError, match="no longer has part 2 of attempt 1"):
        state_at(driver.folder, rows[3])
    assert state_at(driver.folder, rows[0]) == {"a": 0}
    driver.log.commit([], [p for p in paths if p.startswith("part-1-")])
    with pytest.raises(CorruptChangelogError, match="no longer has part 1 of attempt 1"):
        state_at(driver.folder, rows[3])


@pytest.mark.parametrize(
    ("numbers", "wrong"),
    [
        ([0, 2, 1], "sequence number 2 where 1 is due"),
        ([0, 1, 3], "sequence number 3 where 2 is due"),
        ([0, 1, 1], "sequence number 1 where 2 is due"),
        ([0, 0, 2], "sequence number 0 where 1 is due"),
        ([0, 5, 2], "sequence number 5 where 1 is due"),
        ([1, 2, 3], "sequence number 1 where 0 is due"),
        ([-1, 1, 2], "sequence number -1 where 0 is due"),
    ],
    ids=["swapped", "a gap", "twice", "twice within", "another within", "later", "earlier"],
)
def test_wrong_sequence_is_found(tmp_path: Path, numbers: list[int], wrong: str) -> None:
    driver = Driver.start(tmp_path)
    part = driver.part({"a": 1, "b": 2, "c": 3})
    folder = tmp_path / "job" / "changelog"
    table = pq.read_table(folder / part.path)
    from changelog_engine.changelog.log_files import crc32, parse_part, part_name

    changed = table.set_column(2, SCHEMA.field("sequence"), pa.array(numbers))
    sink = pa.BufferOutputStream()
    pq.write_table(changed, sink)
    data = sink.getvalue()
    name = parse_part(part.path)
    assert name is not None
    path = part_name(name._replace(crc=crc32(data)))
    (folder / path).write_bytes(data)
    forged = part._replace(path=path, size=data.size)
    row = driver.row([forged])
    driver.committer.commit(row, [forged])
    with pytest.raises(CorruptChangelogError, match=wrong):
        state_at(driver.folder, row)


@pytest.mark.parametrize("said", [1, 3])
def test_a_part_with_other_rows_than_the_table_says_is_refused(tmp_path: Path, said: int) -> None:
    driver = Driver.start(tmp_path)
    part = driver.part({"a": 1, "b": 2})
    file = PartFile(part.path, parse_part(part.path), part.size, 2)
    assert read_part(driver.folder.changelog, file).num_rows == 2
    other, says = dataclasses.replace(file, rows=said), f"has 2 rows, the table says {said}"
    with pytest.raises(CorruptChangelogError, match=says):
        read_part(driver.folder.changelog, other)
    with pytest.raises(CorruptChangelogError, match=says):
        read_rows(driver.folder.changelog, other, OfEntries({}))


def test_corrupt_snapshot_falls_back_to_the_log(tmp_path: Path) -> None:
    """Materialized snapshots of checkpoints 1 and 2 over a complete log."""
    driver = Driver.start(tmp_path)
    rows = [driver.checkpoint({"a": i, f"k{i}": i}) for i in range(4)]
    want = state_at(driver.folder, rows[3])
    _materialize(driver, rows[0], {"a": 0, "k0": 0})
    _materialize(driver, rows[2], {"a": 2, "k0": 0, "k1": 1, "k2": 2})
    point = plan_restore(driver.folder, rows[3])
    assert point.snapshot == 3
    assert fold(point) == want
    folder = tmp_path / "job" / "snapshots"
    for checkpoint in (3, 1):
        name = next(n for n in os.listdir(folder) if n.startswith(f"part-{checkpoint}-"))
        data = bytearray((folder / name).read_bytes())
        data[40] ^= 4
        (folder / name).write_bytes(data)
        assert fold(point) == want


def test_corrupt_snapshot_without_log_is_an_error(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    driver.snapshot({"a": 1})
    row = driver.snapshot({"a": 2})
    folder = tmp_path / "job" / "snapshots"
    name = next(n for n in os.listdir(folder) if n.startswith("part-2-"))
    (folder / name).unlink()
    with pytest.raises(CorruptChangelogError, match=f"{name} is missing"):
        state_at(driver.folder, row)


def _materialize(driver: Driver, checkpoint: object, rows: dict[str, int]) -> None:
    from changelog_engine.changelog.model import Checkpoint
    from changelog_engine.ledger.committer import verify_parts
    from changelog_engine.ledger.snapshot_store import SnapshotStore

    assert isinstance(checkpoint, Checkpoint)
    log = driver.folder.open_snapshots()
    made = PartWriter(
        driver.folder.snapshots.root,
        checkpoint_id=checkpoint.id,
        attempt=checkpoint.attempt,
        stage=1,
        subtask=0,
        number=1,
        first_sequence=0,
        key_groups=range(8),
    )
    given = columns(list(rows), pa.array([str(value) for value in rows.values()]))
    made.write(len(rows), {**given, "key_group": pa.array([len(key) % 8 for key in rows], pa.int32())})
    parts = [made.finish()]
    SnapshotStore(log).commit(checkpoint, parts, verify_parts(driver.folder.snapshots, parts))
