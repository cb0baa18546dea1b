"""The page over a log of ten million mutations, as a browser's requests meet it: the server is a process of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from engine import EngineBench
from made_logs import make_log
from processes import cpu_s_of

KEY = 77
STEPS = 10
CHECKPOINTS = 50


class PageBench:
    """Requests to a page over a log made for it; see ``made_logs``.

    Args:
        engine: has sizes and folders.
    """

    def __init__(self, engine: EngineBench) -> None:
        self.engine = engine

    def answers(self) -> dict[str, Any]:
        """Seconds, and CPU seconds of the server, of each kind of request; the state without a snapshot and with one."""
        rows = self.engine.sizes.restore_many
        base = self.engine.work / "tables" / "page"
        folder = make_log(base, rows, max(rows // 10, 1), CHECKPOINTS)
        try:
            found = self._asked(base, "log")
            subprocess.run(
                [sys.executable, "-m", "changelog_engine", "materialize", folder.storage.root],
                check=True,
                stdout=subprocess.DEVNULL,
                timeout=1800,
            )
            return found | self._asked(base, "snapshot")
        finally:
            shutil.rmtree(base, ignore_errors=True)

    def _asked(self, base: Path, kind: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "changelog_engine", "ui", str(base), "--port", "0", "--until-eof"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdin is not None
            assert server.stdout is not None
            address = server.stdout.readline().split(" ")[0].rstrip("/") + "/job/job"
            try:
                found = {}
                for name, part, asked in (
                    ("paint", "", {}),
                    ("first_look", "state", {"at": CHECKPOINTS}),
                    ("search", "state", {"at": CHECKPOINTS, "search": "77777"}),
                    ("key", "key", {"at": CHECKPOINTS, "key": KEY}),
                    ("compare", "compare", {"at": CHECKPOINTS, "against": CHECKPOINTS - 1}),
                    ("back", "state", {"at": CHECKPOINTS // 2}),
                ):
                    found[name] = _timed(server.pid, address, part, asked)
                steps = [
                    _timed(server.pid, address, "state", {"at": CHECKPOINTS // 2 + step})
                    for step in range(STEPS)
                ]
                found["step"] = max(steps)
            finally:
                server.stdin.close()
                server.wait(60)
        return {
            f"{kind}_{name}_{unit}": value
            for name, pair in found.items()
            for unit, value in zip(("s", "cpu_s"), pair, strict=True)
        }


def _timed(process: int, address: str, part: str, asked: dict[str, Any]) -> tuple[float, float]:
    """Wall clock of a request, and the server's CPU."""
    url = f"{address}{'/' if part else ''}{part}?{urllib.parse.urlencode(asked)}"
    began, cpu = time.perf_counter(), cpu_s_of(process)
    with urllib.request.urlopen(url, timeout=600) as answer:
        text = answer.read().decode()
    if 'class="error"' in text:
        raise RuntimeError(f"{url} was answered with an error: {text[:500]}")
    return time.perf_counter() - began, cpu_s_of(process) - cpu
