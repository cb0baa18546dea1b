"""Settings of all tests: how many random examples, and that a failing one can be repeated.

Random tests make the same choices in every run, so that a change is judged by its own faults: ``ci``, the default of
``HYPOTHESIS_PROFILE``, and ``quick``, with fewer examples. ``make search`` looks where no run has looked: ``long`` searches
for an hour, ``hunt`` finds without making the example small, and ``TEST_SEED=random`` (support/chance.py) is for the tests
without hypothesis. What fails prints its seed or a ``@reproduce_failure`` line.

``TEST_STATE_BACKEND`` (``rocksdb``, ``rocksdb without cache``, ``custom``) lets all jobs that run in the tests' own process
keep their state in that backend, whatever they ask for.

The fixtures of `servers.fixtures` are real servers: Kafka, PostgreSQL, OpenSearch and others.
`every_backend` is each state backend, with the changelog and without; the custom one is the example of
docs/state-backends.md. `extensions` are those in C, built once in a run.
"""

from __future__ import annotations

import atexit
import gc
import logging
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from servers.process import CACHE
from xdist.scheduler import LoadFileScheduling

from changelog_engine.spark import class_archive, garbage

pytest_plugins = ["servers.fixtures", "support.backends", "support.extensions"]

# Where tests write: into memory if there is room. They make durable what they write, which takes half of their time on a
# disk, and no test pulls the plug of one. ``TMPDIR`` chooses another place.
_MEMORY, _ROOM = "/dev/shm", 8 << 30
if "TMPDIR" not in os.environ and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM:
    os.environ["TMPDIR"] = _MEMORY
    tempfile.tempdir = None  # asked anew: pytest has asked before

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # the shell began this in the background: jobs would ignore it, too
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # until all tests are collected, which makes much and leaves it

# These begin first, those that take most CPU before others: one that begins last keeps one worker busy while the others have
# nothing left to do.
_LONG = (
    "test_history.py",
    "test_everything_killed.py",
    "test_readme.py",
    "test_cluster.py",
    "test_cassandra.py",
    "test_golden.py",
    "test_launcher_spark.py",
    "test_kills.py",
    "test_flipped_bits.py",
    "test_materializer_beside.py",
    "test_killed_drivers.py",
    "test_printing.py",
    "test_copies.py",
    "test_pulsar.py",
    "test_page.py",
    "test_rescale_spark.py",
    "test_card_payments_spark.py",
    "test_drivers.py",
    "test_api_env_spark.py",
    "test_file_s3.py",
    "test_jdbc_sinks.py",
    "test_jdbc_faults.py",
    "test_s3_spark.py",
    "test_sinks_spark.py",
    "test_class_archive_spark.py",
    "test_strangers.py",
    "test_corners.py",
    "test_page_explains.py",
    "test_user_mistakes.py",
    "test_corrections.py",
    "test_s3.py",
    "test_spark_frames.py",
    "test_history_points.py",
    "test_session.py",
    "test_data_sources.py",
    "test_memory.py",
)

# Files that run one after the other in one worker, so that what they all use is started once and is warm: a broker; a Spark
# session, whose first queries take most of the time.
_TOGETHER = {
    name: what
    for what, names in {
        "Kafka": (
            "test_everything_killed.py",
            "test_card_payments_spark.py",
            "test_sinks_spark.py",
            "test_hybrid_kafka.py",
            "test_kafka_exactly_once.py",
            "test_kafka_sinks.py",
            "test_kafka_source.py",
            "test_servers.py",
        ),
        "other servers": (
            "test_cassandra.py",
            "test_elasticsearch_sinks.py",
            "test_kinesis.py",
            "test_rabbitmq.py",
            "test_rabbitmq_spark.py",
            "test_silent_servers.py",
        ),
        "Spark SQL": (
            "test_history.py",
            "test_history_points.py",
            "test_history_types.py",
            "test_history_changed_types.py",
            "test_spark_frames.py",
            "test_data_sources.py",
            "test_session.py",
            "test_memory.py",
            "test_savepoints_spark.py",
            "test_bootstrap_spark.py",
            "test_async_spark.py",
            "test_rocksdb_on_spark.py",
            "test_local_recovery_spark.py",
            "test_stuck_worker.py",
            "test_observing_spark.py",
            "test_api_env_spark.py",
            "test_user_mistakes.py",
        ),
        "jobs in a session of Spark": (
            "test_launcher_spark.py",
            "test_materializer_beside.py",
        ),
    }.items()
    for name in names
}

