"""Runs pipelines by whatever is called ``pyflink``, and writes down what each gives.

    python run.py IN OUT [--apart]

IN has descriptions, OUT gets what they give, both as lines of JSON. Pipelines whose ids have the same thousands are one job,
unless it fails: then parts of it, down to single ones. With ``--apart`` each is a job of its own, which is quicker where
a job starts in no time.

Nothing of this project is imported; the bin folder of PyFlink's environment must be the first on the PATH.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cloudpickle
import pipelines
from pyflink.common import Configuration
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

cloudpickle.register_pickle_by_value(pipelines)  # workers need not find it

Described = dict[str, Any]
Outcome = dict[str, Any]


class _Captured:
    """Standard output of this process, in a file from now on."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # as long as this process
        self._read = 0
        os.dup2(self._file.fileno(), 1)

    def __call__(self) -> str:
        """What was printed since the last call."""
        sys.stdout.flush()
        text = os.pread(self._file.fileno(), 1 << 26, self._read)
        self._read += len(text)
        return text.decode()


def environment(mode: str) -> StreamExecutionEnvironment:
    """The environment that pipelines of a mode get."""
    paced = mode == "paced"
    configuration = Configuration()
    for key, value in {
        "execution.target": "local",  # Python workers are threads of this process
        "restart-strategy.type": "none",
        "pipeline.auto-watermark-interval": "5 ms" if paced else "1 h",
        "taskmanager.memory.network.min": "256 mb",
        "taskmanager.memory.network.max": "256 mb",
    }.items():
        configuration.set_string(key, value)
    if paced:
        configuration.set_string("python.fn-execution.bundle.size", "1")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    if mode == "batch":
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    return env


def run(described: list[Described], captured: _Captured) -> dict[int, Outcome]:
    """What the pipelines of one job give, by id: lines, or what building one of them raised."""
    builder = pipelines.Builder(environment(described[0]["mode"]))
    lines: dict[int, list[str]] = {each["id"]: [] for each in described}
    refused: dict[int, Outcome] = {}
    for each in described:
        try:
            builder.add(each)
        except Exception as error:
            refused[each["id"]] = {"raises": f"{type(error).__name__} {error}"[:300]}
    captured()
    if len(refused) < len(described):
        builder.env.execute(f"generated-{described[0]['id']}-{len(described)}-{time.time_ns()}")
    for line in captured().splitlines():
        name, _, rest = line.partition("> ")
        lines[int(name)].append(rest)
    return {name: {"gives": each} for name, each in lines.items()} | refused


def said(error: Exception) -> str:
    """The innermost error within a message."""
    lines = str(error).splitlines() or [repr(error)]
    named = [line for line in lines if re.match(r"(Caused by: )?[\w.]*(Error|Exception)\b", line)] or lines
    python = [line for line in named if not line.startswith(("Caused by", "org.", "java."))]
    return (python or named)[-1][:300]


def attempt(described: list[Described], captured: _Captured) -> dict[int, Outcome]:
    """What pipelines give, by id, those that fail included."""
    try:
        return run(described, captured)
    except Exception as error:
        if len(described) == 1:
            return {described[0]["id"]: {"raises": said(error)}}
    size = max(1, len(described) // 4)
    parts = [described[start : start + size] for start in range(0, len(described), size)]
    return {name: outcome for part in parts for name, outcome in attempt(part, captured).items()}


def main() -> None:
    """See the module."""
    source, target = map(Path, sys.argv[1:3])
    apart = "--apart" in sys.argv[3:]
    jobs: defaultdict[int, list[Described]] = defaultdict(list)
    for line in source.read_text(encoding="utf-8").splitlines():
        each = json.loads(line)
        jobs[each["id"] if apart else each["id"] // 1000].append(each)
    captured = _Captured()
    with target.open("w", encoding="utf-8") as out:
        os.chdir(tempfile.mkdtemp(prefix="generated-"))
        for described in jobs.values():
            found = attempt(described, captured)
            for name, outcome in found.items():
                print(json.dumps({"id": name} | outcome, ensure_ascii=False), file=out, flush=True)


if __name__ == "__main__":
    main()
