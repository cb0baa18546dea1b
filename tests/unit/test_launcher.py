"""changelog-engine run: what the script sees, which option wins, how it ends."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from py4j.protocol import Py4JJavaError
from pyspark import SparkConf
from pyspark.errors import PySparkRuntimeError
from support.unprivileged import nobodys_copy

import changelog_engine
from changelog_engine import launch
from changelog_engine.cli import main
from changelog_engine.cli.help import pages
from changelog_engine.config import set_command_line
from changelog_engine.driver.protocols import JobOutcome
from changelog_engine.errors import EnvironmentNotReadyError, JobExecutionError
from changelog_engine.launcher import remove_alias
from changelog_engine.launcher.program import no_script
from changelog_engine.spark import session


@pytest.fixture(autouse=True)
def own_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a launched script leaves in its process goes away."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.delenv("CHANGELOG_ENGINE_CONF", raising=False)
    yield
    remove_alias()
    set_command_line({})


@pytest.fixture
def launched(tmp_path: Path) -> Callable[..., Result]:
    """Runs the text of a script, options before it and arguments after it."""

    def run(text: str, *options: str, arguments: tuple[str, ...] = ()) -> Result:
        script = tmp_path / "script.py"
        script.write_text(textwrap.dedent(text))
        return CliRunner().invoke(main, ["run", *options, str(script), *arguments])

    return run


def refused(result: Result) -> str:
    """The one line of a refusal."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("Error: ").rstrip()