_COMMON = {
    "deadline": None,  # an example writes real files, and machines are shared
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
}
settings.register_profile("ci", max_examples=20, derandomize=True, **_COMMON)
settings.register_profile("quick", max_examples=5, derandomize=True, **_COMMON)
settings.register_profile("long", max_examples=1_000, **_COMMON)
# No shrinking
settings.register_profile("hunt", max_examples=150, phases=[Phase.explicit, Phase.generate], **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

if class_archive.CACHE_VARIABLE not in os.environ:
    os.environ[class_archive.CACHE_VARIABLE] = str(CACHE / "cache")
    if not class_archive.archive_options(
        makes=False
    ):  # `make servers` makes it; no job begins with that beside tests
        os.environ[class_archive.CACHE_VARIABLE] = class_archive.NO_CACHE


def pytest_configure() -> None:
    """Put all jobs on another state backend; pytest itself has imported the fixtures of `support.backends` by now."""
    if os.environ.get("TEST_STATE_BACKEND"):
        from support.backends import run_all_jobs_on

        run_all_jobs_on(os.environ["TEST_STATE_BACKEND"])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Servers rest behind the files that use them together."""
    yield
    group = _TOGETHER.get(item.path.name)
    if group is not None and nextitem is not None and _TOGETHER.get(nextitem.path.name) != group:
        sys.modules["servers.fixtures"].let_rest()


class _Together(LoadFileScheduling):
    """Gives each worker a file at a time, or the files that belong together."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return _TOGETHER.get(file.rpartition("/")[2], file)

    def left(self) -> list[str]:
        """The tests that have not run."""
        units = [
            *self.workqueue.values(),
            *(unit for of_a_worker in self.assigned_work.values() for unit in of_a_worker.values()),
        ]
        return [test for unit in units for test, done in unit.items() if not done]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Together | None:
    """With ``--dist loadfile``, as `make test` runs slow tests."""
    return _Together(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_sessionfinish(session: pytest.Session) -> None:
    """When workers crash until none is left, the run is over, and nothing says that tests have not run."""
    scheduler = getattr(session.config.pluginmanager.getplugin("dsession"), "sched", None)
    if isinstance(scheduler, _Together) and (left := scheduler.left()):
        print(f"\n{len(left)} tests have not run, the first is {left[0]}")
        session.exitstatus = pytest.ExitCode.INTERRUPTED


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``-m slow``, import no file without slow tests: three of four, and four processes of `make test` do."""
    if config.getoption("markexpr") != "slow" or not re.fullmatch(r"test_.*\.py", collection_path.name):
        return None
    return None if _may_be_slow(collection_path.read_text(encoding="utf-8")) else True


def _may_be_slow(text: str) -> bool:
    """Whether a file can have slow tests: it marks some, or they take a server."""
    servers = "|".join(sys.modules["servers.fixtures"].FIXTURES)
    return re.search(rf"\bmark\.slow\b|\bdatabases\b|\b({servers})\b *[,:)]", text) is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files that take longest first; elsewhere the order is as it was."""
    for path in {item.path for item in items if item.get_closest_marker("slow")}:
        if not _may_be_slow(path.read_text(encoding="utf-8")):
            raise pytest.UsageError(f"{path} has slow tests that '-m slow' passes over: see _may_be_slow()")
    rank = {name: place for place, name in enumerate(_LONG)}
    items.sort(key=lambda item: rank.get(item.path.name, len(_LONG)))


def pytest_collection_finish() -> None:
    """Leave modules and tests, which stay to the end, to no garbage collection: there are 400,000 objects of them."""
    gc.freeze()
    atexit.register(gc.unfreeze)  # all goes that can: DuckDB's library complains of what is left
    garbage.collect_rarely()  # as in Spark's workers: it took 3 to 14 % of tests that make much
    gc.enable()


@pytest.fixture(scope="module")
def little_to_collect() -> None:
    """What earlier tests left is looked at by no collection of garbage that tests of this module ask for."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def lost_writers(little_to_collect: None) -> Iterator[None]:
    """Writers of processes that are lost go here, where their open files are no surprise."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def _logger_as_it_was() -> Iterator[None]:
    """What a job does to the engine's logger ends with its test."""
    logger = logging.getLogger("changelog_engine")
    level, propagate, handlers = logger.level, logger.propagate, list(logger.handlers)
    yield
    logger.setLevel(level)
    logger.propagate, logger.handlers = propagate, handlers
