"""DeltaLog: compare-and-swap, listing, and a log that any Delta reader opens."""

from __future__ import annotations

import errno
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake.exceptions import CommitFailedError, DeltaError
from support.chance import chosen_seed
from support.memory_disk import MemoryDisk

from changelog_engine.changelog.rows import SCHEMA
from changelog_engine.driver.log_upkeep import LogUpkeep
from changelog_engine.errors import ConnectorError, CorruptChangelogError, LostCommitError, StorageError
from changelog_engine.storage import delta_checkpoints, delta_content, delta_tables, new_table
from changelog_engine.storage.damaged import delta_rs
from changelog_engine.storage.delta_actions import AddFile
from changelog_engine.storage.delta_log import CommitConflictError, DeltaLog
from changelog_engine.storage.delta_tables import UserTable
from changelog_engine.storage.file_systems import options_in_use, use_options
from changelog_engine.storage.object_store import ObjectStore
from changelog_engine.storage.opening import open_storage
from changelog_engine.storage.protocol import Storage


def make(path: Path) -> DeltaLog:
    return DeltaLog.create(open_storage(str(path)), SCHEMA, {"changelog.format.version": "1"})


def add(path: str, checkpoint: int = 1) -> AddFile:
    bounds = {"checkpoint_id": checkpoint, "attempt": 1, "key_group": 3, "operation": "put"}
    stats = {"numRecords": 2, "minValues": bounds, "maxValues": bounds, "nullCount": {"checkpoint_id": 0}}
    return AddFile(path, 10, 1234, stats)


def without_statistics(path: str) -> AddFile:
    return AddFile(path, 10, 1234, {})


def test_a_table_that_cannot_be_made_durable_is_named(tmp_path: Path) -> None:
    with MemoryDisk(str(tmp_path)).mounted() as disk:
        disk.fail("fsync", errno.ENOSPC)
        with pytest.raises(StorageError, match=f"{tmp_path} durable: disk full"):
            make(tmp_path)
        assert not DeltaLog.exists(disk.storage())
        make(tmp_path)


@pytest.fixture
def stored(s3: Any) -> Iterator[Storage]:
    """An empty place on a real server."""
    before = options_in_use()
    use_options({"s3.endpoint": s3.endpoint, "s3.access-key": s3.access_key, "s3.secret-key": s3.secret_key})
    yield open_storage(f"s3://{s3.create_bucket()}/job/changelog")
    use_options(before)


def test_create(tmp_path: Path) -> None:
    log = make(tmp_path)
    assert log.version == 0
    assert log.properties() == {"changelog.format.version": "1"}
    table = deltalake.DeltaTable(str(tmp_path))
    assert (table.protocol().min_reader_version, table.protocol().min_writer_version) == (1, 2)
    with pytest.raises(CommitConflictError):
        make(tmp_path)
    with pytest.raises(StorageError, match="not a Delta table"):
        DeltaLog(open_storage(str(tmp_path / "nowhere")))


def test_commit_and_list(tmp_path: Path) -> None:
    log = make(tmp_path)
    assert log.commit([add("a", 1), add("b", 2)], metadata={"checkpoint": 1}) == 1
    assert log.commit([add("c", 3)], ["a"]) == 2
    assert log.added_since(0) == ["a", "b", "c"]
    assert log.added_since(1) == ["c"]
    files = log.files().sort_by("path")
    assert isinstance(files, pa.Table)
    assert files["path"].to_pylist() == ["b", "c"]
    assert files["min.checkpoint_id"].to_pylist() == [2, 3]
    assert files["max.operation"].to_pylist() == ["put", "put"]
    assert files["num_records"].to_pylist() == [2, 2]
    assert files["modification_time"].to_pylist() == [1234, 1234]
    assert deltalake.DeltaTable(str(tmp_path)).history(1)[0]["operation"] == "WRITE"


def test_stale_handle_is_refused(tmp_path: Path) -> None:
    a, b = make(tmp_path), DeltaLog(open_storage(str(tmp_path)))
    a.commit([add("a")])
    with pytest.raises(CommitConflictError):
        b.commit([add("b")])
    assert b.refresh() == 1
    assert b.added_since(0) == ["a"]
    b.commit([add("b")])
    assert a.refresh() == 2


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda text: text.replace('"a"', '"b"'), "has another checksum than its actions"),
        (lambda text: text[:-9], "is not JSON"),
    ],
)
def test_a_damaged_commit_of_another_is_named(
    tmp_path: Path, damage: Callable[[str], str], said: str
) -> None:
    a, b = make(tmp_path), DeltaLog(open_storage(str(tmp_path)))
    a.commit([add("a")])
    path = tmp_path / "_delta_log" / f"{1:020d}.json"
    path.write_text(damage(path.read_text()))
    b.refresh()
    with pytest.raises(CorruptChangelogError, match=said) as error:
        b.added_since(0)
    assert error.value.path == str(path)


