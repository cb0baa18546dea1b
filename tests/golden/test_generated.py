"""Random pipelines on which PyFlink and this engine were found to agree, run again: generated/corpus.jsonl.

generated/with_pyflink.py makes more of them and asks PyFlink itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

GENERATED = Path(__file__).parent / "generated"


def test_gives_what_pyflink_gave(tmp_path: Path) -> None:
    expected = [
        json.loads(line) for line in (GENERATED / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    found = tmp_path / "found.jsonl"
    command = [sys.executable, "-m", "changelog_engine", "run", "--without-spark", "-q"]
    command += [str(GENERATED / "run.py"), str(GENERATED / "corpus.jsonl"), str(found), "--apart"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ)
    assert ended.returncode == 0, ended.stderr[-2000:]
    given = {each["id"]: each for each in map(json.loads, found.read_text(encoding="utf-8").splitlines())}
    assert len(given) == len(expected) > 20
    different = [
        (described, given[described["id"]])
        for described in expected
        if given[described["id"]].get("gives") != described["gives"]
    ]
    assert different == []
