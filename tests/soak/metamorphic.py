"""Random programs in random ways, for as long as you like: see tests/support/metamorphic.py.

python metamorphic.py [--minutes 10] [--first 0] [--ways 6] [--keep FILE]

Each failure is made small and printed as the two literals that repeat it; ``--keep`` appends them to a file too. ``--again
'PROGRAM' 'WAY'`` runs one. Exit status 1: something failed.
"""

from __future__ import annotations

import argparse
import ast
import logging
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS.parent), str(TESTS)]  # it is run as a program, by its path

# ruff: noqa: E402
from support.metamorphic import Model, Way, failure_in_batch, failure_of, failure_of_run, random_way, shrunk
from support.random_jobs import random_program

from changelog_engine.errors import ChangelogEngineError


def search(minutes: float, first: int, ways: int, keep: Path | None) -> int:
    """Run programs until the time is over; returns how many ways failed."""
    end, seed, runs, skipped, failed = time.monotonic() + 60 * minutes, first, 0, 0, 0
    while time.monotonic() < end:
        described = random_program(seed)
        with tempfile.TemporaryDirectory() as base:
            try:
                model = Model(described, f"{base}/model")
            except ChangelogEngineError:  # it fails by itself, as some do
                skipped += 1
            except AssertionError as error:
                failed += 1
                tell(f"program {seed}, model: {error}\n{described!r}", keep)
            else:
                for number in range(ways):
                    way = random_way(seed * ways + number, model.traits, model.items)
                    said = failure_of_run(model, way, f"{base}/{number}")
                    runs += 1
                    if said is not None:
                        failed += 1
                        tell(f"program {seed}, way {seed * ways + number}: {said[:2000]}", keep)
                        tell(_small(described, way), keep)
            said = failure_in_batch(seed, f"{base}/batch")
            if said is not None:
                failed += 1
                tell(f"program {seed} in BATCH mode: {said[:2000]}", keep)
        seed += 1
        if seed % 10 == 0:
            print(
                f"{runs} runs of {seed - first - skipped} programs, {failed} failed",
                file=sys.stderr,
                flush=True,
            )
    print(f"{runs} runs of {seed - first - skipped} programs, {failed} failed; seeds {first} to {seed - 1}")
    print(f"{skipped} programs fail by themselves, and tell nothing")
    return failed


def _small(described: dict[str, Any], way: Way) -> str:
    if failure_of(described, way) is None:
        return "it does not fail a second time"
    described, way, said = shrunk(described, way)
    return f"  small: {said[:3000]}\n  {described!r}\n  {way!r}"


def tell(text: str, keep: Path | None) -> None:
    """Print something, and keep it."""
    print(text, flush=True)
    if keep is not None:
        with keep.open("a", encoding="utf-8") as file:
            print(text, file=file)


def main() -> None:
    """See the module."""
    arguments = argparse.ArgumentParser(description="Runs random programs in random ways.")
    arguments.add_argument("--minutes", type=float, default=10)
    arguments.add_argument("--first", type=int, default=0, help="seed of the first program")
    arguments.add_argument("--ways", type=int, default=6, help="ways of each program")
    arguments.add_argument("--keep", type=Path, help="where failures are appended")
    arguments.add_argument("--again", nargs=2, metavar=("PROGRAM", "WAY"), help="run what was printed")
    given = arguments.parse_args()
    logging.disable(logging.CRITICAL)  # failures that are part of the way
    if given.again:
        fields = ast.parse(given.again[1], mode="eval").body
        assert isinstance(fields, ast.Call)
        way = Way(**{each.arg: ast.literal_eval(each.value) for each in fields.keywords if each.arg})
        said = failure_of(ast.literal_eval(given.again[0]), way)
        print("equal" if said is None else said)
        sys.exit(said is not None)
    sys.exit(bool(search(given.minutes, given.first, given.ways, given.keep)))


if __name__ == "__main__":
    main()
