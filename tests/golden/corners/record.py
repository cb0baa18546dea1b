"""Runs the corner programs and writes down what each of them gives.

    python record.py                       # with apache-flink==1.20.1 installed: expected/SUBJECT.json for each subject
    python record.py windows joins.late    # those of some subjects, or single programs; others stay as they are
    python record.py --check [...]         # writes nothing; says what differs from what lies there, or is missing
    python record.py --to FOLDER [...]     # writes there instead

A program is a public function of a module beside this file, of one argument, the environment. Its docstring says what
it is for. It gives a stream, whose elements are collected; or it executes the job itself and gives whatever is to be
compared, or nothing. What the job prints by ``print()`` is noted too. Where it raises, the names of the error's classes
are noted, and, for people only, what the error says.

Nothing of this project is imported, so that it runs wherever PyFlink does; the bin folder of PyFlink's environment must
be the first on the PATH. All programs take some 20 to 30 minutes there. What is not PyFlink of the version that wrote
expected/ neither writes nor checks there; with ``--to`` anything that is called pyflink may be run.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

HERE = Path(__file__).resolve().parent
sys.path[:0] = [] if str(HERE.parent) in sys.path else [str(HERE.parent)]

from pyflink_here import VERSION, check_version  # noqa: E402

EXPECTED = HERE / "expected"
_NO_PROGRAMS = {"__init__", "differences", "how", "record"}
_LIMIT_S = 120
_SAID = re.compile(r"^(?:Caused by: )?([\w.]*(?:Error|Exception|Interrupt)\b.*)$", re.MULTILINE)

Program = Callable[[Any], Any]
Outcome = dict[str, Any]


def subjects() -> list[str]:
    """The names of the modules with programs."""
    return sorted(path.stem for path in HERE.glob("*.py") if path.stem not in _NO_PROGRAMS)


def load(subject: str) -> ModuleType:
    """A module with programs."""
    module = importlib.import_module(f"corners.{subject}")
    cloudpickle.register_pickle_by_value(module)  # as a script's own functions are: workers need not find it
    return module


def programs_of(subject: str) -> dict[str, Program]:
    """The programs of a subject, by ``subject.name``, as they stand in the file."""
    module = load(subject)
    return {
        f"{subject}.{name}": value
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    }


def environment_for(program: Program) -> Any:
    """The environment that a program gets."""
    from pyflink.common import Configuration
    from pyflink.datastream import StreamExecutionEnvironment

    configuration = Configuration()
    configuration.set_string("execution.target", "local")  # Python workers are threads of this process
    configuration.set_string("restart-strategy.type", "none")
    configuration.set_string(
        "python.execution-mode", "thread" if hasattr(program, "in_threads") else "process"
    )
    for key, value in getattr(program, "settings", {}).items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    return env


def run(program: Program, printed: Callable[[], str]) -> Outcome:
    """What a program gives.

    Args:
        program: which.
        printed: what went to standard output since it was last asked.
    """
    printed()
    try:
        given = program(environment_for(program))
        if hasattr(given, "execute_and_collect"):
            with given.execute_and_collect() as results:
                given = list(results)
    except Exception as error:
        return {"raises": classes(error), "says": said(error)}
    lines = [] if given is None else [shown(value) for value in given]
    outcome: Outcome = {"gives": lines}
    if lines_printed := printed().splitlines():
        outcome["prints"] = lines_printed
    return (
        {key: sorted(lines) for key, lines in outcome.items()} if hasattr(program, "unordered") else outcome
    )


def classes(error: BaseException) -> list[str]:
    """What an ``except`` can name, nearest first."""
    names = [cls.__name__ for cls in type(error).__mro__]
    return names[: names.index("Exception") + 1]


def said(error: BaseException) -> str:
    """The innermost error within a message, on one line."""
    found = _SAID.findall(str(error))
    python = [line for line in found if "." not in line.split(":")[0]]
    line = (python or found or [str(error)])[-1]
    return re.sub(r"0x[0-9a-f]+|@[0-9a-f]{5,}", "...", line.strip())[:200]


def shown(value: Any) -> str:
    """A value as text that tells 1 from 1.0 and True, and is the same in whichever order a dict or set came."""
    kind = type(value).__name__
    if kind == "Row":
        fields = list(getattr(value, "_fields", ()) or ())
        values = [shown(each) for each in value]
        named = [f"{name}={text}" for name, text in zip(fields, values, strict=True)] if fields else values
        return f"{value.get_row_kind().name} Row({', '.join(named)})"
    if isinstance(value, dict):
        return "{" + ", ".join(sorted(f"{shown(key)}: {shown(item)}" for key, item in value.items())) + "}"
    if isinstance(value, set):
        return f"set({sorted(map(shown, value))})"
    if isinstance(value, list):
        return "[" + ", ".join(map(shown, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(shown, value)) + ")"
    if isinstance(value, (str, int, float, bool, bytes, type(None))) or kind in _PLAIN:
        return repr(value)
    return f"{kind} {value}"


_PLAIN = {"date", "datetime", "time", "Decimal"}


class _Captured:
    """Standard output of this process and its children, in a file from now on."""

    def __init__(self) -> None:
        self.own = os.fdopen(os.dup(1), "w")  # where it went until now
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # as long as this process
        os.dup2(self._file.fileno(), 1)
        self._read = 0

    def __call__(self) -> str:
        """What was printed since the last call."""
        sys.stdout.flush()
        text = os.pread(self._file.fileno(), 1 << 24, self._read)
        self._read += len(text)
        return text.decode()


def _too_long(signum: int, frame: Any) -> None:
    """Whatever PyFlink does then: its answers to what comes later can't be trusted."""
    print(f"the program behind those above did not end within {_LIMIT_S} s", file=sys.stderr, flush=True)
    os._exit(1)


