"""What a user hears of a restore."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest
from support.materialized import finishes, stopped

from changelog_engine.changelog.model import RestorePoint
from changelog_engine.driver import restore_notice
from changelog_engine.driver.figures import JobMonitor
from changelog_engine.driver.restore_notice import RestoreNotice, in_words
from changelog_engine.graph.key_groups import ALL_KEY_GROUPS
from changelog_engine.ledger.ledger import plan_restore
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.reading import RestoreSize, read_parts, restore_size
from materializer.materialize import materialize


def test_a_restore_says_how_long_it_took(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "changelog_engine")
    job, graph, _ = stopped(tmp_path, epochs=6)
    assert "restored" not in caplog.text
    finishes(job, graph)
    assert "job 'job': state of checkpoint 6 restored in 0." in caplog.text
    assert "restoring" not in caplog.text, "it was short"


def test_a_long_restore_says_what_it_reads_and_that_it_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "changelog_engine")
    monkeypatch.setattr(restore_notice, "_SILENT_S", 0.0)
    monkeypatch.setattr(restore_notice, "_EVERY_S", 0.01)
    _, _, folder = stopped(tmp_path, epochs=6)
    materialize(folder, 4)
    point = plan_restore(folder, Lineage(folder.open_changelog()).newest_checkpoint())
    warned = threading.Event()

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno == logging.WARNING:
                warned.set()

    logger, handler = logging.getLogger(), Listening()  # after what records: it has the message by then
    logger.addHandler(handler)
    try:
        with RestoreNotice("mine", point):
            assert warned.wait(60)
    finally:
        logger.removeHandler(handler)
    size = restore_size(point)
    assert (size.snapshot, size.snapshot_rows) == (4, 5)
    assert size.log_rows == 10
    assert f"job 'mine': restoring the state of checkpoint 6: {in_words(size)}" in caplog.messages
    assert any(
        message.startswith("job 'mine': restoring the state of checkpoint 6 for 0 s now: 5 rows")
        for message in caplog.messages
    )


def test_an_empty_start_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "changelog_engine")
    for point in (None, RestorePoint("nowhere", None, (), None)):
        with RestoreNotice("mine", point) as notice:
            notice.restored(5.0)
    assert not caplog.messages


def test_a_restore_in_words() -> None:
    both = in_words(RestoreSize(4, 5, 12_300, 10, 900))
    assert both == "5 rows (12.3 kB) of the snapshot of checkpoint 4, and 10 (900 B) of the log"
    assert in_words(RestoreSize(None, 0, 0, 1_234_567, 3_700_000)) == "1,234,567 rows (3.7 MB) of the log"


def test_those_who_wait_are_told_what_has_been_read(tmp_path: Path) -> None:
    _, _, folder = stopped(tmp_path, epochs=6)
    materialize(folder, 4)
    point = plan_restore(folder, Lineage(folder.open_changelog()).newest_checkpoint())
    told: list[tuple[int, int]] = []
    rows = sum(
        table.num_rows for table in read_parts(point, ALL_KEY_GROUPS, tell=lambda *more: told.append(more))
    )
    size = restore_size(point)
    assert sum(count for count, _ in told) == rows == size.snapshot_rows + size.log_rows
    assert sum(count for _, count in told) == size.snapshot_bytes + size.log_bytes


def test_who_watches_a_restore_hears_no_warnings(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore_notice, "_SILENT_S", 0.0)
    monkeypatch.setattr(restore_notice, "_EVERY_S", 0.001)
    _, _, folder = stopped(tmp_path, epochs=2)
    point = plan_restore(folder, Lineage(folder.open_changelog()).newest_checkpoint())
    monitor = JobMonitor("mine")
    monitor.watched = True
    with RestoreNotice("mine", point, monitor):
        while monitor.restoring is None:
            threading.Event().wait(0.001)
        threading.Event().wait(0.02)
    assert monitor.restoring == restore_size(point)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