def test_the_script_sees_what_it_sees_under_python(launched: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("from pyflink.common import Row")
    text = """
        import sys, json
        import beside, api.common, cloudpickle

        class Own:
            pass

        assert beside.Row is api.common.Row
        assert b"Own" in cloudpickle.dumps(Own) and Own.__module__ == "__main__"
        assert sys.modules["__main__"].Own is Own
        print(json.dumps([sys.argv, sys.path[0], __name__, __file__]))
        """
    result = launched(text, "--", arguments=("--parallelism", "9", "--", "-Dx=y", "a"))
    script = str(tmp_path / "script.py")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == [
        [script, "--parallelism", "9", "--", "-Dx=y", "a"], str(tmp_path), "__main__", script
    ]  # fmt: skip
    sys.modules.pop("beside")


def test_every_form_of_import(launched: Callable[..., Result]) -> None:
    result = launched(
        """
        import pyflink
        import pyflink.datastream.functions as functions
        from pyflink import datastream
        from pyflink.common import Types
        from pyflink.common.typeinfo import Types as TheSame
        from pyflink.datastream.connectors.number_seq import NumberSequenceSource
        import api.common, api.datastream

        assert pyflink.datastream is datastream is api.datastream
        assert functions.MapFunction is datastream.MapFunction is api.datastream.MapFunction
        assert Types is TheSame is api.common.Types
        assert pyflink.datastream.connectors.number_seq.NumberSequenceSource is NumberSequenceSource
        print(datastream.__name__)
        """
    )
    assert (result.exit_code, result.output) == (0, "changelog_engine.api.datastream\n")


SETTINGS = """
    from pyflink.common import Configuration
    from pyflink.datastream import StreamExecutionEnvironment
    env = StreamExecutionEnvironment.get_execution_environment()
    settings = env._settings.layers()
    keys = ("changelog.restore", "parallelism.default", "spark.master", "pipeline.name", "state.backend.type")
    print([settings.text(key) for key in keys])
    env.set_parallelism(7)
    print(env.get_parallelism())
    """


def test_options_reach_the_environment_and_code_wins(launched: Callable[..., Result]) -> None:
    result = launched(
        SETTINGS,
        *("--restore", "as-of:2026-01-31T12:00:00+00:00", "--parallelism", "3", "--master", "local[2]"),
        *("--name", "words", "-D", "state.backend=hashmap"),
    )
    assert result.stdout.splitlines() == [
        "['as-of:2026-01-31T12:00:00+00:00', '3', 'local[2]', 'words', 'hashmap']",
        "7",
    ]


def test_both_ways_to_write_an_option_by_key(launched: Callable[..., Result]) -> None:
    result = launched(
        SETTINGS, "-Dpipeline.name=a=b", "-D", "changelog.restore=none", "-p2", "-Dchangelog.restore=12"
    )
    assert result.stdout.splitlines()[0] == "['12', '2', None, 'a=b', None]"


def test_the_command_line_wins_over_the_file(
    launched: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conf.yaml").write_text("parallelism.default: 5\npipeline.name: from the file")
    monkeypatch.setenv("CHANGELOG_ENGINE_CONF", str(tmp_path / "conf.yaml"))
    result = launched(SETTINGS, "-p", "2")
    assert result.stdout.splitlines()[0] == "[None, '2', None, 'from the file', None]"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-D", "execution.checkpointing.intervall=1s"), "did you mean 'execution.checkpointing.interval'?"),
        (("-D", "execution.checkpointing.interval=soon"), "expected a duration such as '500ms'"),
        (("-D", "changelog.restore"), "-D changelog.restore: write it as -D key=value"),
        (("-D", "=1"), "write it as -D key=value"),
        (("--restore", "yesterday"), "option 'changelog.restore': expected auto, none, latest"),
        (("--parallelism", "0"), "Invalid value for '-p' / '--parallelism'"),
        (("--parallelism", "two"), "'two' is not a valid integer"),
        (("-p", "2", "-D", "parallelism.default=3"), "--parallelism and -D parallelism.default say the same"),
        (("--paralelism", "2"), "No such option '--paralelism'"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_the_script_does_not_begin(
    options: tuple[str, ...], words: str, launched: Callable[..., Result]
) -> None:
    assert words in refused(launched("print('begun')", *options))


def test_a_script_that_this_user_may_not_read(tmp_path: Path) -> None:
    """It was a traceback of Python's."""
    (tmp_path / "job.py").write_text("print('begun')")
    with nobodys_copy(tmp_path) as copy:
        script = copy / "job.py"
        script.chmod(0)
        said = no_script(str(script))
        script.chmod(0o644)
    assert said == f"{script} cannot be read: Permission denied. Give this user the right to read it"


def test_scripts_that_are_none(tmp_path: Path) -> None:
    run = CliRunner().invoke
    assert refused(run(main, ["run", str(tmp_path / "no.py")])) == f"{tmp_path}/no.py does not exist"
    assert refused(run(main, ["run", str(tmp_path)])) == f"{tmp_path} is a folder, not a script"
    for given in ("-", "/dev/null"):
        assert refused(run(main, ["run", given])).startswith(
            f"{given} is not a file, and messages and workers"
        )
    assert (
        refused(run(main, ["run"], prog_name="changelog-engine"))
        == "Missing argument 'SCRIPT'. Try 'changelog-engine run --help'"
    )


def test_an_option_behind_the_script_that_the_script_does_not_know_is_named(
    launched: Callable[..., Result],
) -> None:
    """`run job.py --check` runs the job."""
    arguments = ("--check", "--restore=none", "--verbose", "-p")
    result = launched("print('begun')", arguments=arguments)
    assert (result.exit_code, result.stdout) == (0, "begun\n")
    note = "note: {} stands behind SCRIPT, so it is the script's own argument; as an option of `run` it stands before it"
    assert result.stderr.splitlines() == [note.format("--check"), note.format("--restore")]
    assert launched("options = ['--check', '--restore']", arguments=arguments).stderr == ""


def test_check_says_that_a_second_script_is_not_looked_at(
    launched: Callable[..., Result], tmp_path: Path
) -> None:
    other = tmp_path / "other.py"
    other.write_text("")
    result = launched("", "--check", arguments=("--input", str(other), str(tmp_path / "none.py")))
    assert result.exit_code == 0
    assert f"{other} is taken for an argument of" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_what_no_execution_took_is_named(launched: Callable[..., Result]) -> None:
    program = """
        from api.datastream import StreamExecutionEnvironment

        def main(runs):
            env = StreamExecutionEnvironment.get_execution_environment()
            stream = env.from_collection([1]).map(lambda value: value)
            if runs:
                stream.print()
                env.execute()
            stream.filter(lambda value: value).name("Late")

        main(False)
    """
    note = "note: the script ended and did not run {}: nothing runs before env.execute()"
    assert launched(program).stderr.splitlines() == [note.format("Map, Late")]
    after = launched(program.replace("main(False)", "main(True)"), "--without-spark")
    assert (after.exit_code, after.stderr.splitlines()) == (0, [note.format("Late")])


def test_a_failure_in_the_background_is_the_commands(launched: Callable[..., Result], tmp_path: Path) -> None:
    program = """
        import time
        from api.common import JobStatus
        from api.datastream import StreamExecutionEnvironment

        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_collection([0]).map(lambda value: 1 // value).print()
        client = env.execute_async("background")
        while client.get_job_status().result() != JobStatus.FAILED:
            time.sleep(0.01)
        time.sleep(0.1)
    """
    result = launched(program, "--without-spark", "-q")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("ZeroDivisionError: ")
    assert result.stderr.startswith("Error: job 'background' failed: map of operator 'Map', element 0 raised")


def test_keys_without_effect_are_named(launched: Callable[..., Result]) -> None:
    result = launched(
        "", "-Dparalelism.default=2", "-Dtaskmanager.numberOfTaskSlots=2", "-Dspark.ui.enabled=true"
    )
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "note: -D paralelism.default has no effect here; did you mean 'parallelism.default'?",
        "note: -D taskmanager.numberOfTaskSlots has no effect here",
    ]


@pytest.mark.parametrize(("end", "status"), [("sys.exit()", 0), ("sys.exit(3)", 3), ("raise SystemExit", 0)])
def test_the_scripts_exit_status_is_the_commands(
    end: str, status: int, launched: Callable[..., Result]
) -> None:
    assert launched(f"import sys; {end}").exit_code == status


def traced(result: Result, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Where a traceback leads, and its last line. Python's excepthook writes to the real standard error."""
    assert result.exit_code == 1
    lines = (capsys.readouterr().err + result.stderr).splitlines()
    return [line.strip() for line in lines if line.startswith("  File ")] + [lines[-1]]


def test_the_scripts_own_errors_are_shown_as_python_does(
    launched: Callable[..., Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = launched("def halve():\n    return 1 / 0\nhalve()")
    script = tmp_path / "script.py"
    assert traced(result, capsys) == [
        f'File "{script}", line 3, in <module>',
        f'File "{script}", line 2, in halve',
        "ZeroDivisionError: division by zero",
    ]


@pytest.mark.parametrize(("module", "told"), [("theirs.maps", True), ("empty", False), ("neither", False)])
def test_a_module_of_a_folder_above_is_told_with_the_path_to_set(
    module: str, told: bool, tmp_path: Path
) -> None:
    for folder in ("theirs", "empty", "jobs/daily"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "theirs" / "maps.py").write_text("")
    script = tmp_path / "jobs" / "daily" / "script.py"
    script.write_text(f"import {module}")
    result = CliRunner().invoke(main, ["run", str(script)])
    assert result.exit_code == 1
    advice = f"theirs is in {tmp_path}: set PYTHONPATH={tmp_path}, and run it again\n"
    assert result.stderr.endswith(advice) if told else "PYTHONPATH" not in result.stderr


@pytest.mark.parametrize("is_package", [False, True])
@pytest.mark.parametrize(
    ("asked", "plain", "in_package"),
    [
        ("from .util import x as y", "from util import x as y", "from jobs.util import x as y"),
        ("from . import util", "import util", "from jobs import util"),
        ("from ..other import x", "from other import x", "from other import x"),
    ],
)
def test_a_relative_import_in_a_script_is_told_how_to_be_written(
    is_package: bool, asked: str, plain: str, in_package: str, tmp_path: Path
) -> None:
    (tmp_path / "jobs").mkdir()
    if is_package:
        (tmp_path / "jobs" / "__init__.py").write_text("")
    script = tmp_path / "jobs" / "script.py"
    script.write_text(f"import os\n{asked}\n")
    write, path = (in_package if is_package else plain), f", and set PYTHONPATH={tmp_path}"
    path = path if is_package or ".." in asked else ""
    advice = f"a script is in no package, so its imports have no dot in front: write '{write}'{path}\n"
    result = CliRunner().invoke(main, ["run", str(script)])
    assert result.exit_code == 1
    assert result.stderr.endswith(f"{script}, line 2: {advice}")
    checked = CliRunner().invoke(main, ["run", "--check", str(script)])
    assert checked.exit_code == 1
    assert f"{script}:2: error: {advice}" in checked.stdout


def test_bad_syntax_is_shown_with_its_line(
    launched: Callable[..., Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert traced(launched("x = (\n"), capsys) == [
        f'File "{tmp_path}/script.py", line 1',
        "SyntaxError: '(' was never closed",
    ]


def test_the_engines_errors_are_messages_with_the_line_of_the_script(
    launched: Callable[..., Result], tmp_path: Path
) -> None:
    result = launched(
        """
        from pyflink.datastream import StreamExecutionEnvironment
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(0)
        """
    )
    assert result.exit_code == 1
    first, second = result.stderr.splitlines()
    assert first.startswith("Error: ")
    assert second == f"  in {tmp_path}/script.py, line 4: env.set_parallelism(0)"


PRINTS = """
    from pyflink.datastream import StreamExecutionEnvironment
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).print()
    env.execute("words")
    print("went on")
    """


def test_a_failed_job_is_its_message(
    launched: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise JobExecutionError(
            "job 'words' failed: map of operator 'x' raised KeyError: 'a\x1b'\n  File ..."
        )

    monkeypatch.setattr(launch, "run_job", fail)
    result = launched(PRINTS)
    assert (result.exit_code, result.stdout) == (1, "")
    assert (
        result.stderr
        == "Error: job 'words' failed: map of operator 'x' raised KeyError: 'a\\x1b'\n  File ...\n"
    )


def test_a_job_stopped_by_ctrl_c_is_130(
    launched: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "run_job", lambda *_: JobOutcome("id", 5, True, 3, 0))
    result = launched(PRINTS)
    assert (result.exit_code, result.stdout) == (130, "")
    assert "Traceback" not in result.output


class Background:
    """A job in the background."""

    name = "words"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def stop(self) -> None:
        self.asked.append("stop")

    def wait(self) -> JobOutcome:
        self.asked.append("wait")
        return JobOutcome("id", 5, True, 3, 0)


def test_ctrl_c_stops_jobs_in_the_background(
    launched: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Background()
    monkeypatch.setattr(launch, "RUNNING", {job})
    result = launched("raise KeyboardInterrupt")
    assert result.exit_code == 130
    assert job.asked == ["stop", "wait"]
    assert result.stderr.splitlines() == [
        "stopping after the next checkpoint; press Ctrl-C again to stop at once",
        "job 'words' stopped after checkpoint 3; run it again to go on from there",
    ]


def test_jobs_in_the_background_are_stopped_whatever_becomes_of_what_is_said_of_it(
    launched: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Background()
    monkeypatch.setattr(launch, "RUNNING", {job})
    program = """
        import sys

        class Unread:
            def write(self, text):
                raise BrokenPipeError

            def flush(self):
                pass

        sys.stderr = Unread()
        raise KeyboardInterrupt
    """
    result = launched(program)
    assert result.exit_code == 130
    assert job.asked == ["stop", "wait"]


def test_ctrl_c_without_a_job_is_130(launched: Callable[..., Result]) -> None:
    result = launched("raise KeyboardInterrupt")
    assert (result.exit_code, result.output) == (130, "")


def test_help_reads_well() -> None:
    text = CliRunner().invoke(main, ["run", "--help"]).output
    assert text.startswith("Usage: main run [OPTIONS] SCRIPT [ARGUMENTS]...\n")
    for option in ("--restore POINT", "-p, --parallelism N", "--master URL", "--name TEXT", "-D KEY=VALUE"):
        assert f"  {option}  " in text


def test_the_list_of_commands_fits_a_terminal_and_says_where_to_begin() -> None:
    text = CliRunner().invoke(main, ["--help"]).output
    assert re.search(r"^  run +Run a PyFlink DataStream script as it is\.$", text, re.M)
    assert all(len(line) <= 80 and not line.endswith("...") for line in text.splitlines()[1:])
    for name in main.list_commands(click.Context(main)):
        assert re.search(rf"^  {name} +\S.*\.$", text, re.M), name
        assert CliRunner().invoke(main, [name, "--help"]).exit_code == 0
    assert "changelog-engine status PATH" in text
    assert "changelog-engine help runbook" in text


def test_every_page_that_a_message_names_can_be_read_on_the_console() -> None:
    root = Path(changelog_engine.__file__).parents[1]
    sources = [
        file for room in ("api", "changelog_engine", "materializer") for file in (root / room).rglob("*.py")
    ]
    named = {name for file in sources for name in re.findall(r"docs/([a-z/-]+)\.md", file.read_text())}
    assert {"runbook", "compatibility", "cluster"} <= named <= {*pages()}
    help_of = partial(CliRunner().invoke, main)
    assert all(f"\n{name} " in f"\n{help_of(['help']).output}" for name in pages())
    whole = help_of(["help", "docs/runbook.md"]).output
    assert whole == help_of(["help", "runbook"]).output == pages()["runbook"].read_text()
    part = help_of(["help", "runbook", "poison"]).output
    assert part.startswith("## A poison record\n")
    assert part in whole
    assert part.count("\n## ") == 0
    rows = help_of(["help", "runbook", "exited with code 137"]).output
    assert [line[:23] for line in rows.splitlines()] == [
        "## The job ended",
        "",
        "| the message, or `stat",
        "|---|---|---|",
        "| `executors were lost`",
    ]
    both = help_of(["help", "runbook", "journalctl"]).output
    assert [line for line in both.splitlines() if line.startswith("#")] == [
        "## The job ended",
        "## No memory",
    ]
    assert "* The kernel killed" in both
    assert both.count("|---|---|---|") == 1
    wrong = help_of(["help", "runbok"])
    assert (wrong.exit_code, "did you mean 'runbook'?" in wrong.output) == (1, True)
    assert "has 'nothing like it'" in help_of(["help", "runbook", "nothing like it"]).output


def test_a_context_that_the_engine_starts_leaves_ctrl_c_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark's own handler would cancel the epoch that the clean stop waits for."""
    before = signal.getsignal(signal.SIGINT)

    context = SimpleNamespace(_accumulatorServer=SimpleNamespace(server_address=("localhost", 1)))

    def start(conf: Any) -> Any:
        signal.signal(signal.SIGINT, lambda number, frame: None)
        return context

    monkeypatch.setattr(session.SparkContext, "getOrCreate", start)
    try:
        assert session._started(SparkConf(loadDefaults=False), background=False) is context
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, before)


def test_options_with_which_spark_does_not_start_are_told_in_java_s_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Refused(Py4JJavaError):
        def __init__(self) -> None:
            """Without a JVM to ask."""

        def __str__(self) -> str:
            said = "org.apache.spark.SparkException: Could not parse Master URL: 'local[x]'"
            return f"An error occurred while calling None.JavaSparkContext.\n: {said}\n\tat org.apache.spark.SparkContext.x"

    def start(conf: Any) -> None:
        raise Refused

    monkeypatch.setattr(session.SparkContext, "getOrCreate", start)
    conf = SparkConf(loadDefaults=False).set("spark.master", "local[x]")
    with pytest.raises(EnvironmentNotReadyError) as refused:
        session._started(conf, background=False)
    assert refused.value.fault == (
        "Spark did not start with master 'local[x]'. Spark says: Could not parse Master URL: 'local[x]'"
    )


@pytest.mark.parametrize(
    ("master", "variable", "told"),
    [
        ("yarn", None, True),
        ("yarn", "HADOOP_CONF_DIR", False),
        ("yarn", "YARN_CONF_DIR", False),
        ("local", None, False),
    ],
)
def test_a_jvm_for_yarn_that_has_no_hadoop_settings_ends_with_their_name(
    master: str, variable: str | None, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    if variable is not None:
        monkeypatch.setenv(variable, "/etc/hadoop")

    def start(conf: Any) -> None:
        raise PySparkRuntimeError("[JAVA_GATEWAY_EXITED]")

    jvm = SimpleNamespace(pid=1, poll=lambda: 1)
    monkeypatch.setattr(session, "own_gateway", lambda *given: contextlib.nullcontext([jvm]))
    monkeypatch.setattr(session.SparkContext, "_ensure_initialized", start)
    with pytest.raises(EnvironmentNotReadyError) as refused:
        session._started(SparkConf(loadDefaults=False).set("spark.master", master), background=False)
    assert ("HADOOP_CONF_DIR is not set: it names" in refused.value.fault) is told


def test_jobs_in_the_background_are_known_while_they_run() -> None:
    class Job(launch.RunningJob):
        def __init__(self) -> None:
            self.name = "words"
            self.seen = threading.Event()
            self.go_on = threading.Event()

        def _run_quietly(self) -> None:
            self.seen.set()
            self.go_on.wait(10)

    job = Job()
    try:
        job.start()
        assert job.seen.wait(10)
        assert job in launch.RUNNING
    finally:
        job.go_on.set()
        launch.RUNNING.discard(job)