def _chosen(wanted: list[str]) -> dict[str, dict[str, Program]]:
    chosen: dict[str, dict[str, Program]] = {}
    for subject in subjects():
        if not wanted or any(each.partition(".")[0] == subject for each in wanted):
            programs = programs_of(subject)
            if wanted and subject not in wanted:
                programs = {name: each for name, each in programs.items() if name in wanted}
            chosen[subject] = programs
    return chosen


def comparable(outcome: Outcome) -> Outcome:
    """An outcome without what is there for people only: an error's message."""
    return {key: value for key, value in outcome.items() if key != "says"}


def written_down(folder: Path) -> dict[str, dict[str, Outcome]]:
    """What lies in a folder, by subject."""
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))}


def main() -> None:
    """See the module."""
    arguments = argparse.ArgumentParser(description="Runs the corner programs.")
    arguments.add_argument("names", nargs="*", help="subjects, or subject.program")
    arguments.add_argument("--check", action="store_true", help="write nothing, compare")
    arguments.add_argument("--to", type=Path, default=EXPECTED, help="folder to write to")
    given = arguments.parse_args()
    folder = given.to.resolve()
    version = folder / "VERSION"
    if folder == EXPECTED:
        check_version()
        recorded = version.read_text(encoding="utf-8").strip() if version.exists() else "nothing"
        if recorded != VERSION and (given.check or given.names):
            sys.exit(f"{EXPECTED} was written by PyFlink {recorded}, not {VERSION}: record all programs anew")
    folder.mkdir(parents=True, exist_ok=True)
    before_all = written_down(folder)
    printed = _Captured()
    signal.signal(signal.SIGALRM, _too_long)
    os.chdir(tempfile.mkdtemp(prefix="corners-"))
    different = 0
    for subject, programs in _chosen(given.names).items():
        file = folder / f"{subject}.json"
        before = before_all.pop(subject, {})
        found: dict[str, Outcome] = {}
        for name, program in programs.items():
            signal.alarm(_LIMIT_S)
            found[name] = run(program, printed)
            signal.alarm(0)
            same = name in before and comparable(before[name]) == comparable(found[name])
            different += not same
            print(
                f"{' ' if same else '*'} {name} {json.dumps(found[name])[:300]}", file=printed.own, flush=True
            )
            if not given.check:
                if folder == EXPECTED:
                    version.write_text(f"{VERSION}\n", encoding="utf-8")
                everything = {**before, **found}
                kept = {name: everything[name] for name in programs_of(subject) if name in everything}
                file.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        gone = [] if given.names else sorted(before.keys() - programs.keys())
        for name in gone:
            print(f"* {name} was written down, and there is no such program", file=printed.own, flush=True)
        different += len(gone)
    for subject in [] if given.names else before_all:
        different += 1
        print(f"* {subject} was written down, and there is no such subject", file=printed.own, flush=True)
    print(f"{different} differ from what was written down", file=printed.own, flush=True)
    sys.exit(1 if given.check and different else 0)


if __name__ == "__main__":
    main()
