"""Settings of all tests: how many random examples, and that a failing one can be repeated.

A failing random test prints its seed and a ``@reproduce_failure`` line. ``HYPOTHESIS_PROFILE`` chooses the number of
examples: ``ci`` (default) keeps the suite within minutes, ``long`` searches for an hour, ``hunt`` finds without making
the example small.

``TEST_STATE_BACKEND`` (``rocksdb``, ``rocksdb without cache``, ``custom``) lets all jobs that run in the tests' own process
keep their state in that backend, whatever they ask for.

The fixtures `kafka`, `postgres`, `s3` and `mariadb` are real servers: see `servers.fixtures`.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings

pytest_plugins = ["servers.fixtures"]

# Where tests write: into memory if there is room. They make durable what they write, which takes half of their time on a
# disk, and no test pulls the plug of one. ``TMPDIR`` chooses another place.
_MEMORY, _ROOM = "/dev/shm", 8 << 30
if "TMPDIR" not in os.environ and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM:
    os.environ["TMPDIR"] = _MEMORY

_COMMON = {
    "deadline": None,  # an example writes real files, and machines are shared
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
}
settings.register_profile("ci", max_examples=30, **_COMMON)
settings.register_profile("quick", max_examples=5, **_COMMON)
settings.register_profile("long", max_examples=1_000, **_COMMON)
settings.register_profile(
    "hunt", max_examples=150, phases=[Phase.explicit, Phase.generate], **_COMMON
)  # no shrinking
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# Of Spark's drivers: most live for seconds, in which the JVM's second compiler costs more than it gains.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

if os.environ.get("TEST_STATE_BACKEND"):
    from support.backends import run_all_jobs_on

    run_all_jobs_on(os.environ["TEST_STATE_BACKEND"])


@pytest.fixture(autouse=True)
def _logger_as_it_was() -> Iterator[None]:
    """What a job does to the engine's logger ends with its test."""
    logger = logging.getLogger("changelog_engine")
    level, propagate, handlers = logger.level, logger.propagate, list(logger.handlers)
    yield
    logger.setLevel(level)
    logger.propagate, logger.handlers = propagate, handlers
