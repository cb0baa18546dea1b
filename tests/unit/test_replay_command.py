"""``changelog-engine replay``, ``explain``, ``impact`` and the pytest fixture, on a job that was recorded without Spark."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from changelog_engine.cli import main
from changelog_engine.launcher import alias_installed

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """\
import sys

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor

from changelog_engine.testing import Checkpoint, Crash, Pause, ScriptedSource

weight = int(sys.argv[1]) if len(sys.argv) > 1 else 1


class Page:
    def __init__(self, name):
        self.name = name


class Visits(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, user, ctx):
        self.count.update((self.count.value() or 0) + weight)
        self.last.update(Page(user))
        yield user, self.count.value()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
env.enable_changelog_state_backend(True)
env.enable_checkpointing(10)
env.from_collection([1]).print()
env.execute("first")
users = ["ann", "bob", Checkpoint(), "ann", Crash(), Checkpoint(), Pause(5), "ann", "cid"]
stream = env.from_source(ScriptedSource(users), WatermarkStrategy.no_watermarks(), "users")
stream.key_by(lambda user: user).process(Visits()).uid("visits").print()
env.execute("visits")
"""
RECORD = """\
from changelog_engine.launcher import run_program
from changelog_engine.testing import without_spark

with without_spark():
    run_program("visits.py")
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a script and what a run of it left."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "visits.py").write_text(SCRIPT)
    (folder / "record.py").write_text(RECORD)
    subprocess.run(
        [sys.executable, "record.py"], cwd=folder, env=environment(), check=True, capture_output=True
    )
    return folder


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}


def replay(recorded: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Result:
    monkeypatch.chdir(recorded)
    before = (list(sys.argv), list(sys.path), alias_installed())
    result = CliRunner().invoke(main, ["replay", *arguments])
    assert (sys.argv, sys.path, alias_installed()) == before
    return result


def test_equal_is_0_and_different_1(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = replay(recorded, monkeypatch, "visits.py", "--from", "0", "--job", "visits")
    assert result.output == (
        "replay of 'visits' from the start to checkpoint 3: equal (3 checkpoints, 10 mutations recorded, 10 replayed)\n"
    )
    assert result.exit_code == 0
    changed = replay(
        recorded, monkeypatch, "visits.py", "--from", "1", "--to", "2", "--job", "visits", "--", "5"
    )
    assert changed.exit_code == 1
    assert "checkpoint 2: 'count' of 'visits', key 'ann': mutation 1 of 1" in changed.output
    assert "  recorded: put 2\n  replayed: put 6\n" in changed.output
    assert replay(recorded, monkeypatch, "--from", "0", "visits.py").exit_code == 0  # the first job
    by_points = replay(
        recorded, monkeypatch, "--from", "-2", "--to", "latest", "--job", "visits", "visits.py"
    )
    assert "from checkpoint 2 to checkpoint 3: equal" in by_points.output


@pytest.mark.parametrize("state", ["count", "visits.count"])
def test_a_state_that_is_left_out_makes_no_difference(
    recorded: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    asked = ["visits.py", "--from", "1", "--to", "2", "--job", "visits", "--leave-out", state, "--", "5"]
    result = replay(recorded, monkeypatch, *asked)
    assert "checkpoint 1 to checkpoint 2: equal" in result.output
    assert f" replayed, without {state})\n" in result.output
    assert result.exit_code == 0
    asked[asked.index(state)] = "last"
    assert replay(recorded, monkeypatch, *asked).exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            ["visits.py", "--from", "1", "--job", "visits", "--leave-out", "visits.cuont"],
            "there is no state 'visits.cuont'; the nearest of 8: visits.count",
        ),
        (["visits.py", "--from", "7", "--job", "visits"], "there is no checkpoint 7 in"),
        (["visits.py", "--from", "-7", "--job", "visits"], "the nearest is -3"),
        (["visits.py", "--from", "0", "--job", "other"], "no job 'other'; it executes 'first', 'visits'"),
        (["visits.py", "--from", "0", "--", "many"], "visits.py failed before it executed a job"),
        (["visits.py", "--from", "0", "-D", "changelog.restroe=1"], "changelog.restore"),
        (["visits.py"], "Missing option '--from'"),
        (["visits.py", "--from", "3", "--job", "visits"], "nothing to replay between checkpoints 3 and 3"),
        (["nothing.py", "--from", "3"], "nothing.py does not exist"),
    ],
    ids=[
        "state left out",
        "checkpoint",
        "from the newest",
        "job",
        "script fails",
        "option",
        "no start",
        "no range",
        "no script",
    ],
)
def test_what_cannot_be_replayed_is_2_and_says_why(
    recorded: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], why: str
) -> None:
    result = replay(recorded, monkeypatch, *arguments)
    assert result.exit_code == 2
    assert why in result.output


