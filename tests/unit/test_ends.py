"""How programs end that cannot begin, or that Ctrl-C or SIGTERM stops: one message, the right status (case 57)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from py4j.java_gateway import GatewayClient
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.errors import PySparkRuntimeError

from changelog_engine.errors import EnvironmentNotReadyError, SparkEndedError
from changelog_engine.launch import RunningJob
from changelog_engine.spark.epoch_job import SparkEpochRunner
from changelog_engine.spark.jvm import said_when_ended, spark_ended
from changelog_engine.spark.session import _started
from changelog_engine.testing import without_spark

SCRIPT = """
import sys
from api.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1]).print()
try:
    env.execute("job")
except RuntimeError as error:
    print(type(error).__name__, error)
    print("loaded:", [name for name in ("pyspark", "deltalake") if name in sys.modules])
"""


def test_case_57_a_missing_java_is_said_before_spark_is_loaded(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": str(tmp_path), "JAVA_HOME": ""}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    error, loaded = done.stdout.splitlines()
    assert error.startswith(
        "EnvironmentNotReadyError Spark needs Java, and there is no 'java' on PATH. Install Java 17"
    )
    assert "JAVA_HOME" in error
    assert loaded == "loaded: []", done.stderr
    assert not list(tmp_path.iterdir()), "no folder of a job"


INTERRUPTED = """
import sys

class CtrlC:
    def find_spec(self, name, *_):
        if name == "changelog_engine.cli.program":
            raise KeyboardInterrupt

sys.meta_path.insert(0, CtrlC())
from changelog_engine.cli import main
"""


def test_case_57_ctrl_c_while_the_command_is_imported_is_status_130_and_no_traceback() -> None:
    command = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


STOPPED = """
import os, signal, sys, threading
from api.datastream import StreamExecutionEnvironment
from api.datastream.connectors.number_seq import NumberSequenceSource
from api.common import Types, WatermarkStrategy
from changelog_engine.testing import without_spark

def interrupts(value):
    if value == 500:
        for _ in range(int(sys.argv[2])):
            os.kill(os.getpid(), signal.Signals[sys.argv[4]] if len(sys.argv) > 4 else signal.SIGINT)
    return value

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
if sys.argv[1] == "checkpoints":
    env.enable_checkpointing(10)
numbers = NumberSequenceSource(0, int(sys.argv[3]))
stream = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
stream.map(interrupts, Types.LONG()).filter(lambda value: False).print()
with without_spark():
    env.execute("job")
print("THE JOB ENDED")
"""


@pytest.mark.parametrize(
    ("mode", "times", "last"),
    [
        ("checkpoints", 1, r"job 'job' stopped after checkpoint \d+; run it again to go on from there"),
        (
            "none",
            1,
            r"job 'job' stopped; it makes no checkpoints, so nothing is kept: run again, it begins anew",
        ),
        (
            "none",
            2,
            r"job 'job' stopped; it makes no checkpoints, so nothing is kept: run again, it begins anew",
        ),
    ],
)
def test_case_57_ctrl_c_is_one_message_and_status_130(
    tmp_path: Path, mode: str, times: int, last: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, mode, str(times), str(10**7)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    lines = done.stderr.splitlines()
    assert done.returncode == 130, done.stderr
    assert lines[0].startswith("stopping after ")
    assert re.fullmatch(last, lines[1])
    assert len(lines) == 2, done.stderr
    assert "THE JOB ENDED" not in done.stdout


def test_ctrl_c_in_ipython_is_one_line_without_advice_how_to_leave(tmp_path: Path) -> None:
    """As a notebook's stop button; a SystemExit would be shown with "To exit: use 'exit', 'quit', or Ctrl-D"."""
    pytest.importorskip("IPython")
    (tmp_path / "job.py").write_text(STOPPED)
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--colors=nocolor", "job.py", "checkpoints", "1", str(10**7)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
        env={**os.environ, "IPYTHONDIR": str(tmp_path)},
    )
    shown = done.stdout + done.stderr
    last = r"^JobCancelledError: job 'job' stopped after checkpoint \d+; run it again to go on from there$"
    assert len(re.findall(last, shown, re.MULTILINE)) == 1, shown
    assert "stopping after the next checkpoint; interrupt again to stop at once" in shown
    assert "Traceback" not in shown
    assert "To exit" not in shown
    assert "THE JOB ENDED" not in shown


@pytest.mark.parametrize(
    ("times", "status", "said"),
    [
        (
            1,
            143,
            r"stopping after the next checkpoint; send SIGTERM again to stop at once\n"
            r"job 'job' stopped after checkpoint \d+; run it again to go on from there\n",
        ),
        (2, -signal.SIGTERM, r"stopping after the next checkpoint; send SIGTERM again to stop at once\n"),
    ],
)
def test_sigterm_stops_a_job_after_a_checkpoint_and_at_once_the_second_time(
    tmp_path: Path, times: int, status: int, said: str
) -> None:
    """As ``docker stop``, ``systemctl stop`` and Kubernetes send it."""
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, "checkpoints", str(times), str(10**7), "SIGTERM"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert re.fullmatch(said, done.stderr)
    assert "THE JOB ENDED" not in done.stdout


