"""Reliability case 65: folders that may not be written, and what strangers put into them.

Whatever a job's folder holds, nothing outside of it is read as the job's, changed or deleted, nothing is unpickled by those
who promise so, and a refusal says which path it is about.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from support.functions import Count, Keep
from support.graphs import keyed_job
from support.jobs import TestJob
from support.materialized import AT_ONCE
from support.script import DriverKilled, Failure, Fault, Script
from support.unprivileged import nobodys_copy, read_only

from changelog_engine.cli import main
from changelog_engine.errors import ChangelogEngineError, ForeignPathError, JobExecutionError, StorageError
from changelog_engine.history.tables import Tables
from changelog_engine.ledger.job_folder import JobFolder, find_job_folder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.protection import protected_checkpoints
from changelog_engine.savepoints.folder import dispose_savepoint, list_savepoints
from changelog_engine.savepoints.forks import fork_job
from changelog_engine.savepoints.writer import create_savepoint
from changelog_engine.storage.opening import open_storage
from changelog_engine.verification.verify import verify
from materializer.fold import state_at
from materializer.materialize import materialize
from materializer.truncation import truncate

pytestmark = pytest.mark.slow

ELEMENTS = [(number % 3, number) for number in range(20)]
COUNTS = {0: 7, 1: 7, 2: 6}


def _graph(function: Any = None) -> Any:
    return keyed_job(ELEMENTS, Count() if function is None else function)


def _killed(base: Path, function: Any = None) -> JobFolder:
    """The folder of a job that has checkpoints, a snapshot, files that no table lists, and more to do."""
    job = TestJob(base, Script(sizes=(4,), failures=(Failure(4, Fault.HANDED_OUT),)))
    with pytest.raises(DriverKilled):
        job.run_driver(_graph(function))
    folder = find_job_folder(str(base), "job")
    materialize(folder, 2)
    return folder


@functools.cache
def _template(above: Path) -> Path:
    return Path(_killed(above / "template").storage.root)


@pytest.fixture
def job(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job's folder of one's own, ``base/job`` below the test's folder."""
    template = _template(tmp_path_factory.getbasetemp())
    return Path(shutil.copytree(template, tmp_path / "base" / "job"))


def _go_on(path: Path) -> None:
    TestJob(path.parent, Script(sizes=(4,))).run_driver(_graph())


def _command(*arguments: object) -> None:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    if result.exit_code:
        assert isinstance(result.exception, SystemExit), result.exception
        named = "WRONG" in result.output or "can't be read: " in result.output
        assert result.stderr.startswith("Error: ") or named, result.output
        raise StorageError(result.stderr or result.output)


def _folder(path: Path) -> JobFolder:
    return JobFolder("job", "job", open_storage(str(path)))


def _fork(path: Path) -> None:
    folder = _folder(path)
    checkpoint = Lineage(folder.open_changelog()).newest_checkpoint()
    assert checkpoint is not None
    fork_job(folder, checkpoint, str(path.parent / "forked"))


def _save(path: Path) -> None:
    folder = _folder(path)
    checkpoint = Lineage(folder.open_changelog()).newest_checkpoint()
    assert checkpoint is not None
    create_savepoint(folder, checkpoint, str(path.parent / "savepoints"))


def _verify(path: Path) -> None:
    faults = verify(_folder(path)).faults
    if faults:
        raise StorageError(str(faults))


READERS: dict[str, Callable[[Path], Any]] = {
    "state_at": lambda path: state_at(str(path / "changelog")),
    "verify": _verify,
    "console state": lambda path: _command("state", path, "--operator", "process"),
    "console checkpoints": lambda path: _command("checkpoints", path),
    "console verify": lambda path: _command("verify", path),
    "history": lambda path: Tables(str(path)),
}
WRITERS: dict[str, Callable[[Path], Any]] = {
    "materialize": lambda path: materialize(_folder(path)),
    "truncate": lambda path: truncate(_folder(path), AT_ONCE),
    "fork": _fork,
    "savepoint": _save,
}
ALL = READERS | WRITERS | {"the job": _go_on}


def _refusal(use: Callable[[Path], Any], path: Path) -> str:
    """What the error says; nothing when there is none."""
    try:
        use(path)
    except (ChangelogEngineError, JobExecutionError) as error:
        return str(error)
    return ""


def _add(table: Path, *actions: dict[str, Any]) -> None:
    """A commit of a stranger's."""
    newest = max(int(name.name.removesuffix(".json")) for name in (table / "_delta_log").glob("*.json"))
    (table / "_delta_log" / f"{newest + 1:020d}.json").write_text("\n".join(map(json.dumps, actions)))


