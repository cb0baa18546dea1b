"""Runs golden programs one after another in this process, on one Spark session or without Spark.

    python golden_child.py [--without-spark] FOLDER PROGRAM...

What program NAME prints goes to FOLDER/NAME.out, its error, if any, to FOLDER/NAME.err.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import traceback
import types
from pathlib import Path

from changelog_engine.in_process.capture import without_spark

WITHOUT_SPARK = "--without-spark"

_IMPORT = re.compile(r"^(\s*)(from|import)(\s+)pyflink(?=[.\s]|$)", re.MULTILINE)


def run(program: Path, folder: Path) -> None:
    """One program, as if it were the main module, with its output in a file."""
    text = _IMPORT.sub(r"\1\2\3api", program.read_text(encoding="utf-8"))
    module = types.ModuleType("__main__")
    module.__file__ = str(program)
    sys.modules["__main__"] = module  # so that functions are pickled by value, as those of a script are
    with open(folder / f"{program.stem}.out", "w", encoding="utf-8") as out:
        os.dup2(out.fileno(), 1)
        try:
            exec(compile(text, str(program), "exec"), module.__dict__)
        except BaseException:
            (folder / f"{program.stem}.err").write_text(traceback.format_exc(), encoding="utf-8")
        finally:
            sys.stdout.flush()


def main() -> None:
    """Runs all programs named on the command line."""
    arguments = sys.argv[1:]
    where: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
    if arguments[0] == WITHOUT_SPARK:
        del arguments[0]
        where = without_spark()
    folder, *names = map(Path, arguments)
    with where:
        for name in names:
            run(name, folder)


if __name__ == "__main__":
    main()