@pytest.mark.parametrize("begins", ["", "sys.stderr.close()\n", "sys.stderr = None\n"])
def test_a_stop_is_one_whatever_becomes_of_what_is_said_of_it(tmp_path: Path, begins: str) -> None:
    """Such as ``python job.py 2>&1 | head``, whose ``head`` has had enough."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{begins}{STOPPED}", "checkpoints", "1", str(10**7), "SIGTERM"],
        stdout=subprocess.PIPE,
        stderr=writing,
        cwd=tmp_path,
        check=False,
        timeout=60,
    )
    os.close(writing)
    assert (done.returncode, done.stdout) == (143, b"")


FAILED = """
from api.datastream import StreamExecutionEnvironment
from changelog_engine.testing import without_spark

def halves(value):
    return 10 // value

env = StreamExecutionEnvironment.get_execution_environment()
halved = env.from_collection([1, 0]).map(halves)
with without_spark():
    RUN
"""


@pytest.mark.parametrize(
    ("run", "ours"),
    [
        ("halved.print(); env.execute('job')", ["execute"]),
        ("list(halved.execute_and_collect('job'))", ["__next__", "results"]),
        (
            "halved.print(); env.execute_async('job').get_job_execution_result().result()",
            ["result", "result", "__get_result", "run", "<lambda>", "wait"],
        ),
    ],
)
def test_a_mistake_of_the_program_is_shown_with_its_own_lines_and_none_of_the_drivers(
    tmp_path: Path, run: str, ours: list[str]
) -> None:
    """Under plain Python, and so in notebooks; `changelog-engine run` shows the message alone."""
    (tmp_path / "job.py").write_text(FAILED.replace("RUN", run))
    done = subprocess.run(
        [sys.executable, "job.py"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 1
    assert "JobExecutionError: job 'job' failed: map of operator 'Map', element 0 raised" in done.stderr
    frames = re.findall(r'File "(.*)", line \d+, in (\S+)', done.stderr)
    assert {name for path, name in frames if Path(path).name == "job.py"} == {"halves", "<module>"}
    assert [name for path, name in frames if Path(path).name != "job.py"] == ours


FORKED = """
import multiprocessing, time
from api.datastream import StreamExecutionEnvironment
from api.common import Types
from changelog_engine.testing import without_spark

def asks_a_process(value):
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    process.start()
    process.terminate()
    process.join(30)
    return process.exitcode

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1]).map(asks_a_process, Types.LONG()).print()
with without_spark():
    env.execute("job")
"""


def test_a_process_that_a_function_forks_ends_by_sigterm(tmp_path: Path) -> None:
    """As ``multiprocessing.Pool`` ends its own."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("-15\n")