def _add_action(path: str, **more: Any) -> dict[str, Any]:
    given = {"partitionValues": {}, "size": 1_000, "modificationTime": 1, "dataChange": True, **more}
    return {"add": {"path": path, "stats": json.dumps({"numRecords": 1}), **given}}


def _seen(folder: Path) -> dict[str, Any]:
    """Names, bytes and times of everything below a folder."""
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
        for path in sorted(folder.rglob("*"))
    }


PATHS = (
    "{outside}",
    "file://{outside}",
    "../../outside/part-3-1-0-0-1-00000000.parquet",
    "%2e%2e/%2e%2e/outside/part-3-1-0-0-1-00000000.parquet",
    "..%2f..%2foutside%2fpart-3-1-0-0-1-00000000.parquet",
    "s3://bucket/part-3-1-0-0-1-00000000.parquet",
    "below/part-3-1-0-0-1-00000000.parquet",
    "",
)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("table", ["changelog", "snapshots"])
def test_case_65_a_list_that_names_files_elsewhere_is_refused(job: Path, table: str, path: str) -> None:
    outside = job.parents[1] / "outside"
    outside.mkdir()
    victim = outside / "part-3-1-0-0-1-00000000.parquet"
    part = next((job / "changelog").glob("part-*.parquet"))
    for copy in (victim, job / table / "below" / victim.name):
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(part, copy)
    _add(job / table, _add_action(path.format(outside=victim)))
    before = _seen(outside), _seen(job / table / "below")
    for name, use in ALL.items():
        if name == "console checkpoints" and table == "snapshots":
            continue  # it looks at the changelog alone
        with pytest.raises((ChangelogEngineError, JobExecutionError)) as refused:
            use(job)
        assert str(job / table) in str(refused.value), name
        assert "somebody else wrote that" in str(refused.value), (name, str(refused.value))
    assert (_seen(outside), _seen(job / table / "below")) == before


@pytest.mark.parametrize("kind", ["deletion vectors", "column mapping", "partitions"])
def test_case_65_a_table_whose_files_do_not_say_all_is_refused(job: Path, kind: str) -> None:
    """Rows that Spark has deleted by a deletion vector would be there again for whoever reads the files alone."""
    table = job / "changelog"
    first = [json.loads(line) for line in (table / "_delta_log" / f"{0:020d}.json").read_text().splitlines()]
    metadata = next(action for action in first if "metaData" in action)
    added = next(a["add"] for a in _actions(table) if "add" in a and a["add"]["path"].startswith("part-"))
    if kind == "deletion vectors":
        vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4}
        vector |= {"sizeInBytes": 40, "cardinality": 1}
        features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
        protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
        _add(table, protocol, {"add": {**added, "deletionVector": vector}})
    elif kind == "column mapping":
        _add(table, {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}})
    else:
        metadata["metaData"]["partitionColumns"] = ["operator"]
        _add(table, metadata, _add_action("part.parquet", partitionValues={"operator": "process"}))
    for name, use in ALL.items():
        with pytest.raises((ChangelogEngineError, JobExecutionError)) as refused:
            use(job)
        assert "somebody else changed it" in str(refused.value), name


def test_case_65_a_truncation_keeps_the_checkpoints_that_an_optimize_moved(job: Path) -> None:
    """OPTIMIZE puts rows of checkpoints and mutations into one file; a snapshot may stand for the mutations alone."""
    DeltaTable(str(job / "changelog")).optimize.compact()
    before = state_at(str(job / "changelog"))
    materialize(_folder(job))
    truncate(_folder(job), AT_ONCE)
    assert state_at(str(job / "changelog")).checkpoint == before.checkpoint
    done = TestJob(job.parent, Script(sizes=(4,)))
    done.run_driver(_graph())
    assert dict(done.output) == COUNTS


def _actions(table: Path) -> Iterator[dict[str, Any]]:
    for path in sorted((table / "_delta_log").glob("*.json")):
        yield from map(json.loads, path.read_text().splitlines())


LINKS = {  # pattern in the job's folder -> who may go on, because it does not look there
    "changelog": ("state_at",),  # it is given that very folder
    "changelog/_delta_log": (),
    "changelog/_delta_log/*2.json": (),
    "changelog/_delta_log/*9.checkpoint.parquet": (),
    "changelog/part-3-*": ("console checkpoints", "truncate"),
    "changelog/checkpoint-4-*": ("console checkpoints",),
    "snapshots": ("console checkpoints",),
    "snapshots/_delta_log": ("console checkpoints",),
    "snapshots/part-2-*": ("console checkpoints", "truncate"),
    "driver.lock": (*READERS, *WRITERS),
    "protected": (*READERS, "materialize"),
    "snapshots/_materializer.lock": (*READERS, "fork", "savepoint", "the job"),
}


