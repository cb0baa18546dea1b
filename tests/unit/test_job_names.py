"""The name of a job: the program's, or the one that wins over it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.functions import Count, rounds
from support.graphs import keyed_job
from support.jobs import TestJob
from support.script import Script

from api.common.typeinfo import Types
from api.datastream import _job_names
from api.datastream._job_names import name_of_job
from changelog_engine.cli import main
from changelog_engine.config import ConfigLayers, outer_layers, set_command_line
from changelog_engine.errors import ConfigurationError
from changelog_engine.ledger.job_folder import job_slug

WINS = {"changelog.job.name": "fork"}


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_job_names, "_used", {})
    monkeypatch.setattr(_job_names, "_renamed", {})


@pytest.mark.parametrize("given", ["fraud", None])
@pytest.mark.parametrize("level", ["code", "command_line", "file"])
def test_case_55_the_name_that_wins(level: str, given: str | None) -> None:
    layers = ConfigLayers(**{level: WINS})
    assert name_of_job(given, layers) == "fork"


def test_case_55_the_environment_names_the_job() -> None:
    layers = outer_layers({"CHANGELOG_ENGINE_JOB": "fork"})
    assert name_of_job("fraud", layers) == "fork"
    try:
        set_command_line({"changelog.job.name": "the command line's"})
        assert name_of_job("fraud", outer_layers({"CHANGELOG_ENGINE_JOB": "f"})) == "the command line's"
    finally:
        set_command_line({})
    assert name_of_job("fraud", outer_layers({"CHANGELOG_ENGINE_JOB": ""})) == "fraud"


def test_case_55_the_command_line_wins_over_the_program() -> None:
    layers = ConfigLayers(code={"changelog.job.name": "the program's"}, command_line=WINS)
    assert name_of_job("fraud", layers) == "fork"


@pytest.mark.parametrize(("first", "second"), [("fraud", "other"), ("fraud", None), (None, None)])
def test_case_55_a_second_job_does_not_get_the_name(first: str | None, second: str | None) -> None:
    layers = ConfigLayers(command_line=WINS)
    assert name_of_job(first, layers) == "fork"
    with pytest.raises(
        ConfigurationError, match=r"gives the name 'fork' to one job, which is .* Nothing of that has run"
    ):
        name_of_job(second, layers)


def test_the_same_job_again_has_its_name_again() -> None:
    layers = ConfigLayers(command_line=WINS)
    assert [name_of_job("fraud", layers) for _ in range(2)] == ["fork", "fork"]


def test_case_55_a_name_that_is_not_used_is_refused() -> None:
    layers = ConfigLayers(command_line={"pipeline.name": "fraud-fork"})
    with pytest.raises(
        ConfigurationError, match=r"'fraud-fork' .*is not used.*'fraud'.*write run --job 'fraud-fork'"
    ):
        name_of_job("fraud", layers)
    assert name_of_job(None, layers) == "fraud-fork"
    assert name_of_job("fraud", layers) == "fraud"  # it was used
    assert name_of_job("fraud", ConfigLayers(command_line={"pipeline.name": "fraud"})) == "fraud"
    assert name_of_job("fraud", ConfigLayers(file={"pipeline.name": "of any job"})) == "fraud"


def test_case_55_a_base_path_that_the_program_replaces_is_refused() -> None:
    key = "state.changelog.dstl.dfs.base-path"
    layers = ConfigLayers(code={key: "/a"}, command_line={**WINS, key: "/b"})
    with pytest.raises(ConfigurationError, match=r"below '/b', and the program sets .* to '/a'"):
        name_of_job("fraud", layers)
    assert name_of_job("fraud", ConfigLayers(code={key: "/b"}, command_line={**WINS, key: "/b"})) == "fork"


def run(script: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["run", *options, str(script)])


def test_case_55_the_launcher_says_it_before_the_job(tmp_path: Path) -> None:
    script = tmp_path / "fraud.py"
    script.write_text(
        "from pyflink.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1]).print()\n"
        "env.execute('fraud')\n"
    )
    result = run(script, "--name", "fraud-fork")
    assert result.exit_code == 1
    assert "write run --job 'fraud-fork'" in result.stderr
    assert f"in {script}, line 4: env.execute('fraud')" in result.stderr
    result = run(script, "--job", "a", "-Dchangelog.job.name=b")
    assert result.exit_code == 2
    assert "--job and -D changelog.job.name say the same" in result.stderr
    set_command_line({})


@pytest.mark.parametrize("name", ["fork", "a fork's name"])
def test_case_55_a_fork_says_how_it_is_run(tmp_path: Path, name: str) -> None:
    base = tmp_path / "base"
    TestJob(base, Script(sizes=(5,))).run(
        keyed_job(rounds(2, 4), Count(), key_type=Types.LONG(), name="fraud")
    )
    new = tmp_path / "other base" / job_slug(name)
    result = CliRunner().invoke(main, ["fork", str(base / "fraud"), str(new), "--name", name])
    assert result.exit_code == 0, result.output
    command = next(line for line in result.output.splitlines() if "changelog-engine run" in line)
    path = f"state.changelog.dstl.dfs.base-path={tmp_path / 'other base'}"
    assert shlex.split(command) == ["changelog-engine", "run", "--job", name, "-D", path, "SCRIPT"]
    plain = next(line for line in result.output.splitlines() if "CHANGELOG_ENGINE_JOB" in line)
    assert shlex.split(plain) == [f"CHANGELOG_ENGINE_JOB={name}", "python", "SCRIPT"]
