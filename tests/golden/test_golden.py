"""The programs beside this file, with what real PyFlink 1.20.1 printed for them.

``NAME.expected`` was written by real PyFlink, run twice with the same result; never by this engine. A line that was
put right by hand is named in its program. ``record.py --check`` compares them with PyFlink, where that is at hand. Lines
are compared sorted, unless the program's first line is ``# ordered``.

All programs run in one process without Spark, with the stages, shuffles, state and sinks of a job on Spark, which decide
most of what they look at: two CPU seconds, for 33 on Spark. Those of `ON_SPARK` run there, too, in one process with one
session; test_corners.py has more of each subject there. A program that sleeps measures itself against the clock: where its
output differs, the machine may have been busy, and it is run again by itself.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from golden_child import WITHOUT_SPARK
from record import lines_of

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
PROGRAMS = {path.stem: path for path in sorted(HERE.glob("[0-9]*.py"))}
# What is not the stages' alone: how elements, state and objects of users get from process to process, epochs that the clock
# begins, the beginning and the end of attempts, and what the program hears of its job.
ON_SPARK = (
    "101_value_state_types",
    "105_two_keyed_stages",
    "108_key_selectors",
    "116_window_side_outputs",
    "118_processing_time_windows",
    "122_keyed_broadcast",
    "123_partition_custom",
    "127_lifecycle",
    "129_batch_mode",
    "132_restart_strategies",
    "133_more_errors",
    "136_number_sequence",
    "137_job_client",
    "142_connected_parallel",
    "143_broadcast_parallel",
    "146_metrics",
    "162_many_elements",
    "171_keyed_functions_without_keys",
    "172_maps_of_objects",
    "173_functions_print",
)
WHERE = ("without Spark", "on Spark")
_TIMEOUT_S = 900


@pytest.fixture(scope="module")
def printed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders with the output of all programs that were selected, by where they ran: side by side, as many sleep."""
    wanted = {
        (item.callspec.params["where"], item.callspec.params["name"])
        for item in request.session.items
        if "printed" in getattr(item, "fixturenames", ())
    }
    folders = {where: tmp_path_factory.mktemp("golden") for where in WHERE}
    own = {where: tmp_path_factory.mktemp("child") for where in WHERE}
    with ThreadPoolExecutor(len(WHERE)) as pool:
        for where in WHERE:
            names = [name for name in PROGRAMS if (where, name) in wanted]
            if names:
                pool.submit(run, names, where, folders[where], own[where])
    return folders


def sleeps(name: str) -> bool:
    """Whether a program waits for time to pass."""
    return "time.sleep(" in PROGRAMS[name].read_text(encoding="utf-8")


def run(names: list[str], where: str, folder: Path, own: Path) -> None:
    """Run programs, one after the other in a process of their own, which works in the folder ``own``."""
    environment = dict(os.environ, TZ="UTC", TMPDIR=str(own), PYTHONPATH=str(HERE.parents[1]))
    command = [sys.executable, str(HERE / "golden_child.py")]
    command += [WITHOUT_SPARK] if where == "without Spark" else []
    command += [str(folder), *(str(PROGRAMS[name]) for name in names)]
    with open(folder / "stderr", "w") as errors, contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            command,
            cwd=own,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            check=False,
            timeout=_TIMEOUT_S,
        )


def differences(name: str, folder: Path) -> tuple[list[str], list[str]] | None:
    """Lines printed and lines expected, where they differ."""
    error, out = folder / f"{name}.err", folder / f"{name}.out"
    assert not error.exists(), error.read_text(encoding="utf-8")
    assert out.exists(), f"{name} was not reached"
    ordered = PROGRAMS[name].read_text(encoding="utf-8").startswith("# ordered")
    printed = lines_of(out.read_text(encoding="utf-8"), ordered)
    expected = lines_of((HERE / f"{name}.expected").read_text(encoding="utf-8"), ordered)
    return None if printed == expected else (printed, expected)


@pytest.mark.parametrize(
    ("where", "name"),
    [*(("without Spark", name) for name in PROGRAMS), *(("on Spark", name) for name in ON_SPARK)],
)
def test_prints_what_pyflink_prints(
    printed: dict[str, Path], where: str, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    differing = differences(name, printed[where])
    if differing is not None and sleeps(name):
        alone = tmp_path_factory.mktemp("alone")
        run([name], where, alone, tmp_path_factory.mktemp("child"))
        differing = differences(name, alone)
    if differing is not None:
        assert differing[0] == differing[1]
