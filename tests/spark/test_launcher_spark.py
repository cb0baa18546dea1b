"""PyFlink scripts as they are, through ``changelog-engine run`` on Spark; only the word pyflink is in their imports."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from driver_process import Driver, checkpoints

import changelog_engine
from changelog_engine.cli import main
from changelog_engine.config import set_command_line
from changelog_engine.launcher import remove_alias
from materializer import state_at

pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).resolve().parent / "pyflink_scripts"
PRINTED = {
    "basic_operations": """\
(1, 'Ada', 11)
(2, 'Emmy', 21)
(3, 'Alan', 31)
(2, 'Emmy', 21)
('England', 10)
('Germany', 20)
('England', 40)
""",
    "process_json_data": """\
(1, '{"name": "log", "sizes": 3}')
(2, '{"name": "state", "sizes": 0}')
""",
    "state_access": """\
('ada', 1.5)
('emmy', 2.0)
('ada', 4.0)
('emmy', 2.25)
""",
    "event_time_timer": """\
3000: ada has 4
3001: emmy has 6
5002: ada has 4
8003: emmy has 6
""",
    "tumbling_count_window": """\
(1,3)
(1,12)
(2,12)
""",
    "streaming_word_count": """\
(to,0,5000,2)
(be,0,5000,1)
(or,5000,10000,1)
(be,5000,10000,2)
""",
    "word_count": """\
(the,1)
(log,1)
(is,1)
(the,2)
(truth,1)
(and,1)
(the,3)
(state,1)
(is,2)
(what,1)
(the,4)
(log,2)
(says,1)
""",
}


@pytest.fixture
def own_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """What a launched script leaves in its process goes away."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.chdir(tmp_path)
    yield
    remove_alias()
    set_command_line({})


@pytest.mark.usefixtures("spark", "own_process")
@pytest.mark.parametrize("name", PRINTED)
def test_scripts_of_the_kind_that_pyflink_ships(name: str) -> None:
    result = CliRunner().invoke(main, ["run", "--parallelism", "1", str(SCRIPTS / f"{name}.py")])
    assert result.exit_code == 0, result.output
    assert result.stdout == PRINTED[name]


@pytest.mark.usefixtures("spark", "own_process")
def test_a_script_reads_its_own_arguments(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("to be\nor not to be\n")
    arguments = ["--input", str(tmp_path / "text")]
    result = CliRunner().invoke(main, ["run", "-p", "1", str(SCRIPTS / "word_count.py"), *arguments])
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == ["(to,1)", "(be,1)", "(or,1)", "(not,1)", "(to,2)", "(be,2)"]

    result = CliRunner().invoke(
        main, ["run", "-p", "1", str(SCRIPTS / "word_count.py"), *arguments, "--batch"]
    )
    assert result.exit_code == 0, result.output
    assert sorted(result.stdout.splitlines()) == ["(be,2)", "(not,1)", "(or,1)", "(to,2)"]


def test_a_launched_job_is_stopped_by_ctrl_c_and_goes_on(tmp_path: Path) -> None:
    """In a process of its own, with an installed PyFlink in the way and a module that workers import by its name."""
    installed = tmp_path / "site" / "pyflink"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("raise AssertionError('the installed PyFlink was imported')")
    table = tmp_path / "log" / "slow_count" / "changelog"
    options = {
        "state.changelog.enabled": "true",
        "state.changelog.dstl.dfs.base-path": str(tmp_path / "log"),
        "execution.checkpointing.interval": "300ms",
        "changelog.epoch.target": "500ms",
    }
    command = [
        *("run", "--master", "local[2]", "-p", "2"),
        *(f"-D{key}={value}" for key, value in options.items()),
    ]
    path = os.pathsep.join([str(installed.parent), str(Path(changelog_engine.__file__).parents[1])])

    def driver(*more: str, seconds_each: float) -> Driver:
        program = Path(changelog_engine.__file__).with_name("__main__.py")
        script = SCRIPTS / "slow_count.py"
        arguments = (*command, *more, script, 3_000, seconds_each)
        return Driver(program, *arguments, work=tmp_path, environment={"PYTHONPATH": path})

    with driver(seconds_each=0.02) as first:
        first.wait_for(lambda: checkpoints(table) > 1, timeout_s=180, what="second checkpoint")
        os.killpg(first.pid, signal.SIGINT)  # as a terminal does: all of the foreground group
        assert first.end(180) == 130
        first.wait_gone()
        stopped = re.search(r"job 'slow_count' stopped after checkpoint (\d+)", first.output)
        assert stopped is not None, first.output
        for foreign in ("THE JOB ENDED", "KeyboardInterrupt", "slow_count.py", "org.apache"):
            assert foreign not in first.output

    with driver("--restore", "latest", seconds_each=0) as second:
        assert second.end(180) == 0, second.output
        assert second.output.endswith("THE JOB ENDED\n")
        second.wait_gone()
    folded = state_at(str(table))
    assert folded.checkpoint.lineage[0].last == int(stopped[1])
    assert folded.states["count", "count"] == dict.fromkeys(range(5), 600)
    assert json.loads((tmp_path / "conf.yaml").read_text()) == {}  # all of it came from the command line
