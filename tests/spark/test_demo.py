"""The demo as people start it, and stop it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from driver_process import FLIGHTS, own_descendants, wait_for

from patience import session

pytestmark = pytest.mark.slow


def test_case_56_ctrl_c_in_the_demo_is_one_line(tmp_path: Path) -> None:
    work = tmp_path / "work"
    with (tmp_path / "said").open("wb") as said:
        demo = subprocess.Popen(
            [sys.executable, str(FLIGHTS / "demo.py")],
            env={**os.environ, "DEMO_WORK": str(work)},
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(
                signal.SIGINT, signal.SIG_DFL
            ),  # shells ignore it for what runs behind
        )
    try:
        wait_for(
            lambda: (work / "job.log").exists() or demo.poll() is not None, works=lambda: session(demo.pid)
        )
        (job,) = [process.pid for process in own_descendants() if process.parent == demo.pid]
        os.kill(demo.pid, signal.SIGINT)
        wait_for(lambda: demo.poll() is not None, works=lambda: session(demo.pid))
    finally:
        demo.kill()
        demo.wait()
    output = (tmp_path / "said").read_text()
    assert demo.returncode == 130, output
    assert "Traceback" not in output
    assert output.count("Stopped. What the job left is in") == 1
    wait_for(lambda: not session(job).processes, works=lambda: session(job))
