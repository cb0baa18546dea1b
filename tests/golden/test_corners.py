"""The programs in corners/, compared with what real PyFlink 1.20.1 gave (corners/record.py wrote it down).

All of them run in this process, in a few seconds, with the stages, shuffles, state and sinks of a job on Spark: what they
look at is decided there. Some of each subject run on Spark too, by the same recording script under the launcher, so that
what is between a program and its job (pickling, workers, what is printed and collected) is the real one.

What differs and stays is in corners/differences.py, each with its line in docs/compatibility.md.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyflink_here
import pytest
import record as golden
from corners.differences import DIFFERENCES

from changelog_engine.driver import pace
from changelog_engine.in_process.capture import without_spark
from changelog_engine.launcher import install_alias, remove_alias

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent / "corners"
PYFLINK: dict[str, dict[str, Any]] = {
    name: outcome
    for file in sorted((HERE / "expected").glob("*.json"))
    for name, outcome in json.loads(file.read_text(encoding="utf-8")).items()
}
ON_SPARK = 2  # programs of each subject, spread over it


@pytest.fixture(scope="module")
def record() -> Iterator[Any]:
    """The recording script, with ``pyflink`` meaning the API while its programs run."""
    install_alias()
    from corners import record

    yield record
    remove_alias()
    for name in [name for name in sys.modules if name.startswith("corners.")]:
        del sys.modules[name]


def wrong(name: str, found: dict[str, Any]) -> str | None:
    """What is wrong with an outcome; None when it is what PyFlink gives, or a difference that stays."""
    expected = {key: value for key, value in PYFLINK[name].items() if key != "says"}
    if name in DIFFERENCES:
        difference = DIFFERENCES[name]
        if difference.raises:
            expected = {"raises": [difference.raises]}
        else:
            expected = {"gives": difference.gives}
            expected |= {"prints": difference.prints} if difference.prints else {}
    if "raises" in expected:
        if expected["raises"][0] in found.get("raises", ()):
            return None
    elif found == expected:
        return None
    return f"{name} gives {found} in place of {expected}"


@pytest.mark.parametrize("name", PYFLINK)
def test_gives_what_pyflink_gives(
    record: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # A machine that stands still for a second ends no epoch in the middle.
    for bound in ("_LEAST_TARGET_MS", "_SOURCE_BUDGET_MS"):
        monkeypatch.setattr(pace, bound, 60_000)
    program = record.programs_of(name.partition(".")[0])[name]
    out = io.StringIO()

    def printed() -> str:
        text = out.getvalue()
        out.seek(0)
        out.truncate()
        return text

    with contextlib.redirect_stdout(out), without_spark():
        found = record.run(program, printed)
    assert (said := wrong(name, found)) is None, said


def test_every_program_was_run_in_pyflink_and_says_what_it_is_for(record: Any) -> None:
    programs = {
        name: each for subject in record.subjects() for name, each in record.programs_of(subject).items()
    }
    assert sorted(programs) == sorted(PYFLINK)
    assert len(programs) >= 200
    assert [name for name, each in programs.items() if not inspect.getdoc(each)] == []
    subjects = [record.load(subject) for subject in record.subjects()]
    assert [each.__name__ for each in subjects if not each.__doc__] == []


def test_what_is_compared_with_was_written_by_this_version(
    record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (HERE / "expected" / "VERSION").read_text().strip() == pyflink_here.VERSION == record.VERSION
    for version, said in (("1.20.2", "which has 1.20.2"), (pyflink_here.VERSION, "run it by python")):
        monkeypatch.setattr(pyflink_here.metadata, "version", lambda name, version=version: version)
        monkeypatch.setattr(sys, "argv", ["record.py", "--check"])
        with pytest.raises(SystemExit, match=said):
            record.main()


def test_lines_that_were_put_right_by_hand_may_differ() -> None:
    program = "# (Expected by hand: 'a 4'. Real PyFlink says 3"
    assert golden.differences(["a 4", "b"], ["a 3", "b"], program) == []
    assert golden.differences(["a 4", "b"], ["a 3", "b"], "") == ["- a 4", "+ a 3"]
    assert golden.differences(["a 4", "b"], ["a 3", "c"], program) == ["- a 4", "- b", "+ a 3", "+ c"]
    assert golden.differences(["a 4", "b"], ["a 4", "b"], program) == []
    assert golden.differences(["b", "c"], ["c", "b"], program) == ["the order"]
    assert golden.differences(["b"], [], program) == ["- b"]


def test_every_difference_has_its_line() -> None:
    text = " ".join((ROOT / "docs/compatibility.md").read_text(encoding="utf-8").split())
    assert [name for name, each in DIFFERENCES.items() if " ".join(each.documented.split()) not in text] == []


def test_every_difference_is_one() -> None:
    """What PyFlink gives isn't listed as a difference."""
    for name, difference in DIFFERENCES.items():
        pyflink = PYFLINK[name]
        if difference.raises:
            assert difference.raises not in pyflink.get("raises", ()), name
        else:
            assert (difference.gives, difference.prints) != (
                pyflink.get("gives"),
                pyflink.get("prints", []),
            ), name


def _on_spark() -> list[str]:
    """Some programs of each subject: the first, and those at equal distances behind it."""
    chosen: list[str] = []
    for subject in sorted({name.partition(".")[0] for name in PYFLINK}):
        names = [name for name in PYFLINK if name.startswith(f"{subject}.") and "raises" not in PYFLINK[name]]
        chosen += names[:: max(1, len(names) // ON_SPARK)][:ON_SPARK]
    return chosen


@pytest.mark.slow
def test_gives_the_same_on_spark(tmp_path: Path) -> None:
    names = _on_spark()
    command = [sys.executable, "-m", "changelog_engine", "run", "--master", "local[2]"]
    command += [str(HERE / "record.py"), "--to", str(tmp_path / "found"), *names]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    found = {
        name: outcome
        for file in (tmp_path / "found").glob("*.json")
        for name, outcome in json.loads(file.read_text(encoding="utf-8")).items()
    }
    assert sorted(found) == sorted(names), done.stderr[-4000:]
    assert [said for name in names if (said := wrong(name, found[name]))] == []
