"""A standalone Spark cluster: a master, and workers that are machines of their own as far as one machine can show it.

Each worker has an address of its own in 127/8, so that executors are on different hosts for Spark, and a folder of its own
for all that it writes. A worker's executors and their Python processes are in its session: `kill` takes the machine away.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyspark

from servers.process import HOST, Server, accepts_connections, java, wait_for
from servers.spark_classes import java_options

_JARS = Path(pyspark.__file__).parent / "jars"
_DEPLOY = "org.apache.spark.deploy"
_GONE_TIMEOUT_S = 60.0


class SparkMaster(Server):
    """The master; it has no executors.

    Attributes:
        url: Its ``spark://`` address.
    """

    name = "spark-master"

    @classmethod
    def check_installed(cls) -> None:
        java()

    @property
    def url(self) -> str:
        """What ``spark.master`` is for its applications."""
        return f"spark://{HOST}:{self.port}"

    def prepare(self) -> None:
        pass

    def command(self) -> list[str]:
        ports = ["--port", str(self.port), "--webui-port", "0"]
        return [*_java(), f"{_DEPLOY}.master.Master", "--host", HOST, *ports]

    def environment(self) -> dict[str, str]:
        return {"SPARK_LOCAL_IP": HOST, **_installation()}

    def is_ready(self) -> bool:
        return accepts_connections(self.port)


class SparkWorker(Server):
    """A worker with an address of its own.

    Args:
        master: where it registers.
        host: its address, in 127/8.
        cores: how many tasks its executors run at a time.
        memory_mb: what its executors may have together, in MiB.
        variables: its environment's, and so its executors', beside those of this process.
    """

    name = "spark-worker"

    def __init__(
        self,
        master: SparkMaster,
        host: str,
        cores: int = 1,
        memory_mb: int = 1024,
        variables: dict[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._master = master
        self.host = host
        self._resources = ["--cores", str(cores), "--memory", f"{memory_mb}m"]
        self._variables = variables or {}

    @classmethod
    def check_installed(cls) -> None:
        java()

    def prepare(self) -> None:
        (self.folder / "scratch").mkdir()

    def command(self) -> list[str]:
        folder = ["--work-dir", str(self.folder / "work"), "--webui-port", "0"]
        return [
            *_java(),
            f"{_DEPLOY}.worker.Worker",
            *("--host", self.host, *self._resources, *folder),
            self._master.url,
        ]

    def environment(self) -> dict[str, str]:
        scratch = str(self.folder / "scratch")
        return {
            "SPARK_LOCAL_IP": self.host,
            "SPARK_LOCAL_DIRS": scratch,
            "TMPDIR": scratch,
            **_installation(),
            **self._variables,
        }

    def is_ready(self) -> bool:
        # Each start writes it anew, below what earlier ones wrote.
        return (
            self.log.read_text(errors="replace")[self._said :].find("Successfully registered with master")
            >= 0
        )

    def start(self) -> None:
        self._said = len(self.log.read_text(errors="replace")) if self.log.exists() else 0
        super().start()

    def executors(self, profile: int | None = None) -> list[int]:
        """Process ids of its executors' JVMs: of all, or of those of a resource profile."""
        wanted = "" if profile is None else f"--resourceProfileId {profile} "
        return [
            pid
            for pid, command in self._processes()
            if "CoarseGrainedExecutorBackend" in command and wanted in command
        ]

    def send(self, sent: signal.Signals) -> None:
        """Send a signal to the machine's executors and their Python processes, and not to the worker."""
        for pid, _ in self._processes():
            if pid != self.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, sent)

    def kill(self) -> None:
        """The machine is gone, at once: the worker, its executors, their Python processes."""
        left = list(self._processes())
        # The worker goes first: it would start executors again.
        for pid, _ in sorted(left, key=lambda process: process[0] != self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_for(
            lambda: not [p for p in self._processes() if p[0] != self.pid],
            "executors to end",
            _GONE_TIMEOUT_S,
        )
        super().kill()

    def _processes(self) -> Iterator[tuple[int, str]]:
        """The live processes of the worker's session: id and command line."""
        if self.pid is None:
            return
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                state, _, _, session = (
                    (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:4]
                )
                if session == str(self.pid) and state != "Z":
                    yield (
                        int(entry.name),
                        (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"),
                    )


@contextlib.contextmanager
def spark_cluster(
    hosts: Iterable[str], cores: int = 1, memory_mb: int = 1024
) -> Iterator[tuple[SparkMaster, list[SparkWorker]]]:
    """A master and workers, which start side by side."""
    with contextlib.ExitStack() as stack:
        master = stack.enter_context(SparkMaster())
        yield master, [stack.enter_context(SparkWorker(master, host, cores, memory_mb)) for host in hosts]


def _java() -> list[str]:
    """Java with the options of the tests' drivers, and Spark's own class path: that of the archive of its classes."""
    first, *_ = sorted(_JARS.glob("slf4j-api-*.jar"))
    return [java(), "-Xmx256m", *java_options().split(), "-cp", f"{_JARS.parent / 'conf'}:{first}:{_JARS}/*"]


def _installation() -> dict[str, str]:
    return {"SPARK_HOME": str(_JARS.parent), "SPARK_SCALA_VERSION": "2.13", "HADOOP_USER_NAME": "tester"}
