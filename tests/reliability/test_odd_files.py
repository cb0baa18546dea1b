"""Reliability cases 29, 30 and 65: every kind of file that a job has, damaged in every way, and whoever reads it.

What a reader gives is right, or an error that names the file or its folder.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from support.odd_files import DAMAGES, kinds, life, outcome, put_back, readers_of

# A table without its newest commit is a table with one commit less: nothing in it tells that there was one more.
UNSEEN = {("job/changelog/_delta_log/N.json", "deleted"), ("job/snapshots/_delta_log/N.json", "deleted")}


def test_cases_29_30_65_no_odd_file_changes_a_result_in_silence(tmp_path: Path) -> None:
    base, copy = tmp_path / "base", tmp_path / "copy"
    readers = readers_of(str(base), life(base))
    shutil.copytree(base, copy, symlinks=True)
    truth = {name: reader() for name, reader in readers.items()}
    wrong, found, turn = [], [], 0
    for kind, files in kinds(base).items():
        path, others = files[-1], files[-2::-1]
        for damage, happens in DAMAGES.items():
            # Files of savepoints are read by one reader only; of those of the job another one has its turn each time.
            names = (
                ["from savepoint"] if kind.startswith("savepoints") else [*readers][turn % len(readers) :][:1]
            )
            turn += 1
            happens(path, others)
            for name in names:
                said = outcome(readers[name], truth[name], path)
                found.append(said)
                if said not in ("right", "named") and (kind, damage) not in UNSEEN:
                    wrong.append(f"{kind} {damage}, {name}: {said}")
            put_back(path, copy / path.relative_to(base))
    assert not wrong, "\n".join(wrong)
    assert min(found.count("right"), found.count("named")) > len(found) // 5
