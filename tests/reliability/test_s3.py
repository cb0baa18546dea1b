"""The changelog on an object store: base path on ``s3:``, against a real S3-compatible server, and on emulators of Azure's
and Google's stores.

Commits are conditional puts there: cases 7, 8, 9, 10 and 21 once more, where no lock and no rename helps.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from bench.s3_requests import kind_of
from bench.s3_requests import run as requests_of_a_job
from servers.s3 import S3Server, kind
from support.functions import Count, by_key, counted, rounds
from support.graphs import keyed_job
from support.jobs import NO_RESTART, TestJob
from support.live import logged_state
from support.script import DriverKilled, Failure, Fault, Script

from api.common.typeinfo import Types
from changelog_engine.errors import JobExecutionError, StorageError
from changelog_engine.inspection.states import states_at
from changelog_engine.ledger.job_folder import JobFolder, find_job_folder
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.savepoints.forks import fork_job
from changelog_engine.savepoints.writer import create_savepoint
from changelog_engine.storage.delta_actions import AddFile
from changelog_engine.storage.delta_log import CommitConflictError, DeltaLog
from changelog_engine.storage.file_systems import options_in_use, use_options
from changelog_engine.storage.opening import open_storage
from changelog_engine.verification.verify import verify
from materializer.materialize import materialize
from materializer.processes import FoldProcesses
from materializer.retention import Retention
from materializer.truncation import truncate

pytestmark = pytest.mark.slow

ELEMENTS = rounds(5, 40)


on_every_store = pytest.mark.parametrize("base", ["s3", "azurite", "gcs"], indirect=True)


@pytest.fixture
def base(request: pytest.FixtureRequest) -> Iterator[str]:
    """A folder in a new bucket, which this process knows how to reach."""
    server = request.getfixturevalue(getattr(request, "param", "s3"))
    before = options_in_use()
    if isinstance(server, S3Server):
        use_options(options(server))
        yield f"s3://{server.create_bucket()}/jobs"
    else:
        use_options(server.options)
        yield f"{server.create_bucket()}/jobs"
    use_options(before)


def options(s3: S3Server) -> dict[str, str]:
    return {"s3.endpoint": s3.endpoint, "s3.access-key": s3.access_key, "s3.secret-key": s3.secret_key}


def job_at(base: str, script: Script, job: type[TestJob] = TestJob, **settings: Any) -> TestJob:
    return job(base, script, file_systems=options_in_use(), **settings)


def graph(**more: Any) -> Any:
    return keyed_job(ELEMENTS, Count(), key_type=Types.LONG(), parallelism=2, max_parallelism=16, **more)


def folder_of(base: str, name: str = "job") -> JobFolder:
    return find_job_folder(base, name)


def state(base: str, name: str = "job", checkpoint: int | None = None) -> Any:
    return logged_state(base, name, checkpoint)


def parts_of(folder: JobFolder) -> set[str]:
    return {entry.name for entry in folder.changelog.list() if entry.name.startswith("part-")}


@on_every_store
def test_a_job_survives_what_may_fail(base: str) -> None:
    faults = [Fault.PARTS, Fault.COMMIT_LIES, Fault.WORKER, Fault.COMMIT_FAILS, Fault.HANDED_OUT]
    script = Script(sizes=(5,), failures=tuple(Failure(2 * n, fault) for n, fault in enumerate(faults, 1)))
    job = job_at(base, script)
    job.run(graph())
    assert by_key(job.output) == by_key(counted(ELEMENTS))
    found = verify(folder_of(base))
    assert found.faults == []
    assert [commit.id for commit in job.commits] == found.restorable


@on_every_store
def test_snapshot_truncation_savepoint_and_fork(base: str) -> None:
    job = job_at(base, Script(sizes=(5,), failures=(Failure(6, Fault.HANDED_OUT),)))
    with pytest.raises(DriverKilled):
        job.run_driver(graph())
    folder, at_4, newest = folder_of(base), state(base, checkpoint=4), state(base)
    made = materialize(folder, 4, run=FoldProcesses(1))
    assert made is not None
    assert made.checkpoint == 4
    savepoint = create_savepoint(folder, Lineage(folder.open_changelog()).checkpoint(4), f"{base}/savepoints")
    fork_job(folder, Lineage(folder.open_changelog()).checkpoint(4), f"{base}/fork")
    before = parts_of(folder)
    materialize(folder)
    truncate(folder, Retention(history_ms=0, retained=1, grace_ms=0))
    assert parts_of(folder) < before
    assert state(base) == newest
    assert state(base, "fork", 4) == at_4
    assert verify(folder).faults == []
    assert verify(folder_of(base, "fork")).faults == []

    other = job_at(base, Script(sizes=(5,)))
    other.run(graph(name="other"), restore=savepoint.path)
    job.run_driver(graph())
    assert state(base, "other") == state(base)
    assert by_key(job.output) == by_key(counted(ELEMENTS))


@pytest.mark.parametrize("harm", ["deleted", "replaced"])
def test_case_29_a_snapshot_that_lost_a_file_has_the_log_before_it_stay(base: str, harm: str) -> None:
    """As by a rule that lets objects expire: the store has checksums of what is there, and says nothing of what is not."""
    with pytest.raises(DriverKilled):
        job_at(base, Script(sizes=(5,), failures=(Failure(3, Fault.HANDED_OUT),))).run_driver(graph())
    folder, newest = folder_of(base), state(base)
    materialize(folder)
    part = next(entry.name for entry in folder.snapshots.list() if entry.name.startswith("part-"))
    if harm == "deleted":
        folder.snapshots.delete(part)
    else:
        folder.snapshots.write_durable(part, b"another")
    truncate(folder, Retention(history_ms=0, retained=1, grace_ms=0))
    assert state(base) == newest


@on_every_store
def test_of_racing_commits_one_wins(base: str) -> None:
    """Whoever loses is told so, and nobody's commit is overwritten."""
    job_at(base, Script(sizes=(40,))).run(graph())
    storage = folder_of(base).changelog
    rounds_, racers = 10, 4
    for _ in range(rounds_):
        logs = [DeltaLog(storage) for _ in range(racers)]
        version = logs[0].version

        def commit(log: DeltaLog, version: int = version) -> str | None:
            path = f"part-{uuid.uuid4().hex}"
            try:
                log.commit([AddFile(path, 1, 0)], {"who": path})
            except CommitConflictError:
                return None
            assert log.version == version + 1
            return path

        with ThreadPoolExecutor(racers) as pool:
            winners = [path for path in pool.map(commit, logs) if path is not None]
        text = storage.read(f"_delta_log/{version + 1:020d}.json").to_pybytes().decode()
        added = [json.loads(line)["add"]["path"] for line in text.splitlines() if '"add"' in line]
        assert winners == added


