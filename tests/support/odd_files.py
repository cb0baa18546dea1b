"""A job's folder with every kind of file, what may happen to a file, and everybody who reads one."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from api.common.typeinfo import Types
from changelog_engine.changelog import row_files
from changelog_engine.cli import main
from changelog_engine.errors import ChangelogEngineError, StorageError
from changelog_engine.graph.descriptions import keyed_operators
from changelog_engine.ledger import suffix
from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.ledger import Ledger
from changelog_engine.ledger.protection import protect
from changelog_engine.savepoints.folder import open_savepoint
from changelog_engine.savepoints.writer import create_savepoint
from changelog_engine.ui.report import make_report
from materializer.fold import state_at
from materializer.materialize import materialize
from materializer.retention import Retention
from materializer.truncation import truncate
from support.functions import Count
from support.graphs import keyed_job
from support.jobs import TestJob
from support.materialized import ELEMENTS, merging_few
from support.readers import JOB, folded, forked, pictured_state, restored, selected
from support.script import DriverKilled, Failure, Fault, Script

GROUPS = 16


def graph() -> Any:
    """The job that lived in the folder."""
    return keyed_job(ELEMENTS, Count(), key_type=Types.LONG(), parallelism=2, max_parallelism=GROUPS)


def life(base: Path) -> str:
    """A job with branches, snapshots, merged files, a Delta checkpoint, notes, a protection; and a savepoint's folder."""
    for run, restore in enumerate(["latest", "latest", "4", "latest"]):
        job = TestJob(base, Script(sizes=(2,), failures=(Failure(4, Fault.HANDED_OUT),)))
        with pytest.raises(DriverKilled):
            job.run_driver(graph(), restore=restore)
        folder = find_job_folder(str(base), JOB)
        if run in (0, 1):
            materialize(folder)
        if run == 1:
            with merging_few(2):
                truncate(folder, Retention(3_600_000, 2, 3_600_000))
            folder.open_changelog().maintain(every=3)
    newest = Ledger(folder.open_changelog()).lineage.newest_checkpoint()
    assert newest is not None
    protect(folder, newest.id, None, "test")
    return create_savepoint(folder, newest, str(base / "savepoints")).path


def forget() -> None:
    """Forget what processes remember of files that names stand for."""
    row_files._INDEXES.clear()
    row_files._TIMES.clear()
    suffix._COUNTS.clear()


def kinds(base: Path) -> dict[str, list[Path]]:
    """All files by kind, each kind's by name."""
    found: dict[str, list[Path]] = {}
    for path in sorted(base.rglob("*")):
        if path.is_file():
            name = re.sub(r"^\d{20}", "N", path.name)
            name = re.sub(r"^(_?[a-z-]*?)-\d[0-9a-z._-]*?(\.[a-z]+)?$", r"\1\2", name)
            at = path.relative_to(base).parts
            found.setdefault("/".join([at[0], *at[2 if at[0] == "savepoints" else 1 : -1], name]), []).append(
                path
            )
    return found


# --- what may happen to a file: given the others of its kind -------------------------------------------------------------


def _rewritten(change: Callable[[bytes], bytes]) -> Callable[[Path, list[Path]], None]:
    return lambda path, others: void(path.write_bytes(change(path.read_bytes())))


def void(_: object) -> None:
    """Nothing."""


def _middle(data: bytes) -> bytes:
    place = len(data) // 2
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :] if data else data


def _without_its_end(data: bytes) -> bytes:
    """As a power cut leaves a file whose length was written before its last blocks."""
    kept = len(data) * 3 // 4
    return data[:kept] + bytes(len(data) - kept)


def _is_swapped(path: Path, others: list[Path]) -> None:
    if others:
        mine, theirs = path.read_bytes(), others[-1].read_bytes()
        path.write_bytes(theirs)
        others[-1].write_bytes(mine)


def _becomes_folder(path: Path, others: list[Path]) -> None:
    path.unlink()
    path.mkdir()


def _becomes_link(path: Path, others: list[Path]) -> None:
    beside = path.with_name(f".tmp-{path.name}")
    path.rename(beside)
    path.symlink_to(beside)


def _becomes_another(path: Path, others: list[Path]) -> None:
    if others:
        path.write_bytes(others[0].read_bytes())


def _has_a_twin(path: Path, others: list[Path]) -> None:
    name = re.sub(r"\d+", lambda found: str(int(found[0]) + 1).zfill(len(found[0])), path.name, count=1)
    twin = path.with_name(name if name != path.name else f"{path.stem}-2{path.suffix}")
    if not twin.exists():
        twin.write_bytes(path.read_bytes())


