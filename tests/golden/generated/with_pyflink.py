"""Makes random pipelines, runs them by PyFlink and here, and says where the two give something else.

    python with_pyflink.py --pyflink ENVIRONMENT/bin/python --seeds 1 9     # 36 pipelines for each seed, about a minute each

JAVA_HOME must be a Java that its version of PyFlink runs on. Exit status 1: something differs. ``--keep FILE`` appends the
pipelines on which both agree, with what they give, in the form of corpus.jsonl.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from generate import MODES, group

HERE = Path(__file__).resolve().parent
_PACE_S = 0.35
_LIMIT_S = 900


def _run(
    command: list[str], described: list[dict[str, Any]], environment: dict[str, str], *more: str
) -> dict[int, Any]:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.jsonl", Path(folder) / "out.jsonl"
        source.write_text("".join(json.dumps(each) + "\n" for each in described), encoding="utf-8")
        command = [*command, str(HERE / "run.py"), str(source), str(target), *more]
        subprocess.run(command, env=os.environ | environment, timeout=_LIMIT_S, check=True)
        return {each["id"]: each for each in map(json.loads, target.read_text(encoding="utf-8").splitlines())}


def by_pyflink(python: Path, described: list[dict[str, Any]]) -> dict[int, Any]:
    """What PyFlink gives for pipelines, by id."""
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"  # its workers are found by the PATH
    return _run([str(python)], described, {"PATH": path, "PACE_S": str(_PACE_S)})


def by_this_engine(described: list[dict[str, Any]]) -> dict[int, Any]:
    """What this engine gives for them."""
    return _run(
        [sys.executable, "-m", "changelog_engine", "run", "--without-spark", "-q"], described, {}, "--apart"
    )


def verdict(pyflink: dict[str, Any], here: dict[str, Any]) -> str:
    """How two outcomes compare: "same"; "order", where keys have none; "different"."""
    if "raises" in pyflink or "raises" in here:
        return "same" if "raises" in pyflink and "raises" in here else "different"
    if pyflink["gives"] == here["gives"]:
        return "same"
    return "order" if sorted(pyflink["gives"]) == sorted(here["gives"]) else "different"


def _explained(described: dict[str, Any], pyflink: dict[str, Any], here: dict[str, Any]) -> list[str]:
    lines = [json.dumps(described, ensure_ascii=False)]
    lines += [
        f"  {name} raises {each['raises']}"
        for name, each in (("PyFlink", pyflink), ("here", here))
        if "raises" in each
    ]
    if len(lines) == 1:
        found = difflib.unified_diff(pyflink["gives"], here["gives"], "PyFlink", "here", n=0, lineterm="")
        lines += [f"  {line}" for line in found]
    return lines


def main() -> None:
    """See the module."""
    arguments = argparse.ArgumentParser(description="Compares random pipelines with PyFlink.")
    arguments.add_argument("--pyflink", type=Path, required=True, help="PyFlink's Python")
    arguments.add_argument(
        "--seeds", type=int, nargs=2, default=(1, 9), help="the first, and the one behind the last"
    )
    arguments.add_argument("--size", type=int, default=36, help="pipelines of each seed, which are one job")
    arguments.add_argument("--keep", type=Path, help="where those that agree are appended")
    given = arguments.parse_args()
    counted: Counter[str] = Counter()
    for seed in range(*given.seeds):
        described = group(seed, MODES[seed % len(MODES)], given.size)
        pyflink, here = by_pyflink(given.pyflink, described), by_this_engine(described)
        for each in described:
            found = verdict(pyflink[each["id"]], here[each["id"]])
            counted[found] += 1
            if found == "different":
                print(*_explained(each, pyflink[each["id"]], here[each["id"]]), sep="\n", flush=True)
            elif found == "same" and given.keep and pyflink[each["id"]].get("gives"):
                with given.keep.open("a", encoding="utf-8") as file:
                    print(
                        json.dumps(each | {"gives": pyflink[each["id"]]["gives"]}, ensure_ascii=False),
                        file=file,
                    )
    print(", ".join(f"{count} {what}" for what, count in sorted(counted.items())))
    sys.exit(bool(counted["different"]))


if __name__ == "__main__":
    main()