@pytest.mark.parametrize(
    ("version", "damage", "said"),
    [
        (1, lambda data: b"\xef\xbb\xbf" + data, "is not JSON"),
        (0, lambda data: data[: data.rindex(b"\n")], "does not say what the table is"),
    ],
    ids=["a byte order mark", "no metadata"],
)
def test_a_commit_that_only_delta_rs_refuses_is_named(
    tmp_path: Path, version: int, damage: Callable[[bytes], bytes], said: str
) -> None:
    make(tmp_path).commit([add("a")])
    path = tmp_path / "_delta_log" / f"{version:020d}.json"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CorruptChangelogError, match=said) as error:
        DeltaLog(open_storage(str(tmp_path))).files()
    assert error.value.path == str(path)


def test_racing_commits_have_one_winner_each(tmp_path: Path) -> None:
    make(tmp_path)
    wins: list[int] = []

    def commit(name: str) -> None:
        log = DeltaLog(open_storage(str(tmp_path)))
        for i in range(40):
            log.refresh()
            try:
                wins.append(log.commit([add(f"{name}-{i}")]))
            except CommitConflictError:
                continue

    threads = [threading.Thread(target=commit, args=(str(n),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wins) == len(set(wins)) == DeltaLog(open_storage(str(tmp_path))).version
    assert DeltaLog(open_storage(str(tmp_path))).files().num_rows == len(wins)


def test_maintenance_and_a_handle_that_slept_through_it(tmp_path: Path) -> None:
    log, sleeper = make(tmp_path), DeltaLog(open_storage(str(tmp_path)))
    for i in range(12):
        log.commit([add(f"f{i}")])
    assert not log.maintain(every=20)
    assert log.maintain(every=10)
    assert not log.maintain(every=10)
    assert (tmp_path / "_delta_log" / "_last_checkpoint").exists()
    for version in range(5):  # as a cleanup of expired commits would
        (tmp_path / "_delta_log" / f"{version:020d}.json").unlink()
    assert DeltaLog(open_storage(str(tmp_path))).files().num_rows == 12
    assert sleeper.refresh() == 12  # it doesn't take the hole for the end of the log
    with pytest.raises(StorageError, match="is gone"):
        sleeper.added_since(0)


def test_a_delta_checkpoint_is_made_of_what_came_since_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, linked, link = make(tmp_path), [], Path.symlink_to

    def noted(path: Path, *given: Any) -> None:
        linked.append(path.name)
        link(path, *given)

    monkeypatch.setattr(Path, "symlink_to", noted)
    counts = []
    for i in range(30):
        log.commit([add(f"f{i}")], [f"f{i - 10}"] if i >= 10 else [])
        if log.maintain(every=10):
            counts.append(len(linked))
            linked.clear()
    assert counts == [11, 12, 12]  # the Delta checkpoint, the commit of its version, and ten more
    files = DeltaLog(open_storage(str(tmp_path))).files()["path"].to_pylist()
    assert sorted(files) == sorted(f"f{i}" for i in range(20, 30))


@pytest.mark.parametrize("late", [False, True])
def test_two_that_write_a_delta_checkpoint_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    log = make(tmp_path)
    for i in range(4):
        log.commit([add(f"f{i}")])
    assert log.maintain(every=2)
    for i in range(4, 8):
        log.commit([add(f"f{i}")])
    list_, maintained = log.storage.list, []

    def interrupted(path: str, after: str = "") -> Any:
        """Another process writes a checkpoint before or after the folder is listed; then its commits are cleaned up."""
        found = list_(path, after) if late else None
        if not maintained:
            maintained.append(DeltaLog(open_storage(str(tmp_path))).maintain(every=2))
            if late:
                for version in range(4, 9):
                    (tmp_path / "_delta_log" / f"{version:020d}.json").unlink()
        return found if late else list_(path, after)

    monkeypatch.setattr(log.storage, "list", interrupted)
    assert log.maintain(every=2) is not late
    assert maintained == [True]
    monkeypatch.undo()
    assert DeltaLog(open_storage(str(tmp_path))).files().num_rows == 8


def test_of_a_log_in_an_object_store_only_what_is_new_is_listed(
    stored: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, listed, list_ = DeltaLog.create(stored, SCHEMA, {}), [], ObjectStore.list

    def noted(storage: Storage, path: str = "", after: str = "") -> Any:
        found = list_(storage, path, after)
        listed.append(len(found))
        return found

    for i in range(45):
        log.commit([add(f"f{i}")])
        log.maintain(every=10)
    # commits, Delta checkpoints and their checksums, the pointer
    assert len(stored.list("_delta_log")) == 46 + 4 * 2 + 1
    monkeypatch.setattr(ObjectStore, "list", noted)
    assert DeltaLog.exists(stored)
    opened = DeltaLog(stored)
    assert (opened.version, opened.files().num_rows, opened.properties()) == (45, 45, {})
    assert len(listed) == 4
    assert max(listed) < 15
    listed.clear()
    stored.delete("_delta_log/00000000000000000040.checkpoint.parquet")  # and the pointer points nowhere
    assert (DeltaLog.exists(stored), listed) == (True, [11, 54])
    stored.write_durable("_delta_log/_last_checkpoint", b'{"version":30,"size":31}')
    assert DeltaLog(stored).files().num_rows == 45


def test_a_log_in_an_object_store_is_kept_short_beside_the_job(stored: Storage) -> None:
    log, upkeep = DeltaLog.create(stored, SCHEMA, {}), LogUpkeep()
    for i in range(100):
        assert not log.is_due()
        log.commit([add(f"f{i}")])
    upkeep.keep_short(log)
    log.commit([add("beside")])
    upkeep.close()
    assert log.last_checkpoint_version() in (100, 101)
    assert not log.is_due()
    assert DeltaLog(stored).files().num_rows == 101
    for i in range(101):
        log.commit([add(f"g{i}")])
    (checkpoint,) = [entry.name for entry in stored.list("_delta_log") if entry.name.endswith(".parquet")]
    stored.write_durable(f"_delta_log/{checkpoint}", b"PAR1 but not what it was PAR1")
    upkeep.keep_short(log)
    assert upkeep._thread is not None
    upkeep._thread.join()
    with pytest.raises(CorruptChangelogError, match="not what was written"):
        upkeep.keep_short(log)
    upkeep.close()


def test_the_end_of_a_job_does_not_wait_for_a_store_that_is_down(
    stored: Storage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log, upkeep, answers = DeltaLog.create(stored, SCHEMA, {}), LogUpkeep(), threading.Event()
    monkeypatch.setattr(DeltaLog, "is_due", lambda log: True)
    monkeypatch.setattr(DeltaLog, "maintain", lambda log: answers.wait())
    upkeep.keep_short(log)
    assert not upkeep.close(0.01)
    assert caplog.text.count("did not answer") == 1
    assert not upkeep.close(1e9)  # nor a second time
    assert caplog.text.count("did not answer") == 1
    answers.set()
    assert upkeep._thread is not None
    upkeep._thread.join()
    assert upkeep.close()


@pytest.mark.parametrize("version", [12, 99])
def test_a_pointer_to_a_delta_checkpoint_that_is_not_there_is_named(tmp_path: Path, version: int) -> None:
    """As in a copy that was made while the job ran."""
    log = make(tmp_path)
    for number in range(12):
        log.commit([add(f"f{number}")])
        log.maintain(every=5)
    (tmp_path / "_delta_log" / "_last_checkpoint").write_text(f'{{"version":{version},"size":9}}')
    with pytest.raises(
        CorruptChangelogError, match=f"_last_checkpoint.* names the Delta checkpoint of version {version}"
    ):
        DeltaLog(open_storage(str(tmp_path))).files()
    (tmp_path / "_delta_log" / "_last_checkpoint").unlink()
    assert DeltaLog(open_storage(str(tmp_path))).files().num_rows == 12


def test_case_46_a_flipped_bit_in_a_delta_checkpoint_is_refused(tmp_path: Path) -> None:
    log = make(tmp_path)
    for number in range(3):
        log.commit([add(f"f{number}", number)])
    assert log.maintain(every=2)
    assert log.files().num_rows == 3
    assert sorted(DeltaLog(open_storage(str(tmp_path))).files()["path"].to_pylist()) == ["f0", "f1", "f2"]
    [checkpoint] = (tmp_path / "_delta_log").glob("*.checkpoint.parquet")
    whole = checkpoint.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 50)):
        harmed = bytearray(whole)
        harmed[place] ^= 1 << (place % 8)
        checkpoint.write_bytes(harmed)
        for asked in (DeltaLog.files, DeltaLog.properties, DeltaLog.table_id):
            with pytest.raises(CorruptChangelogError) as caught:
                asked(DeltaLog(open_storage(str(tmp_path))))
            assert caught.value.path == str(checkpoint)
    checkpoint.write_bytes(whole)
    log.commit([add("g")], ["f0"])
    rows = pq.read_table(checkpoint)
    pq.write_table(
        rows.filter(pc.not_equal(pc.struct_field(rows["add"], "path").fill_null(""), "f1")), checkpoint
    )
    with pytest.raises(CorruptChangelogError):  # no other one is made of it, with a good checksum
        log.maintain(every=1)
    checkpoint.write_bytes(whole)
    assert DeltaLog(open_storage(str(tmp_path))).files().num_rows == 3
    assert len(deltalake.DeltaTable(str(tmp_path)).file_uris()) == 3  # other readers pass the checksum over


class PanicException(BaseException):
    """As delta-rs raises where Rust panics: for some flipped bits of a Delta checkpoint. No module has that class."""


class Panics:
    """Stands for delta-rs' table, and for one of its calls."""

    def __init__(self, *given: Any, **more: Any) -> None:
        raise PanicException("TokioMultiThreadExecutor has crashed: RecvError")

    create = is_deltatable = __init__


def test_where_delta_rs_panics_there_is_an_error_of_this_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, other = make(tmp_path), UserTable(str(tmp_path))
    layout = other.layout()
    for module in (delta_content, delta_checkpoints):
        monkeypatch.setattr(module, "DeltaTable", Panics)
    for call in (log.properties, log.table_id, log.files, lambda: log.maintain(every=0)):
        with pytest.raises(StorageError, match="delta-rs failed in its own code: Tokio"):
            call()
    monkeypatch.setattr(delta_tables, "DeltaTable", Panics)
    for user_call in (
        lambda: UserTable(str(tmp_path)),
        lambda: other.at(0),
        lambda: other.files_at(0, layout),
        lambda: UserTable.exists(str(tmp_path)),
    ):
        with pytest.raises(ConnectorError, match="delta-rs failed in its own code: Tokio"):
            user_call()
    monkeypatch.setattr(new_table, "DeltaTable", Panics)
    with pytest.raises(StorageError, match="delta-rs failed in its own code: Tokio"):
        make(tmp_path / "new")


def test_a_table_that_stays_open_says_what_one_opened_anew_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, path, random = [], str(tmp_path), Random(chosen_seed())
    monkeypatch.setattr(
        delta_content, "DeltaTable", lambda *a, **k: opened.append(a) or deltalake.DeltaTable(*a, **k)
    )
    log, kept = make(tmp_path), DeltaLog(open_storage(path))
    there: list[str] = []
    looks = 0

    def said(log: DeltaLog) -> tuple[Any, ...]:
        return log.files().sort_by("path"), log.properties(), log.table_id(), log.version

    for step in range(80):
        log.refresh()
        match random.randrange(12):
            case 0:
                log.maintain(every=random.choice([0, 5]))
            case 1:  # somebody else
                deltalake.DeltaTable(path).alter.set_table_properties({f"foreign.{step}": "x"}, False)
            case _:
                gone = [there.pop(random.randrange(len(there)))] if len(there) > 2 else []
                there.append(f"p{step}")
                log.commit([random.choice([add, without_statistics])(there[-1])], gone)
        if random.random() < 0.3:
            continue
        looks += 1
        found = said(kept)
        with monkeypatch.context() as others:
            others.setattr(delta_content, "_READ", {})
            others.setattr(delta_content, "_OPENED", {})
            assert said(DeltaLog(open_storage(path))) == found
        assert found[0]["path"].to_pylist() == sorted(there)
    assert len(opened) < 1.5 * looks  # of two that look


def test_case_47_others_that_went_on_with_an_older_copy(tmp_path: Path) -> None:
    path = tmp_path / "table"
    log = make(path)
    log.commit([add("a")])
    shutil.copytree(path, tmp_path / "older")
    log.commit([add("b")])
    shutil.rmtree(path)
    shutil.copytree(tmp_path / "older", path)
    other = DeltaLog(open_storage(str(path)))
    other.commit([add("c")])
    other.commit([add("d")])
    with pytest.raises(LostCommitError, match=r"not the commit that this process wrote or saw"):
        log.refresh()
    with pytest.raises(LostCommitError):
        log.commit([add("e")])


def test_case_47_bytes_that_were_added_to_a_commit(tmp_path: Path) -> None:
    log = make(tmp_path)
    log.commit([add("a")])
    with (tmp_path / "_delta_log" / f"{1:020d}.json").open("a") as commit:
        commit.write("\n")
    with pytest.raises(LostCommitError):
        log.commit([add("b")])


@pytest.mark.parametrize("kind", [OSError, DeltaError, CommitFailedError])
def test_errors_of_delta_rs_are_one_line_without_colours(kind: type[Exception]) -> None:
    """As it says them where a disk is full."""
    arrow = "\n          \x1b[31m\u21b3\x1b[0m "
    told = f"Generic LocalFileSystem error{arrow}Unable to copy data to file{arrow}No space left on device (os error 28)\n"
    with pytest.raises(kind) as caught, delta_rs():
        raise kind(told)
    assert type(caught.value) is kind
    assert str(caught.value) == (
        "Generic LocalFileSystem error: Unable to copy data to file: No space left on device (os error 28)"
    )
    plain = FileNotFoundError(2, "No such file", "/x")
    with pytest.raises(FileNotFoundError) as same, delta_rs():
        raise plain
    assert same.value is plain
