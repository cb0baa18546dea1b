"""How long a record is under way from its own time to its result, at a steady pace far below what the job can do."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from servers.kafka import KafkaServer
from servers.process import ServerMissing

from kafka_bench import connector
from paced import Arrivals, listen
from peers import BesidePeers
from processes import MeasurementError, measure, result_line

HERE = Path(__file__).parent
WAYS = {"at_least_once": "AT_LEAST_ONCE", "exactly_once": "EXACTLY_ONCE"}
_PARTITIONS = 4
_WARM_UP_S = 8

Run = Callable[[str, list[str], Callable[[], bool]], Any]


class LatencyBench(BesidePeers):
    """Runs the keyed count of kafka_count.py and paced_count.py at a steady pace until enough results have come."""

    def here(self) -> dict[str, Any]:
        """Without a broker, and where Kafka is installed from topic to topic, at least once and exactly once."""
        return {
            "plain": self._plain(),
            **(self._over_kafka("api", self.sizes.latency_per_s, self._run_engine) or {}),
        }

    def pyflink(self) -> dict[str, Any] | None:
        """From topic to topic in PyFlink, at a pace that it keeps up with; None without Kafka or PyFlink's connector."""
        jar = connector(self.engine.work)
        if jar is None:
            return None
        settings = {"pipeline.jars": f"file://{jar}"}

        def run(name: str, program: list[str], stop_when: Callable[[], bool]) -> None:
            self.peers.run_pyflink(name, program, settings=settings, stop_when=stop_when)

        return self._over_kafka("pyflink", self.sizes.pyflink_latency_per_s, run)

    def loop(self) -> dict[str, Any] | None:
        """From topic to topic by clients and broker alone, see kafka_loop.py; None where there is no broker."""

        def run(name: str, program: list[str], stop_when: Callable[[], bool]) -> None:
            _, *options, _, servers, read, written = program
            command = [sys.executable, str(HERE / "kafka_loop.py"), *options, servers, read, written, "2"]
            measure(name, command, self.engine.work / "logs", stop_when=stop_when)

        return self._over_kafka("loop", self.sizes.latency_per_s, run)

    def _run_engine(self, name: str, program: list[str], stop_when: Callable[[], bool]) -> None:
        command = [sys.executable, str(HERE / program[0]), *program[1:]]
        self.engine.run_program(name, command, stop_when=stop_when)

    def _plain(self) -> dict[str, Any]:
        sizes = self.sizes
        found: dict[str, Any] = {}
        failed: list[Exception] = []
        ended = threading.Event()
        arrivals = Arrivals(sizes.latency_per_s, _WARM_UP_S, sizes.latency_seconds)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "results"

            def hear() -> None:
                try:
                    found.update(listen(path, arrivals, ended.is_set))
                except RuntimeError as error:
                    failed.append(error)

            listener = threading.Thread(target=hear)
            listener.start()
            program = ["paced_count.py", str(path), str(sizes.latency_per_s), str(sizes.keys)]
            try:
                self._run_engine("latency-plain", program, lambda: not listener.is_alive())
            finally:
                ended.set()
                listener.join()
        if failed:
            raise failed[0]
        return found

    def _over_kafka(self, package: str, per_s: int, run: Run) -> dict[str, Any] | None:
        try:
            KafkaServer.check_installed()
        except ServerMissing:
            return None
        with KafkaServer(thorough=True) as kafka:
            return {way: self._through(kafka, package, per_s, way, run) for way in WAYS}

    def _through(self, kafka: KafkaServer, package: str, per_s: int, way: str, run: Run) -> dict[str, Any]:
        sizes, servers = self.sizes, kafka.bootstrap_servers
        topics = [kafka.create_topic(partitions=_PARTITIONS) for _ in range(2)]
        name = f"latency-{package}-{way.replace('_', '-')}"
        numbers = [per_s, sizes.keys, _WARM_UP_S, sizes.latency_seconds]
        command = [sys.executable, str(HERE / "paced.py"), "read", servers, *topics, *map(str, numbers)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as reader:
            try:
                options = ["--endless", "--guarantee", WAYS[way]]
                program = ["kafka_count.py", *options, package, servers, *topics]
                run(name, program, lambda: reader.poll() is not None)
                output = reader.communicate()[0]
            finally:
                reader.kill()
        found = result_line(output)
        if found is None:
            raise MeasurementError(f"{name}: {output}")
        if way == "exactly_once" and found["twice"]:
            raise MeasurementError(f"{name}: {found['twice']} results came twice")
        return found
