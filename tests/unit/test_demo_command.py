"""``changelog-engine demo``: what it says is so, it says when it is not so, and it touches no files but its own."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from changelog_engine.demo.folder import DATA, JOB, JOBS, MARK, SCRIPT, demo_folder
from changelog_engine.demo.payments import (
    LIMIT_CENTS,
    LINE_BYTES,
    AccountCount,
    count_payments,
    write_payments,
)
from changelog_engine.demo.steps import Demo, Extent
from changelog_engine.demo.verdict import compare
from changelog_engine.demo.watching import JobSeen
from changelog_engine.errors import ForeignPathError, StorageError

ROOT = Path(__file__).resolve().parents[2]
JOB_SCRIPT = ROOT / "changelog_engine" / "demo" / "scripts" / SCRIPT


def console(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-m", "changelog_engine", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_payments_are_the_same_each_time_and_the_loop_counts_all_of_them(tmp_path: Path) -> None:
    write_payments(tmp_path / "a", 3000, 100)
    write_payments(tmp_path / "b", 3000, 100)
    data = (tmp_path / "a").read_bytes()
    assert data == (tmp_path / "b").read_bytes()
    assert {len(line) for line in data.splitlines(keepends=True)} == {LINE_BYTES}
    counted = count_payments(tmp_path / "a")
    assert sum(each.payments for each in counted.values()) == 3000
    assert sum(each.total for each in counted.values()) == sum(
        [int(line[-5:]) for line in data.decode().split()]
    )
    assert any(each.blocked_by is not None for each in counted.values())
    assert all((each.total > LIMIT_CENTS) == (each.blocked_by is not None) for each in counted.values())
    assert f"LIMIT_CENTS = {LIMIT_CENTS:_}\n" in JOB_SCRIPT.read_text(encoding="utf-8")


def test_the_verdict_counts_what_is_lost_doubled_or_otherwise_wrong() -> None:
    expected = {"a": AccountCount(3, 30), "b": AccountCount(2, 20, 7), "c": AccountCount(1, 10)}
    assert compare(expected, dict(expected)).exact
    verdict = compare(expected, {"a": AccountCount(1, 30), "b": AccountCount(2, 20), "d": AccountCount(4, 1)})
    assert (verdict.accounts, verdict.lost, verdict.doubled, len(verdict.wrong)) == (4, 3, 4, 4)
    assert not verdict.exact
    swapped = compare(expected, {**expected, "a": AccountCount(3, 31)})  # one lost and one doubled
    assert (swapped.lost, swapped.doubled, swapped.exact) == (0, 0, False)


def test_only_what_the_demo_made_is_removed(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "payments.csv").write_text("precious")
    with pytest.raises(ForeignPathError, match="--folder"), demo_folder(theirs):
        pass
    assert [each.name for each in theirs.iterdir()] == ["payments.csv"]

    ours, elsewhere = tmp_path / "ours", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    with demo_folder(ours):
        (ours / DATA).write_text("old")
        (ours / JOBS / "a fork").mkdir()
        (ours / JOBS / JOB).symlink_to(elsewhere)
        with pytest.raises(StorageError, match="a demo is running"), demo_folder(ours):
            pass
        assert (ours / DATA).exists()
    with demo_folder(ours):
        assert sorted(each.name for each in ours.iterdir()) == [MARK, JOBS, SCRIPT]
        assert [each.name for each in (ours / JOBS).iterdir()] == ["a fork"]
    assert (elsewhere / "kept").exists()
    with (ours / SCRIPT).open("a") as script:
        script.write("# a line of the user's\n")
    with (
        pytest.raises(ForeignPathError, match=r"payments\.py is not what the demo writes"),
        demo_folder(ours),
    ):
        pass
    assert (ours / SCRIPT).read_text().endswith("user's\n")


def test_a_folders_name_is_no_markup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a[/b]\x1b[2J"
    folder.mkdir(parents=True)
    said = io.StringIO()
    demo = Demo(folder, Extent(100, 10, 100), False, Console(file=said, width=500), lambda arguments: None)

    def stop(self: Demo) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Demo, "_killed_run", stop)
    with pytest.raises(KeyboardInterrupt):
        demo.run()
    assert "a[/b]\\x1b[2J/payments.py" in said.getvalue()


def test_a_job_that_finished_before_the_signal_was_not_killed_half_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process may still have been there: the next run would begin empty, not go on."""
    said = io.StringIO()
    demo = Demo(tmp_path, Extent(100, 10, 80), False, Console(file=said, width=500), lambda arguments: None)
    paces: list[int] = []
    half_way = JobSeen(checkpoint=3, attempt=1, payments=60)
    seen = iter([JobSeen(checkpoint=9, attempt=1, payments=100, finished=True), half_way])

    def watch(self: Demo, doing: str, stop: object, per_second: int) -> bool:
        paces.append(per_second)
        return True

    monkeypatch.setattr(Demo, "_watch", watch)
    monkeypatch.setattr("changelog_engine.demo.steps.look", lambda job: next(seen))
    assert demo._killed_run() == half_way
    assert paces == [80, 40]
    assert "came to its end before the signal" in said.getvalue()


@pytest.mark.slow
def test_the_small_demo_is_killed_goes_on_and_is_exact(tmp_path: Path) -> None:
    done = console("demo", "--small", "--folder", "d", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 lost, 0 doubled of 24,000 payments" in done.stdout
    assert "\x1b" not in done.stdout
    killed = re.search(r"Its last checkpoint, (\d+), covers ([\d,]+) payments", done.stdout)
    assert killed is not None
    assert 12_000 <= int(killed[2].replace(",", "")) < 24_000
    assert f"restored from {killed[1]}" in console("timeline", "d/jobs/payments", cwd=tmp_path).stdout
    # What it offers works: the record that blocked the account.
    offered = re.search(r"^\$ changelog-engine (explain .*)$", done.stdout, re.MULTILINE)
    assert offered is not None
    explained = console(*shlex.split(offered[1]), cwd=tmp_path)
    assert explained.returncode == 0, explained.stderr
    assert "process_element(): self.blocked_by.update(value.number)" in explained.stdout
    assert "changelog-engine ui d/jobs --open" in done.stdout
