"""Runs the golden programs by PyFlink and writes down, or compares, what they print.

    python record.py --check               # with apache-flink==1.20.1: says which programs print something else now
    python record.py --check 101 145_timer # those whose names begin so
    python record.py 174                   # writes NAME.expected, for those named only; PyFlink must print the same twice

The bin folder of PyFlink's environment must be the first on the PATH. Nothing of this project is imported. All programs take
some 20 minutes. A line that its program names as "Expected by hand: '...'" may differ.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from pyflink_here import check_version

HERE = Path(__file__).resolve().parent
_PREFIX = re.compile(r"^(?:(?P<id>[^\s:>]+):)?\d+> ")  # of print(): the subtask
_BY_HAND = re.compile(r"Expected by hand: '([^']*)'")
_LIMIT_S = 300


def lines_of(text: str, ordered: bool) -> list[str]:
    """What a program printed, without subtask numbers and empty lines."""
    lines = []
    for raw in text.splitlines():
        line = _PREFIX.sub(lambda m: f"{m['id']}> " if m["id"] else "", raw).rstrip()
        if line:
            lines.append(line)
    return lines if ordered else sorted(lines)


def differences(expected: list[str], printed: list[str], program: str) -> list[str]:
    """Lines of one and not of the other, but for those that were put right by hand; "order" when only that differs."""
    less, more = Counter(expected) - Counter(printed), Counter(printed) - Counter(expected)
    by_hand = Counter(_BY_HAND.findall(program)) & less
    if less == by_hand and more.total() == by_hand.total():
        return [] if by_hand or expected == printed else ["the order"]
    return [f"- {line}" for line in less.elements()] + [f"+ {line}" for line in more.elements()]


def printed_by(program: Path) -> str:
    """What PyFlink prints for a program.

    Raises:
        CalledProcessError, TimeoutExpired: it fails, or does not end.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, TZ="UTC", TMPDIR=folder)
        ended = subprocess.run(
            [sys.executable, str(program)],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=True,
        )
    return ended.stdout


def main() -> None:
    """See the module."""
    arguments = argparse.ArgumentParser(description="Runs the golden programs by PyFlink.")
    arguments.add_argument("names", nargs="*", help="how the names of programs begin")
    arguments.add_argument("--check", action="store_true", help="write nothing, compare")
    given = arguments.parse_args()
    if not given.check and not given.names:
        arguments.error("name the programs that are to be recorded")
    check_version()
    different = []
    for path in sorted(HERE.glob("[0-9]*.py")):
        if given.names and not path.stem.startswith(tuple(given.names)):
            continue
        text, expected = path.read_text(encoding="utf-8"), path.with_suffix(".expected")
        ordered = text.startswith("# ordered")
        try:
            printed = printed_by(path)
            before = expected.read_text(encoding="utf-8") if given.check else printed_by(path)
        except (subprocess.SubprocessError, OSError) as error:
            found = [str(error), (getattr(error, "stderr", None) or "")[-2_000:]]
        else:
            program = text if given.check else ""
            found = differences(lines_of(before, ordered), lines_of(printed, ordered), program)
            if not given.check and not found:
                expected.write_text(printed, encoding="utf-8")
        print("*" if found else " ", path.stem, *found, sep="\n  " if found else " ", flush=True)
        different += [path.stem] * bool(found)
    print(f"{len(different)} differ: {', '.join(different)}" if different else "none differs")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
