"""``make bench-quick``: is this tree slower than another one? The same jobs in both, in turns, five minutes.

``python tests/bench/quick.py [BASE]`` compares what lies in this checkout, committed or not, with the commit BASE (main).
What decides is the CPU that a whole run takes, driver, JVM and workers together: it depends less on what else the machine
does than the rate. The second of two runs one after the other is often slower, so a round runs both in both orders, and its
ratio is the geometric mean; the median of the rounds counts. The exit status is 1 when a job takes 5 % more, and 2 when it
could not be measured.
"""

from __future__ import annotations

import dataclasses
import math
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from engine import EngineBench
from processes import MeasurementError, Outcome
from sizes import sizes_from_environment

ROOT = Path(__file__).resolve().parents[2]
MOST = 1.05
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
_EXTENSIONS = """
import changelog_engine
from changelog_engine.state import handles_in_c
from changelog_engine.types import row_loops
print(changelog_engine.__file__, handles_in_c.WHY_NOT is None, row_loops.WHY_NOT is None)
"""
RECORDS = {"keyed count": 3_000_000, "map_state": 1_000_000, "chain": 200_000}


def main() -> int:
    """The exit status."""
    base = sys.argv[1] if len(sys.argv) > 1 else "main"
    work = ROOT / ".bench" / "quick"
    shutil.rmtree(work, ignore_errors=True)
    tree = work / "base"
    subprocess.run(["git", "worktree", "prune"], cwd=ROOT, check=True)
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(tree), base], cwd=ROOT, check=True)
    try:
        if _built(tree) != _built(ROOT):
            raise MeasurementError("only one of the two trees has its extensions in C: make setup")
        slower = [name for name in RECORDS if _compare(name, work, tree, base)]
    except MeasurementError as error:
        print(error, file=sys.stderr)
        return 2
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)
    return 1 if slower else 0


def _built(tree: Path) -> list[bool]:
    """Build what a tree would build at its first use, which a run would pay for; which of its extensions in C work."""
    packages = [str(tree / name) for name in ("api", "changelog_engine", "materializer")]
    subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=tree, check=True)
    subprocess.run([sys.executable, "-m", "compileall", "-q", *packages], check=True)
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    run = subprocess.run(
        [sys.executable, "-P", "-c", _EXTENSIONS], env=environment, check=True, capture_output=True, text=True
    )
    path, *works = run.stdout.split()
    if not Path(path).is_relative_to(tree):
        raise MeasurementError(f"{path} is measured in place of {tree}")
    return [each == "True" for each in works]


def _compare(name: str, work: Path, tree: Path, base: str) -> bool:
    """Whether this tree takes too much more than the other."""
    sizes = dataclasses.replace(sizes_from_environment(), keys=100_000)
    there, here = (
        EngineBench(work / side, sizes, place) for side, place in (("there", tree), ("here", ROOT))
    )
    cpu, rate = [], []
    for _ in range(ROUNDS):
        one, two, three, four = (_run(bench, name) for bench in (there, here, here, there))
        cpu.append(math.sqrt(two.cpu_s * three.cpu_s / (one.cpu_s * four.cpu_s)))
        rate.append(math.sqrt(_rate(two) * _rate(three) / (_rate(one) * _rate(four))))
    ratio = statistics.median(cpu)
    spread = f"{min(cpu):.2f} to {max(cpu):.2f}"
    print(
        f"{name}: {ratio:.2f} of the CPU of {base} ({spread}), {statistics.median(rate):.2f} of its rate, "
        f"{ROUNDS} rounds: {'slower' if ratio > MOST else 'ok'}",
        flush=True,
    )
    return ratio > MOST


def _run(bench: EngineBench, name: str) -> Outcome:
    records = RECORDS[name]
    return bench.keyed_count(records) if name == "keyed count" else bench.measured_workload(name, records)


def _rate(outcome: Outcome) -> float:
    return float(outcome.result["records_per_s"])


if __name__ == "__main__":
    sys.exit(main())
