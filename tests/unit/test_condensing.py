"""A long log is kept small while it is read, and a restore from it is the same as from all of its rows."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from unittest import mock

import pyarrow as pa
from test_commit_helpers import Driver, state_at

from changelog_engine.changelog import condensing
from changelog_engine.changelog.bulk_fold import live_rows
from changelog_engine.changelog.condensing import DICTIONARIES, Condensing, without_passed
from changelog_engine.changelog.rows import SCHEMA
from changelog_engine.ledger import reading
from changelog_engine.ledger.ledger import plan_restore
from changelog_engine.ledger.reading import read_parts


def puts(first: int, last: int, keys: int) -> pa.Table:
    """Row number i puts i under key i modulo some."""
    numbers = range(first, last)
    columns = {
        "checkpoint_id": [1] * len(numbers),
        "attempt": [1] * len(numbers),
        "operator": ["op"] * len(numbers),
        "state": ["s"] * len(numbers),
        "key_group": [number % keys for number in numbers],
        "key": [str(number % keys) for number in numbers],
        "operation": ["put"] * len(numbers),
        "value": [str(number) for number in numbers],
    }
    arrays = [pa.array(columns.get(field.name, [None] * len(numbers)), field.type) for field in SCHEMA]
    table = pa.table(arrays, names=SCHEMA.names)
    for name in ("operator", "state", "operation", *DICTIONARIES):
        position = SCHEMA.get_field_index(name)
        table = table.set_column(position, name, table[name].dictionary_encode())
    return table


def test_rows_are_few_however_long_the_log_is() -> None:
    log = Condensing()
    most = 0
    with mock.patch.object(condensing, "CONDENSE_ROWS", 50):
        for first, last in pairwise(range(0, 2_000, 20)):
            log.add(puts(first, last, 7))
            most = max(most, sum(table.num_rows for table in log.tables()["op", "s"]))
    assert (log.rows, most) == (1_980, 47)
    (live,) = live_rows(log.tables()["op", "s"]).values()
    assert dict(zip(live["key"].to_pylist(), live["value"].to_pylist(), strict=True)) == {
        str(number % 7): str(number) for number in range(1_973, 1_980)
    }


def test_columns_come_out_as_plain_text_with_what_leads_to_the_same() -> None:
    with mock.patch.object(condensing, "CONDENSE_ROWS", 10):
        left = pa.concat_tables(without_passed([puts(0, 8, 3), puts(8, 16, 3)]))
    assert [left.schema.field(name).type for name in DICTIONARIES] == [pa.string()] * 3
    assert left.select(["key", "value"]).to_pylist() == [
        {"key": "0", "value": "15"},
        {"key": "1", "value": "13"},
        {"key": "2", "value": "14"},
    ]


def test_a_restore_folds_many_rows_and_reads_few_as_they_are(tmp_path: Path) -> None:
    driver = Driver.start(tmp_path)
    for count in (1, 2, 3):
        last = driver.checkpoint({"a": count, "bb": -count})
    point = plan_restore(driver.folder, last)
    assert sum(table.num_rows for table in read_parts(point, range(128))) == 6
    with (
        mock.patch.object(reading, "_MANY_ROWS", 5),
        mock.patch.object(condensing, "CONDENSE_ROWS", 3),
    ):
        rows = [row for table in read_parts(point, range(128)) for row in table.to_pylist()]
        assert state_at(driver.folder, last) == {"a": 3, "bb": -3}
    assert sorted((row["key"], row["value"]) for row in rows if row["checkpoint_id"] == last.id) == [
        ("a", "3"),
        ("bb", "-3"),
    ]
    assert len(rows) < 6