@pytest.mark.parametrize("pattern", LINKS)
@pytest.mark.parametrize("pipe", [False, True], ids=["link", "pipe"])
def test_case_65_links_and_pipes_are_not_followed(job: Path, pattern: str, pipe: bool) -> None:
    """What a link stands for is exactly what was there: whoever followed it would notice nothing."""
    outside = job.parents[1] / "outside"
    outside.mkdir()
    path = next(job.glob(pattern), job / pattern.replace("*", "0000000000000000000"))
    there = path.exists()
    if there:
        shutil.move(path, outside / path.name)
    elif "." in path.name:
        (outside / path.name).write_text("somebody else's\n")
    else:
        (outside / path.name).mkdir()
        (outside / path.name / "file").write_text("somebody else's\n")
    if pipe:
        os.mkfifo(path)
    else:
        path.symlink_to(outside / path.name)
    before = _seen(outside)
    for name, use in ALL.items():
        copied = Path(shutil.copytree(job, job.parents[1] / name / "job", symlinks=True, copy_function=_copy))
        refusal = _refusal(use, copied)
        assert path.name in refusal or (not refusal and name in LINKS[pattern]), (name, refusal)
    assert _seen(outside) == before


def _copy(source: str, target: str) -> None:
    if Path(source).is_fifo():
        os.mkfifo(target)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def test_case_65_a_sweep_deletes_nothing_outside(job: Path) -> None:
    """Links with names that a sweep deletes, and notes that ask for it."""
    outside = job.parents[1] / "outside"
    outside.mkdir()
    victim = outside / "part-1-1-0-0-9-00000000.parquet"
    victim.write_text("somebody else's")
    table = job / "changelog"
    (table / victim.name).symlink_to(victim)
    (table / "merged-1-2-00000000.parquet").symlink_to(outside)
    shutil.copy(victim, table / "mine.parquet")
    notes = dict.fromkeys(
        (str(victim), f"../../../outside/{victim.name}", victim.name, "mine.parquet", "../driver.lock"), 0
    )
    notes |= {"_delta_log": 0, "": 0, ".": 0, "..": 0}
    for folder in (table, job / "snapshots"):
        (folder / "_unlisted.json").write_text(json.dumps(notes))
    for _ in range(2):
        truncate(_folder(job), AT_ONCE)
    assert victim.read_text() == "somebody else's"
    assert (table / victim.name).is_symlink()
    assert (table / "mine.parquet").exists()
    assert (job / "driver.lock").exists()
    _go_on(job)
    assert state_at(str(table)).states["process", "count"] == COUNTS


DOCUMENTS = (b"", b"[]", b"null", b"[" * 100_000, b"\xff\xfe")
PIDS = (b'{"host": "HOST", "pid": 99999999999999999999}', b'{"host": "HOST", "pid": -1, "snapshot": "x"}')
TIMES = (
    b'{"host": "elsewhere", "pid": 1, "time": Infinity, "signed_ms": 1e300}',
    b'{"host": "elsewhere", "pid": 1, "time": 1%s, "signed_ms": 1%s}' % (b"0" * 400, b"0" * 400),
)


@pytest.mark.parametrize(
    "document", [*DOCUMENTS, *PIDS, *TIMES], ids=lambda document: document[:20].decode(errors="replace")
)
def test_case_65_notes_of_strangers_stop_nothing(job: Path, document: bytes) -> None:
    """What stands in the small files beside the tables is a hint."""
    document = document.replace(b"HOST", os.uname().nodename.encode())
    (job / "protected").mkdir(exist_ok=True)
    (job / "protected" / f"2-{'0' * 32}.json").write_bytes(document)
    (job / "changelog" / "_retention.json").write_bytes(document)
    for table in ("changelog", "snapshots"):
        (job / table / "_unlisted.json").write_bytes(document)
    (job / "driver.lock").write_bytes(document)
    (job.parent / ".tmp-fork-a.json").write_bytes(document)
    (job.parent / ".tmp-fork-a").mkdir()
    for command in (("jobs", job.parent), ("status", job), ("fork", job, job.parent / "other")):
        _command(*command)
    assert protected_checkpoints(_folder(job)) <= {2}
    truncate(_folder(job), AT_ONCE)
    _go_on(job)
    assert state_at(str(job / "changelog")).states["process", "count"] == COUNTS


class Bomb:
    """A value that makes a folder when it is loaded."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return _explode, (self.path,)


def _explode(path: str) -> Bomb:
    Path(path).mkdir(exist_ok=True)
    return Bomb(path)


class Key(Bomb):
    """The same as a key."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bomb)

    def __hash__(self) -> int:
        return 1


