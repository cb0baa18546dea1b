"""Kafka to keyed count to Kafka, exactly once: this engine and PyFlink, one after the other, on the same broker."""

from __future__ import annotations

import shutil
import subprocess
import sys
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from servers.kafka import KafkaServer
from servers.process import ServerMissing

from peers import Peers
from processes import cpu_s_of, measure
from sizes import Sizes

HERE = Path(__file__).parent
CONNECTOR = "org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_PARTITIONS = 4
_PROCESSES = 2  # as many as the job has subtasks


class KafkaBench:
    """Runs the job of kafka_count.py.

    Args:
        peers: has PyFlink's environment.
        work: folder for tables, logs and the connector's jar.
        sizes: how much to do.
    """

    def __init__(self, peers: Peers, work: Path, sizes: Sizes) -> None:
        self.peers = peers
        self.work = work
        self.sizes = sizes

    def run(self) -> dict[str, Any] | None:
        """Both engines; None where there is no broker, without PyFlink's figures where its connector is not to be had."""
        try:
            KafkaServer.check_installed()
        except ServerMissing:
            return None
        with KafkaServer(thorough=True) as kafka:
            result = self._count(kafka, "api", self.sizes.workload)
            jar = connector(self.work)
            if jar is not None:
                pyflink = self._count(kafka, "pyflink", self.sizes.pyflink_workload, jar)
                result |= {f"pyflink_{name}": figure for name, figure in pyflink.items()}
                result["ratio"] = result["steady_records_per_s"] / pyflink["steady_records_per_s"]
        return result

    def loop(self) -> dict[str, Any] | None:
        """What clients and broker do by themselves, see kafka_loop.py; None where there is no broker."""
        try:
            KafkaServer.check_installed()
        except ServerMissing:
            return None
        with KafkaServer(thorough=True) as kafka:
            return self._through(kafka, self.sizes.workload, False, self._run_loop)

    def _count(
        self, kafka: KafkaServer, package: str, records: int, jar: Path | None = None
    ) -> dict[str, Any]:
        def run(read: str, written: str) -> dict[str, float]:
            program = ["kafka_count.py", package, kafka.bootstrap_servers, read, written]
            if jar is None:
                return self._run_engine(program)
            program.append(f"pipeline.jars=file://{jar}")
            outcome = self.peers.run_pyflink("pyflink-kafka", program)[0]
            return {"seconds": outcome.result["seconds"], "cpu_s": outcome.cpu_s}

        return self._through(kafka, records, True, lambda _, *topics: run(*topics))

    def _through(
        self,
        kafka: KafkaServer,
        records: int,
        counts: bool,
        run: Callable[[KafkaServer, str, str], dict[str, float]],
    ) -> dict[str, Any]:
        """Rates and CPU of a program from topic to topic.

        Args:
            kafka: the broker.
            records: how many are read.
            counts: whether what it writes is different for each record; else it is what was read.
            run: the program, between these topics; gives its seconds and CPU seconds.
        """
        read = kafka.create_topic(partitions=_PARTITIONS)
        # The broker's clock says when counts were written.
        written = kafka.create_topic(partitions=_PARTITIONS, message_timestamp_type="LogAppendTime")
        kafka.produce(read, (str(number % self.sizes.keys) for number in range(records)))
        assert kafka.pid is not None
        broker_s = cpu_s_of(kafka.pid)
        took = run(kafka, read, written)
        broker_s = cpu_s_of(kafka.pid) - broker_s
        times, values = array("q"), set()
        for message in kafka.each_committed(written):
            times.append(message.timestamp()[1])
            values.add(message.value())
        different = records if counts else min(records, self.sizes.keys)
        if len(times) != records or len(values) != different:
            raise RuntimeError(
                f"{len(times)} values were written, {len(values)} different ones, of {records}"
            )
        return {
            "records": records,
            "records_per_s": records / took["seconds"],
            "steady_records_per_s": _steady_records_per_s(times),
            "cpu_us": 1e6 * took["cpu_s"] / records,
            "broker_cpu_us": 1e6 * broker_s / records,
        }

    def _run_loop(self, kafka: KafkaServer, *topics: str) -> dict[str, float]:
        program = [str(HERE / "kafka_loop.py"), kafka.bootstrap_servers, *topics, str(_PROCESSES)]
        found: dict[str, float] = measure("kafka-loop", [sys.executable, *program], self.work / "logs").result
        return found

    def _run_engine(self, program: list[str]) -> dict[str, float]:
        base = self.work / "tables" / "kafka"
        shutil.rmtree(base, ignore_errors=True)
        settings = {
            "spark.master": "local[2]",
            "spark.driver.memory": "4g",
            "state.backend.type": "hashmap",
            "state.changelog.enabled": "true",
            "state.changelog.dstl.dfs.base-path": str(base),
            "execution.checkpointing.interval": "1s",
        }
        command = [sys.executable, str(HERE / program[0]), *program[1:]]
        command += [f"{key}={value}" for key, value in settings.items()]
        outcome = measure("kafka", command, self.work / "logs")
        return {"seconds": outcome.result["seconds"], "cpu_s": outcome.cpu_s}


def _steady_records_per_s(times_ms: Iterable[int]) -> float:
    """Records a second, from when the brokers had a fifth of them until they had all."""
    ordered = sorted(times_ms)
    warm_up = len(ordered) // 5
    since, last = ordered[warm_up], ordered[-1]
    later = len(ordered) - bisect_right(ordered, since)
    return 1000 * later / max(1, last - since)


def connector(work: Path) -> Path | None:
    """PyFlink's connector as a jar in a folder, by Maven; None where that is not installed."""
    _, artifact, version = CONNECTOR.split(":")
    jar = work / f"{artifact}-{version}.jar"
    if not jar.exists():
        maven = shutil.which("mvn")
        if maven is None:
            return None
        copy = [_COPY, f"-Dartifact={CONNECTOR}", f"-DoutputDirectory={work}"]
        subprocess.run([maven, "-q", "-B", *copy], check=True)
    return jar