DAMAGES: dict[str, Callable[[Path, list[Path]], None]] = {
    "deleted": lambda path, others: path.unlink(),
    "emptied": _rewritten(lambda data: b""),
    "halved": _rewritten(lambda data: data[: len(data) // 2]),
    "flipped in the middle": _rewritten(_middle),
    "zeros at its end": _rewritten(_without_its_end),
    "more at its end": _rewritten(lambda data: data + bytes(4096)),
    "another's": _becomes_another,
    "swapped with another": _is_swapped,
    "a folder": _becomes_folder,
    "a link": _becomes_link,
    "twice": _has_a_twin,
}


# --- who reads -----------------------------------------------------------------------------------------------------------


def of_savepoint(path: str) -> Any:
    """What a savepoint holds, which is verified."""
    opened = open_savepoint(path)
    opened.verify()
    return opened.checkpoint, pictured_state(state_at(f"{path}/changelog", allow_pickle=True))


def on_console(*arguments: str) -> str:
    """What a command says.

    Raises:
        StorageError: it ended with an error or with exit status 1, which it said.
    """
    result = CliRunner().invoke(main, list(arguments))
    if result.exit_code:
        assert isinstance(result.exception, SystemExit), (arguments, result.exception)
        raise StorageError(result.stderr + result.output)
    return result.stdout


def in_a_copy(base: str, do: Callable[[str], Any]) -> Any:
    """What something gives that changes a job, which is done in a copy."""
    copy = Path(f"{base}-on")
    shutil.copytree(f"{base}/{JOB}", copy / JOB, symlinks=True)
    try:
        return do(str(copy))
    except ChangelogEngineError as error:
        raise StorageError(f"{error} {error.__cause__}".replace(str(copy), base)) from error
    finally:
        shutil.rmtree(copy)


def _went_on(base: str) -> Any:
    """What the job gives and holds when it goes on."""
    job = TestJob(base, Script(sizes=(100,)))
    job.run_driver(graph())
    return sorted(job.output), folded(base, None)


def _materialized(base: str) -> Any:
    """The newest state and an old one, behind a snapshot and a truncation."""
    folder = find_job_folder(base, JOB)
    materialize(folder)
    truncate(folder, Retention(3_600_000, 3, 3_600_000))
    return folded(base, None), folded(base, 5)


def _corrected(base: str) -> Any:
    """The state of a fork in which a count was corrected."""
    newest = Ledger(find_job_folder(base, JOB).open_changelog()).lineage.newest_checkpoint()
    assert newest is not None
    [operator] = keyed_operators(newest.operators)
    told = ("--set", "1", "77", "--who", "a test", "--why", "none")
    on_console(
        "correct", f"{base}/{JOB}", f"{base}/new", "--operator", operator.uid, "--state", "count", *told
    )
    return pictured_state(state_at(f"{base}/new/changelog", allow_pickle=True))


def _reported(base: str) -> Any:
    """A report's states and checkpoints; that it was made is not enough."""
    made = make_report(f"{base}/{JOB}")
    if made.faults:
        raise StorageError("; ".join(made.faults))
    state, _, rest = made.html.partition('id="moment"')[2].partition("</section>")
    assert rest
    return made.checkpoint, state


def readers_of(base: str, savepoint: str) -> dict[str, Callable[[], Any]]:
    """Each reader, by name."""
    lineage = Ledger(find_job_folder(base, JOB).open_changelog()).lineage
    ids = lineage.checkpoints.ids()
    middle = ids[len(ids) // 2]
    job = f"{base}/{JOB}"
    return {
        "restore": lambda: restored(base, "auto", GROUPS),
        "restore the middle": lambda: restored(base, str(middle), GROUPS, 1),
        "fold": lambda: folded(base, None),
        "fold the first": lambda: folded(base, ids[0]),
        "history": lambda: selected(base, None),
        "fork": lambda: forked(base, middle),
        "go on": lambda: in_a_copy(base, _went_on),
        "materialize": lambda: in_a_copy(base, _materialized),
        "correct": lambda: in_a_copy(base, _corrected),
        "report": lambda: _reported(base),
        "state": lambda: on_console("state", job, "--state", "count", "--at", str(middle), "--json"),
        "diff": lambda: on_console("diff", job, str(ids[1]), str(ids[-1]), "--json"),
        "status": lambda: on_console("status", job),
        "mutations": lambda: on_console("sql", job, "SELECT * FROM mutations ORDER BY ALL", "--json"),
        "from savepoint": lambda: of_savepoint(savepoint),
        "key": lambda: on_console("history", job, "--key", "1", "--json"),
        "checkpoints": lambda: on_console("checkpoints", job),
    }


def outcome(reader: Callable[[], Any], truth: Any, path: Path) -> str:
    """``right``, ``named`` (an error that names the file or its folder), or what is wrong."""
    forget()
    try:
        found = reader()
    except ChangelogEngineError as error:
        said = "".join(str(error).split())
        savepoint = [each for each in path.parents if each.name.startswith("savepoint-")]
        if any("".join(str(each).split()) in said for each in (path.name, path.parent, *savepoint)):
            return "named"
        return f"an error without the file: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "right" if found == truth else f"ANOTHER RESULT: {found!r}"[:2000]


def put_back(path: Path, copy: Path) -> None:
    """Make the folder of a file what it was in a copy."""
    shutil.rmtree(path.parent)
    shutil.copytree(copy.parent, path.parent, symlinks=True)