@pytest.mark.parametrize("place", ["values", "keys"])
def test_case_65_nothing_is_unpickled(tmp_path: Path, place: str) -> None:
    """By all that work on a folder without running its job; state_at shows the rest and says why not this."""
    crater = tmp_path / "crater"
    key, value = (Key(str(crater)), 1) if place == "keys" else (1, Bomb(str(crater)))
    elements = [(key, value)] * 6
    job = TestJob(tmp_path / "base", Script(sizes=(2,)))
    job.run(keyed_job(elements, Keep()))
    with contextlib.suppress(FileNotFoundError):
        crater.rmdir()
    path = tmp_path / "base" / "job"
    for name, use in (READERS | WRITERS).items():
        use(path)
        assert not crater.exists(), name
    (saved,) = (tmp_path / "base" / "savepoints").iterdir()
    list_savepoints(str(saved.parent))
    _command("verify", saved)
    _command("state", saved, "--operator", "process")
    _command("verify", tmp_path / "base" / "forked")
    with pytest.raises(ChangelogEngineError, match="allow_pickle"):
        state_at(str(path / "changelog")).states["process", "kept"]
    dispose_savepoint(str(saved))
    assert not crater.exists()


@pytest.mark.parametrize("inside", ["changelog", "snapshots", "changelog/_delta_log"])
def test_case_65_a_savepoint_that_points_elsewhere(job: Path, inside: str) -> None:
    _save(job)
    (saved,) = (job.parent / "savepoints").iterdir()
    outside = job.parents[1] / "outside"
    shutil.move(saved / inside, outside)
    (saved / inside).symlink_to(outside)
    before = _seen(outside)
    with pytest.raises((ChangelogEngineError, JobExecutionError), match="symbolic link"):
        TestJob(job.parents[1] / "new", restore=str(saved)).run_driver(_graph())
    with pytest.raises(ChangelogEngineError, match="symbolic link"):
        _command("verify", saved)
    ((_, listed),) = list_savepoints(str(saved.parent))
    assert isinstance(listed, ForeignPathError)
    if inside != "changelog/_delta_log":
        with pytest.raises(ChangelogEngineError, match="symbolic link"):
            dispose_savepoint(str(saved))
    else:
        dispose_savepoint(str(saved))  # the link goes, and what it stands for stays
    assert _seen(outside) == before


def test_case_65_a_folder_that_is_read_only(job: Path) -> None:
    """Readers read it as before; whoever writes says which path it is; afterwards the job goes on."""
    before = _seen(job)
    with read_only(job):
        for use in READERS.values():
            use(job)
        for name, use in {**WRITERS, "the job": _go_on}.items():
            with pytest.raises((ChangelogEngineError, JobExecutionError)) as refused:
                use(job)
            assert str(job) in str(refused.value), name
            assert "writable" in str(refused.value), (name, str(refused.value))
    assert _seen(job) == before
    _go_on(job)
    assert state_at(str(job / "changelog")).states["process", "count"] == COUNTS


def test_case_65_a_folder_that_becomes_read_only_under_a_job(tmp_path: Path) -> None:
    """The attempt fails, nothing more is acknowledged, and a later run goes on from the last checkpoint."""
    path = tmp_path / "base" / "job"
    with contextlib.ExitStack() as stack:

        class Closing(TestJob):
            def on_commit(self, checkpoint: Any) -> None:
                if checkpoint.id == 2:
                    stack.enter_context(read_only(path))

        job = Closing(tmp_path / "base", Script(sizes=(4,)))
        with pytest.raises(JobExecutionError) as refused:
            job.run_driver(_graph())
        assert str(path / "changelog") in str(refused.value)
        assert "writable" in str(refused.value)
        assert state_at(str(path / "changelog")).checkpoint.id == 2
    job.run_driver(_graph())
    assert state_at(str(path / "changelog")).states["process", "count"] == COUNTS


MAY_GO_ON = {
    "changelog/part-3-*": ("console checkpoints", "history", "truncate"),
    "snapshots": ("console checkpoints",),
}


@pytest.mark.parametrize(
    "pattern", ["", "changelog", "changelog/_delta_log", "changelog/part-3-*", "snapshots"]
)
def test_case_65_permissions_that_were_taken_away(job: Path, pattern: str) -> None:
    """What may not be read is not taken for what is not there."""
    with nobodys_copy(job) as copy:
        path = next(copy.glob(pattern)) if pattern else copy
        mode = path.stat().st_mode
        path.chmod(0)
        try:
            for name, use in ALL.items():
                refusal = _refusal(use, copy)
                allowed = not refusal and name in MAY_GO_ON.get(pattern, ())
                assert "ermission denied" in refusal or allowed, (name, refusal)
        finally:
            if path.exists():  # or it was truncated
                path.chmod(mode)
        _go_on(copy)
        assert state_at(str(copy / "changelog")).states["process", "count"] == COUNTS
