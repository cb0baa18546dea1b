"""One-row files about the log: they hold what was given, and making one imports no pandas."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from changelog_engine.changelog.log_files import crc32
from changelog_engine.changelog.one_row_files import row_file
from changelog_engine.changelog.rows import SCHEMA

WITHOUT_PANDAS = """
import sys
from changelog_engine.changelog.one_row_files import row_file
from changelog_engine.driver.journal import JobJournal
row_file("attempt", 0, 1, "{}", 0)
journal = JobJournal.open(sys.argv[1], "job")
journal.start_point("auto")
journal.close()
print("pandas" in sys.modules)
"""


@given(
    operation=st.sampled_from(["checkpoint", "attempt", "snapshot"]),
    checkpoint=st.integers(0, 2**63 - 1),
    attempt=st.integers(0, 2**31 - 1),
    document=st.text(),
    time_ms=st.integers(-(2**50), 2**50),
)
def test_a_row_file_holds_the_row_and_its_name_the_checksum(
    operation, checkpoint, attempt, document, time_ms
):
    name, data = row_file(operation, checkpoint, attempt, document, time_ms)
    table = pq.ParquetFile(pa.BufferReader(data)).read()
    table.validate(full=True)
    row = {
        "checkpoint_id": checkpoint,
        "attempt": attempt,
        "operation": operation,
        "value": document,
        "event_time": time_ms * 1000,
    }
    expected = pa.table([pa.array([row.get(field.name)], field.type) for field in SCHEMA], schema=SCHEMA)
    assert table.equals(expected)
    assert name.endswith(f"-{crc32(data):08x}.parquet")


def test_making_a_row_file_and_opening_a_job_s_folder_import_no_pandas(tmp_path):
    command = [sys.executable, "-c", WITHOUT_PANDAS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("False", "")
