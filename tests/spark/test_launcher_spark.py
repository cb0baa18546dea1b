"""PyFlink scripts as they are, through ``changelog-engine run`` on Spark; only the word pyflink is in their imports."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from driver_process import Driver, checkpoints

import changelog_engine
from changelog_engine.api_names import FINDER, Short
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
    monkeypatch.setattr(FINDER, "short", Short.BY_PATH)  # a job that ran in this process may have bound it
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


@pytest.mark.usefixtures("spark", "own_process")
def test_the_word_count_that_pyflink_ships(tmp_path: Path) -> None:
    """Into files: one in a folder of the hour, tuples as Flink prints them."""
    text, out = tmp_path / "text", tmp_path / "out"
    text.write_text("to be\nor not to be\n")
    arguments = ["--input", str(text), "--output", str(out)]
    began = _hour()
    result = CliRunner().invoke(main, ["run", str(SCRIPTS / "word_count_to_files.py"), *arguments])
    ended = _hour()
    assert result.exit_code == 0, result.output
    files = [path for path in out.rglob("*") if path.is_file()]
    hours = sorted(str(path.parent.relative_to(out)) for path in files)
    assert hours in ([began], [ended], [began, ended]), (
        "one file, or two of the hours between which words were written"
    )
    for number, file in enumerate(sorted(files)):
        assert re.fullmatch(rf"prefix-[0-9a-f-]{{36}}-{number}\.ext", file.name)
    lines = [line for file in files for line in file.read_text().splitlines()]
    assert sorted(lines) == ["(be,2)", "(not,1)", "(or,1)", "(to,2)"]


def _hour() -> str:
    """The folder for what is written now."""
    return time.strftime("%Y-%m-%d--%H")


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
        said = r"job 'slow_count' stopped after checkpoint (\d+); run it again to go on from there"
        stopped = re.match(said, first.output.rstrip().splitlines()[-1])
        assert stopped is not None, first.output
        assert "stopping after the next checkpoint; press Ctrl-C again to stop at once" in first.output
        for foreign in (
            "THE JOB ENDED",
            "KeyboardInterrupt",
            "Traceback",
            "slow_count.py",
            "org.apache",
            "at java.",
        ):
            assert foreign not in first.output
    newest = state_at(str(table)).checkpoint
    assert (newest.id, newest.stopped, newest.finished) == (int(stopped[1]), True, False)

    with driver("--restore", "latest", seconds_each=0) as second:
        assert second.end(180) == 0, second.output
        assert second.output.endswith("THE JOB ENDED\n")
        second.wait_gone()
    folded = state_at(str(table))
    assert folded.checkpoint.lineage[0].last == int(stopped[1])
    assert folded.states["count", "count"] == dict.fromkeys(range(5), 600)
    assert json.loads((tmp_path / "conf.yaml").read_text()) == {}  # all of it came from the command line


def console(folder: Path, options: dict[str, str], *arguments: object) -> str:
    """What the command says, in a process of its own that ends well."""
    program = folder / "command.py"
    program.write_text("from changelog_engine.cli import main\nmain()\n")
    with Driver(program, *arguments, options=options, work=folder / "work") as driver:
        assert driver.end() == 0, driver.output
        return driver.output


def test_case_54_a_project_with_an_api_of_its_own(tmp_path: Path) -> None:
    """PyFlink's script and the user's package ``api``, in driver, workers, restore, replay and materialization.

    The engine's own folder, with its ``api``, is the first entry of the workers' import path.
    """
    project = tmp_path / "shop"
    (project / "api").mkdir(parents=True)
    (project / "api" / "__init__.py").write_text("")
    (project / "api" / "models.py").write_text(
        "from dataclasses import dataclass\n"
        "@dataclass(frozen=True)\nclass Basket:\n    items: int = 0\n"
        "    def one_more(self):\n        return Basket(self.items + 1)\n"
    )
    (project / "baskets.py").write_text(
        "from api.models import Basket\n"
        "from pyflink.common import Types\n"
        "from pyflink.datastream import KeyedProcessFunction\n"
        "from pyflink.datastream.state import ValueStateDescriptor\n"
        "class Fill(KeyedProcessFunction):\n"
        "    def open(self, context):\n"
        "        self.basket = context.get_state(ValueStateDescriptor('basket', Types.PICKLED_BYTE_ARRAY()))\n"
        "    def process_element(self, value, ctx):\n"
        "        basket = (self.basket.value() or Basket()).one_more()\n"
        "        assert type(basket) is Basket\n"
        "        self.basket.update(basket)\n"
        "        yield f'{ctx.get_current_key()} {basket}'\n"
    )
    script = project / "shop.py"
    script.write_text(
        "from pyflink.common import Types\n"
        "from pyflink.datastream import StreamExecutionEnvironment\n"
        "import api.models\n"
        "from baskets import Fill\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection(list(range(6)), Types.LONG()).key_by(lambda n: n % 2, Types.LONG())"
        ".process(Fill(), Types.STRING()).uid('fill').print()\n"
        "env.execute('shop')\n"
        "assert api.models.Basket(2).one_more().items == 3\n"
    )
    job = tmp_path / "log" / "shop"
    options = {
        "state.changelog.enabled": "true",
        "state.changelog.dstl.dfs.base-path": str(job.parent),
        "state.changelog.periodic-materialize.interval": "1s",
    }

    def command(*arguments: object) -> str:
        return console(tmp_path, options, *arguments)

    run = ("run", "--master", "local[2]", "-p", "2")
    assert "1 Basket(items=3)" in command(*run, script)
    command("materialize", job)
    command(*run, "--restore", "latest", script)
    assert "equal" in command("replay", "--from", 0, "--to", 1, script)


def test_case_54_asking_the_users_api_for_the_engines_modules_ends_before_the_job(
    tmp_path: Path, own_process: None
) -> None:
    (tmp_path / "api.py").write_text("")
    script = tmp_path / "words.py"
    script.write_text("from api.common import Types\n")
    loaded = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "api"}
    try:
        result = CliRunner().invoke(main, ["run", str(script)])
    finally:
        sys.modules.pop("api", None)
        sys.modules.update(loaded)
    assert result.exit_code == 1, result.output
    assert f"'api' is {tmp_path}/api.py" in result.output
    assert "write 'changelog_engine.api.common' instead of 'api.common'" in result.output
    assert f"in {script}, line 1: from api.common import Types" in result.output


@pytest.mark.usefixtures("spark", "own_process")
def test_case_55_a_fork_runs_by_the_printed_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "fraud.py"
    script.write_text(
        "from pyflink.common import Types\n"
        "from pyflink.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "numbers = env.from_collection(list(range(6)), Types.LONG())\n"
        "numbers.key_by(lambda n: n % 2, Types.LONG()).sum().uid('sum').print()\n"
        "env.execute('fraud')\n"
    )
    original, fork = tmp_path / "log" / "fraud", tmp_path / "forks" / "fraud-fork"
    conf = tmp_path / "conf.yaml"
    conf.write_text('{"state.changelog.enabled": "true", "parallelism.default": "1"}')
    monkeypatch.setenv("CHANGELOG_ENGINE_CONF", str(conf))

    def command(*arguments: object) -> str:
        result = CliRunner().invoke(main, list(map(str, arguments)))
        assert result.exit_code == 0, result.output
        return result.output

    command("run", "-D", f"state.changelog.dstl.dfs.base-path={original.parent}", script)
    before = {path: path.read_bytes() for path in original.rglob("*") if path.is_file()}
    said = command("fork", original, fork)
    [printed] = [line for line in said.splitlines() if "changelog-engine run" in line]
    arguments = shlex.split(printed)[1:]
    command(*[script if argument == "SCRIPT" else argument for argument in arguments])
    assert {path: path.read_bytes() for path in original.rglob("*") if path.is_file()} == before
    assert [entry.name for entry in original.parent.iterdir()] == ["fraud"]
    attempts = state_at(str(fork / "changelog")).checkpoint.lineage
    assert len(attempts) == 2, "the fork did not go on from its checkpoint"