def test_a_program_that_handles_sigterm_keeps_its_handler(tmp_path: Path) -> None:
    handled = "import signal\nsignal.signal(signal.SIGTERM, lambda number, frame: print('HANDLED'))\n"
    done = subprocess.run(
        [sys.executable, "-c", handled + STOPPED, "none", "1", "1000", "SIGTERM"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "HANDLED\nTHE JOB ENDED\n", "")


def test_a_job_whose_parent_ignores_ctrl_c_goes_on(tmp_path: Path) -> None:
    """As ``job &`` in a script: the terminal sends SIGINT to it, too."""
    done = subprocess.run(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", STOPPED, "none", "1", "1000"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "THE JOB ENDED\n", "")


def context(process: Any) -> Any:
    return SimpleNamespace(_gateway=SimpleNamespace(proc=process))


@pytest.mark.parametrize(
    ("command", "words", "status"),
    [
        (
            "kill -9 $$",
            "was killed by SIGKILL; what it wrote last is on this program's standard error. Where nobody",
            -9,
        ),
        ("exit 3", "has ended with status 3;", 3),
        (
            "exit 52",
            "has ended with status 52; what it wrote last is on this program's standard error. It had an OutOfMemoryError",
            52,
        ),
    ],
)
def test_case_57_a_jvm_that_ended_is_named_with_its_status(command: str, words: str, status: int) -> None:
    with subprocess.Popen(["sh", "-c", command]) as process:
        failure = spark_ended(context(process), Py4JNetworkError("Answer from Java side is empty"))
    assert failure is not None
    assert f"process {process.pid}) {words}" in str(failure)
    assert (failure.pid, failure.status) == (process.pid, status)


def test_case_57_an_error_of_spark_is_no_end_of_it() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        assert spark_ended(context(process), Py4JError("a task failed")) is None
        process.kill()
    assert spark_ended(context(None), Py4JError("a task failed")) is None
    assert spark_ended(context(None), ConnectionRefusedError()) is not None


@pytest.mark.parametrize(
    ("said", "ended"),
    [
        ("An error occurred while calling o23.getAll", True),
        ("An error occurred while calling o23.getAll. Trace:\npy4j.Py4JException: no such method\n", False),
    ],
)
def test_case_57_a_call_that_a_dying_jvm_left_unanswered_waits_for_its_end(said: str, ended: bool) -> None:
    """Its sockets are closed a moment before the process has a status; py4j's error was a traceback then."""
    dying: Any = SimpleNamespace(pid=7, poll=lambda: None, wait=lambda timeout: -signal.SIGKILL)
    failure = spark_ended(context(dying), Py4JError(said))
    assert (failure is not None) is ended
    if failure is not None:
        assert failure.status == -signal.SIGKILL


def test_case_57_a_function_that_ends_the_process_is_told(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "_exit", os_exit := mock.Mock())
    with without_spark():
        os._exit(3)
        monkeypatch.setattr(os, "getpid", lambda: 0)  # as in a child
        os._exit(4)
    assert os._exit is os_exit
    assert os_exit.mock_calls == [mock.call(3), mock.call(4)]
    told = capfd.readouterr().err
    assert re.fullmatch(
        r"os\._exit\(3\) ends this process, and the jobs that it runs without Spark: .*test_ends\.py, line \d+\n",
        told,
    )


@pytest.mark.parametrize(
    ("command", "error", "kind", "words"),
    [
        (
            "kill -9 $$",
            PySparkRuntimeError("[JAVA_GATEWAY_EXITED]"),
            SparkEndedError,
            "was killed by SIGKILL;",
        ),
        ("kill -9 $$", ConnectionRefusedError(), SparkEndedError, "was killed by SIGKILL;"),
        (
            "exit 1",
            PySparkRuntimeError("[JAVA_GATEWAY_EXITED]"),
            EnvironmentNotReadyError,
            "the spark.* option",
        ),
    ],
)
def test_case_57_a_jvm_that_is_killed_while_spark_starts_is_no_mistake_in_its_options(
    monkeypatch: pytest.MonkeyPatch, command: str, error: Exception, kind: type[Exception], words: str
) -> None:
    def end(**_: Any) -> None:
        with java_gateway.Popen(["sh", "-c", command], env=dict(os.environ)) as jvm:  # type: ignore[attr-defined]
            jvm.wait()
        raise error

    monkeypatch.setattr(SparkContext, "_ensure_initialized", end)
    with pytest.raises(kind, match=re.escape(words)):
        _started(SparkConf(loadDefaults=False).set("spark.master", "local[2]"), background=False)


def test_case_57_calls_between_the_start_and_the_first_epoch_say_that_the_jvm_ended() -> None:
    with subprocess.Popen(["sh", "-c", "kill -9 $$"]) as process:
        killed = context(process)
    with pytest.raises(SparkEndedError, match="was killed by SIGKILL"), said_when_ended(killed):
        raise Py4JNetworkError("Answer from Java side is empty")
    with subprocess.Popen(["sleep", "60"]) as process:
        with pytest.raises(Py4JError, match="no such method"), said_when_ended(context(process)):
            raise Py4JError("no such method")
        process.kill()


def test_case_57_py4j_does_not_show_where_ctrl_c_met_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, connection = GatewayClient(), mock.Mock(socket=None)
    connection.send_command.side_effect = KeyboardInterrupt
    monkeypatch.setattr(client, "_get_connection", lambda: connection)
    with pytest.raises(KeyboardInterrupt):
        client.send_command("c")
    assert not caplog.records


def test_case_57_an_epoch_that_ctrl_c_leaves_is_cancelled() -> None:
    """Else it would go on without the program that its tasks take from Spark, and Spark would say so."""
    runner = SparkEpochRunner.__new__(SparkEpochRunner)
    vars(runner).update(_ahead=mock.Mock(), _watch=mock.Mock(), _printed=None, _reads_ahead=False)
    with mock.patch.object(runner, "_run", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        runner.run(mock.Mock(), 1.0)
    runner._watch.cancel.assert_called_once()  # type: ignore[attr-defined]


@pytest.mark.parametrize(("failure", "status"), [(KeyboardInterrupt(), "CANCELED"), (OSError(), "FAILED")])
def test_case_57_a_job_that_ctrl_c_ended_at_once_did_not_fail(failure: BaseException, status: str) -> None:
    job = RunningJob.__new__(RunningJob)
    vars(job).update(
        name="job", job_id="", coordinator=mock.Mock(), _observers=mock.Mock(), _queues={}, _done=mock.Mock(),
        _at_the_end=[], _in_background=False,
    )  # fmt: skip
    job._end(None, failure)
    job._observers.monitor.status.assert_called_once_with(status)  # type: ignore[attr-defined]
    assert job.status() == status