def test_the_fixture_passes_and_fails_tests(recorded: Path, tmp_path: Path) -> None:
    test = tmp_path / "test_recorded.py"
    test.write_text(
        "def test_same(replay):\n"
        f"    assert replay({str(recorded / 'visits.py')!r}, 1, job='visits').replayed == 6\n"
        "def test_other(replay):\n"
        f"    replay({str(recorded / 'visits.py')!r}, 1, 2, 'visits', ['2'])\n"
    )
    plugin = ["-p", "changelog_engine.testing.pytest_plugin", "-p", "no:cacheprovider", "-c", os.devnull]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, str(test)],
        cwd=recorded, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert re.search(r"1 failed, 1 passed", done.stdout), done.stdout + done.stderr
    assert "'count' of 'visits': mutations of 1 key differ, final state of 1" in done.stdout


def ask(recorded: Path, monkeypatch: pytest.MonkeyPatch, command: str, *arguments: str) -> Result:
    monkeypatch.chdir(recorded)
    before = (list(sys.argv), list(sys.path), alias_installed())
    (folder,) = (path.parent for path in recorded.glob("*/visits/changelog"))
    script, *rest = arguments
    result = CliRunner().invoke(main, [command, script, str(folder), *rest])
    assert (sys.argv, sys.path, alias_installed()) == before
    return result


VISITS = ("visits.py", "--job", "visits")


def test_explain_a_key(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = ask(
        recorded, monkeypatch, "explain", *VISITS, "--key", "ann", "--state", "count", "--depth", "2"
    )
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert "#1 visits.count: put 3  (checkpoint 3)" in lines
    assert any("visits.py:23 process_element(): self.count.update(" in line for line in lines)
    assert any(line.startswith("  <- record 'ann' at 7 of split") for line in lines)
    assert "  read count of 'visits', as it was before the replayed range" in lines
    assert all(len(line) <= 160 for line in lines)


def test_explain_as_json_and_at_a_point(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = ask(
        recorded, monkeypatch, "explain", *VISITS, "--key", "ann", "--at", "-2", "--from", "0", "--json"
    )
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert found["equal"]
    assert found["end"] == 2
    values = [(each["state"], each["value"], each["cause"]["position"]) for each in found["mutations"]]
    assert [each for each in values if each[0] == "count"] == [("count", 1, 0), ("count", 2, 3)]
    assert [each["number"] for each in found["mutations"]] == [1, 2, 3, 4]


def test_explain_without_a_script_says_so(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(recorded)
    result = CliRunner().invoke(main, ["explain", "log/visits", "--key", "ann"])
    assert result.exit_code == 2
    assert "Missing argument 'SCRIPT'. log/visits is not a script: the job's program" in result.output


def test_explain_changed_code_gives_no_answer(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = ask(recorded, monkeypatch, "explain", *VISITS, "--key", "ann", "--", "7")
    assert result.exit_code == 1
    assert "NOT EXPLAINED" in result.output
    assert "recorded: put 3" in result.output
    assert "replayed: put 9" in result.output
    assert "<- record" not in result.output


def test_explain_an_output_and_what_a_record_touched(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = ask(
        recorded,
        monkeypatch,
        "explain",
        *VISITS,
        "--output",
        "Print to Std. Out",
        "--where",
        "value[0] == 'cid'",
        "--at",
        "3",
    )
    assert made.exit_code == 0, made.output
    assert "<- record 'cid' at 8 of split" in made.output
    assert "'ann'" not in made.output
    touched = ask(recorded, monkeypatch, "impact", *VISITS, "--source", "users", "--position", "3", "--json")
    assert touched.exit_code == 0, touched.output
    found = json.loads(touched.output)
    assert found["end"] == 2
    assert [(each["state"], each["key"]) for each in found["mutations"]] == [
        ("count", "ann"),
        ("last", "ann"),
    ]
    assert [each["value"] for each in found["outputs"]] == [["ann", 2]]
    through = ask(
        recorded, monkeypatch, "impact", *VISITS, "--source", "users", "--position", "3", "--json", "--through-state",
        "--at", "latest",
    )  # fmt: skip
    assert [each["value"] for each in json.loads(through.output)["outputs"]] == [["ann", 2], ["ann", 3]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--key", "ann", "--at", "99"), "there is no checkpoint 99"),
        (("--key", "zoe"), "the log has no mutation of the key"),
        (("--key", "ann", "--operator", "no"), "there is no operator with state 'no'"),
        (("--output", "nowhere"), "no sink has the uid or name 'nowhere'"),
        (("--key", "ann", "--output", "x"), "give either --key or --output"),
        (("--output", "x", "--where", "1 +"), "--where is not a Python expression"),
    ],
)
def test_explain_says_why_there_is_no_answer(
    recorded: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    result = ask(recorded, monkeypatch, "explain", *VISITS, *arguments)
    assert result.exit_code == 2
    assert said in result.output
