"""Random programs whose drivers are killed with SIGKILL at random moments: at a change of the disk, or inside user code.

Drivers are forked from a process that has imported everything and run nothing, and so is who compares in the end.

    python -m support.killed_ways FOLDER FIRST LAST
"""

from __future__ import annotations

import logging
import os
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from changelog_engine.errors import ChangelogEngineError
from support.forked import import_the_rest
from support.metamorphic import (
    Model,
    Way,
    _budgets,
    _Job,
    check_log,
    compare,
    extensions,
    files_of,
    random_way,
)
from support.random_jobs import TRAP, Described, random_program, script, traits

_CHANGES = {"open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.truncate", "os.rmdir"}
_SKIPPED = 3
KILLED: list[int] = []
"""How each driver ended."""


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(chance: random.Random, base: str) -> None:
    """Let this process die before one of its next changes of what is below a folder, or inside user code."""
    if chance.random() < 0.3:
        TRAP.left, TRAP.springs = chance.randint(0, 40), _die
        return
    left = chance.choice([chance.randint(0, 60), chance.randint(0, 400)])

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event in _CHANGES and any(
            isinstance(each, str) and each.startswith(base) for each in arguments[:2]
        ):
            left -= 1
            if left < 0:
                _die()

    sys.addaudithook(hook)


def _forked(what: Callable[[], Any], said: Path) -> int:
    """The exit status of a child that does something; below 0 for a signal."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = what() or 0
        except BaseException:
            said.write_text(traceback.format_exc())
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_way(seed: int, of: Any, items: int) -> Way:
    """A way in which nothing fails but what is killed."""
    way = random_way(seed, of, items)
    return replace(way, failures=(), traps=(), moves=(), rescales=(), rewinds=(), local_recovery=False)


def run_killed(described: Described, way: Way, seed: int, base: str) -> str | None:
    """Run a program whose drivers are killed; what is wrong afterwards, or None."""
    os.makedirs(base)
    chance, said = random.Random(seed), Path(f"{base}/said")
    kills = chance.randint(1, 5)

    def drive(number: int) -> None:
        if number < kills:
            arm(chance, f"{base}/")
        job = _Job(f"{base}/log", way, traits(described))
        with _budgets(way), extensions(way, number):
            changelog = way.changelog[number % len(way.changelog)]
            job.run_driver(
                way.graph(described, number, f"{base}/out"),
                changelog=changelog,
                restore="latest",
            )

    for number in range(kills + 1):
        status = _forked(lambda number=number: drive(number), said)  # type: ignore[misc]
        chance.random()
        KILLED.append(status)
        if status not in (0, -signal.SIGKILL):
            return said.read_text()
        if status == 0 and number < kills:  # it lived: one more shows that nothing is left to do
            status = _forked(lambda: drive(kills), said)
            if status != 0:
                return said.read_text()
            break

    def look() -> int:
        try:
            model = Model(described, f"{base}/model")
        except ChangelogEngineError:
            return _SKIPPED
        shaped: Any = list if way.ordered else sorted
        compare("files", shaped(files_of(f"{base}/out")), shaped(files_of(f"{base}/model/out")))
        whole = "l" not in "".join(way.upkeep) and all(way.changelog)
        check_log(model, f"{base}/log", "after the kills", whole)
        return 0

    status = _forked(look, said)
    return None if status in (0, _SKIPPED) else f"{kills} kills: {said.read_text()}"


def main() -> None:
    """See the module."""
    folder, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    logging.disable(logging.CRITICAL)
    import_the_rest()
    failed = 0
    for seed in range(first, last):
        described = random_program(seed)
        way = killed_way(seed, traits(described), len(script(described)))
        base = f"{folder}/{seed}"
        said = run_killed(described, way, seed, base)
        if said is None or (
            any(name in said for name in ("JobExecutionError", "ArgumentTypeError"))
            and "Model" not in said
            and _fails_by_itself(described, base)
        ):
            shutil.rmtree(base)
        else:
            failed += 1
            print(f"program and way {seed}: {said}\n{described!r}\n{way!r}", flush=True)
    print(f"{last - first} programs, {KILLED.count(-signal.SIGKILL)} drivers killed, {failed} failed")
    sys.exit(bool(failed))


def _fails_by_itself(described: Described, base: str) -> bool:
    def alone() -> int:
        try:
            Model(described, f"{base}/alone")
        except ChangelogEngineError:
            return _SKIPPED
        return 0

    return _forked(alone, Path(f"{base}/said")) == _SKIPPED


if __name__ == "__main__":
    main()
