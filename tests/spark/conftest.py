"""One Spark for all tests that run in this process: a user's own session, as a notebook has one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from servers import spark_classes
from servers.s3 import S3Server

from changelog_engine.storage.file_systems import options_in_use, use_options

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parents[1] / "docs" / "examples" / "flights"):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session that knows nothing of the engine, with Spark's defaults: a failed task is tried again."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    local = tmp_path_factory.mktemp("spark-local")
    python = os.environ["PYSPARK_PYTHON"]
    os.environ["PYSPARK_PYTHON"] = str(_with_compiled_modules(python, local))  # the session's, and no other's
    with spark_classes.session_is_made():
        session = (
            SparkSession.builder.master("local[2,4]")
            .appName("somebody's notebook")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.log.level", "OFF")
            .config("spark.python.unix.domain.socket.enabled", "true")
            .config("spark.local.dir", str(local))
            .config("spark.sql.warehouse.dir", str(local))
            .getOrCreate()
        )
    os.environ["PYSPARK_PYTHON"] = python
    yield session
    session.stop()


def _with_compiled_modules(python: str, folder: Path) -> Path:
    """A Python that takes PySpark from where it is installed.

    Spark puts zip files of it first on the path, of which no compiled modules are kept: every worker and everything else in
    Python that Spark starts for a query would compile for half a second of CPU. The sessions of the documents' scripts do.
    """
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="${{PYTHONPATH##*-src.zip:}}" exec "{python}" "$@"\n')
    program.chmod(0o755)
    return program


@pytest.fixture
def s3_options(s3: S3Server) -> Iterator[dict[str, str]]:
    """How to reach the store; this process does so already."""
    before = options_in_use()
    found = {"s3.endpoint": s3.endpoint, "s3.access-key": s3.access_key, "s3.secret-key": s3.secret_key}
    use_options(found)
    yield found
    use_options(before)
