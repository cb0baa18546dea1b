"""Rows into PostgreSQL, at least once and exactly once, beside a plain loop of psycopg's ``executemany``.

``python jdbc.py plain|sink|exact URL USER RECORDS BASE`` runs one of them, with the password in BENCH_PASSWORD, and prints
its result as JSON. A job's time begins when Spark is up, and ends with its process.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from log_figures import read_log
from processes import PREFIX, measure

HERE = Path(__file__).parent
RECORDS = 1_000_000
BATCH = 5_000
TABLE = "CREATE TABLE numbers (n BIGINT, text TEXT)"
INSERT = "INSERT INTO numbers VALUES (?, ?)"


class JdbcBench:
    """Starts a server, and writes to it in three ways.

    Args:
        work: folder for tables and logs.
        records: how many rows each way writes.
    """

    def __init__(self, work: Path, records: int = RECORDS) -> None:
        self.work = work
        self.records = records

    def rates(self) -> dict[str, Any] | None:
        """Records a second of each way, and how they compare; None where PostgreSQL is not installed."""
        sys.path.append(str(HERE.parent))
        from servers.postgres import PostgresServer
        from servers.process import ServerMissing

        try:
            PostgresServer.check_installed()
        except ServerMissing:
            return None
        found: dict[str, Any] = {}
        with PostgresServer() as server:
            for way in ("plain", "sink", "exact"):
                server.execute("DROP TABLE IF EXISTS numbers")
                server.execute(TABLE)
                base = self.work / f"jdbc-{way}"
                shutil.rmtree(base, ignore_errors=True)
                arguments = [way, server.jdbc_url(), server.user, str(self.records), str(base)]
                command = [sys.executable, str(HERE / "jdbc.py"), *arguments]
                outcome = measure(
                    f"jdbc-{way}", command, self.work / "logs", {"BENCH_PASSWORD": server.password}
                )
                written = server.execute("SELECT COUNT(*), COUNT(DISTINCT n) FROM numbers")
                if written != [(self.records, self.records)]:
                    raise RuntimeError(f"{way}: {written[0][0]} rows were written, of {self.records}")
                seconds = outcome.result["seconds"]
                if way != "plain":  # the last commit comes after the last checkpoint, and counts
                    seconds = outcome.ended - read_log(base).attempts[0]["time_ms"] / 1000
                found[f"{way}_records_per_s"] = self.records / seconds
        for way in ("sink", "exact"):
            found[f"{way}_of_plain"] = found[f"{way}_records_per_s"] / found["plain_records_per_s"]
        return found


def plain(url: str, user: str, records: int) -> float:
    """The loop; returns its seconds."""
    import psycopg

    place = url.removeprefix("jdbc:")
    with psycopg.connect(place, user=user, password=os.environ["BENCH_PASSWORD"]) as connection:
        began = time.monotonic()
        for start in range(0, records, BATCH):
            rows = [(n, f"text of {n}") for n in range(start, min(start + BATCH, records))]
            with connection.cursor() as cursor:
                cursor.executemany(INSERT.replace("?", "%s"), rows)
            connection.commit()
        return time.monotonic() - began


def job(way: str, url: str, user: str, records: int, base: str) -> None:
    """The same rows through a job with one subtask; its log says how fast it was."""
    from api.common import Configuration, Types, WatermarkStrategy
    from api.datastream import StreamExecutionEnvironment
    from api.datastream.connectors import JdbcConnectionOptions, JdbcSink, NumberSequenceSource

    configuration = Configuration()
    configuration.set_string("state.changelog.dstl.dfs.base-path", base)
    configuration.set_string("execution.checkpointing.interval", "1s")
    configuration.set_string("state.changelog.enabled", "true")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url).with_user_name(user)
    options = builder.with_password(os.environ["BENCH_PASSWORD"]).build()
    row = Types.ROW([Types.LONG(), Types.STRING()])
    pair = Types.TUPLE([Types.LONG(), Types.STRING()])
    make = JdbcSink.sink if way == "sink" else JdbcSink.exactly_once_sink
    numbers = env.from_source(
        NumberSequenceSource(0, records - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    numbers.map(lambda n: (n, f"text of {n}"), pair).add_sink(make(INSERT, row, options))
    env.execute("jdbc")


def main(way: str, url: str, user: str, records: str, base: str) -> None:
    seconds = None
    if way == "plain":
        seconds = plain(url, user, int(records))
    else:
        job(way, url, user, int(records), base)
    print(PREFIX + json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