class Overtaken(TestJob):
    """Another driver takes the job over while this one runs."""

    other: TestJob | None = None

    def on_commit(self, checkpoint: Any) -> None:
        if self.other is None:
            self.other = job_at(self.settings.base_path, Script(sizes=(5,)), restart=NO_RESTART)
            self.other.run_driver(graph())


@on_every_store
def test_the_first_of_two_drivers_is_fenced(base: str) -> None:
    """No lock tells the second driver of the first: the attempt's row in the log does, and stops the first."""
    job = job_at(base, Script(sizes=(5,)), Overtaken, restart=NO_RESTART)
    with pytest.raises(JobExecutionError, match=r"another driver .* took the job in \w+://.* over"):
        job.run_driver(graph())
    assert job.other is not None
    assert job.other.commits[-1].finished
    assert verify(folder_of(base)).faults == []
    whole = job.output + job.other.output
    assert by_key(whole) == by_key(counted(ELEMENTS))


def test_errors_name_the_place_and_no_secret(s3: S3Server, base: str) -> None:
    with pytest.raises(StorageError) as failure:
        open_storage(f"s3://no-bucket-{uuid.uuid4().hex}/x").write_durable("a", b"")
    use_options({**options(s3), "s3.secret-key": "wrong-secret"})
    with pytest.raises(StorageError) as refused:
        open_storage(base).write_durable("a", b"")
    for text in (str(failure.value), str(refused.value)):
        assert "s3://" in text
        assert s3.secret_key not in text
        assert "wrong-secret" not in text


def test_a_small_file_is_one_request(s3: S3Server, base: str) -> None:
    if kind() != "versitygw":
        pytest.skip("the S3 server that is here notes no requests")
    bucket = base.split("/")[2]
    for number, root in enumerate([base, s3.uri(bucket, "jobs")]):  # with the keys in options, and in the URI
        open_storage(root).write_durable(f"small-{number}", b"x" * 1_000)
        asked = [operation for operation, path in s3.requests() if f"small-{number}" in path]
        assert asked == ["PutObject"]
    large = b"x" * (40 << 20)
    open_storage(base).write_durable("large", large)
    assert open_storage(base).read("large") == large


@pytest.mark.skipif(kind() != "versitygw", reason="moto does not note requests")
@pytest.mark.usefixtures("base")
def test_nothing_is_asked_for_twice(s3: S3Server) -> None:
    """Clients ask a store again that does not answer for seconds, as on a machine that is busy: then once more, anew. What
    the engine asks for needlessly it asks for each time."""
    of_a_checkpoint = {
        ("PutObject", "part"): 2,
        ("GetObject", "part"): 2,
        ("PutObject", "checkpoint"): 1,
        ("HeadObject", "_last_checkpoint"): 2,
        ("HeadObject", "commit"): 1,
        ("GetObject", "commit"): 1,
        ("PutObject", "commit"): 1,
    }
    for _ in range(3):
        bucket = s3.create_bucket()
        each, (made, asked) = requests_of_checkpoints(s3, bucket), requests_of_reading(s3, bucket)
        commits = {path: count for (_, path), count in asked.items() if kind_of(path) == "commit"}
        if each == of_a_checkpoint and max(commits.values()) <= 3:
            break
    assert made == [3, 8]
    assert each == of_a_checkpoint
    assert set(commits.values()) <= {1, 2, 3}, "delta-rs reads a commit twice, this engine the newest"
    assert not [path for operation, path in asked if (operation, kind_of(path)) == ("HeadObject", "part")]


def requests_of_checkpoints(s3: S3Server, bucket: str) -> dict[tuple[str, str], float]:
    """Operation and kind of file to how many requests a checkpoint more takes."""
    few, many = (requests_of_a_job(s3, bucket, 2, checkpoints) for checkpoints in (3, 8))
    return {asked: (many[asked] - few[asked]) / 5 for asked in few | many if many[asked] != few[asked]}


def requests_of_reading(s3: S3Server, bucket: str) -> tuple[list[int], Counter[tuple[str, str]]]:
    """How many checkpoints both jobs made, and what reading their states asks for."""
    before = len(s3.requests())
    jobs = [f"s3://{bucket}/log/{entry.name}" for entry in open_storage(f"s3://{bucket}/log").list()]
    made = sorted(states_at(job).checkpoint.id for job in jobs)
    return made, Counter(s3.requests()[before:])
