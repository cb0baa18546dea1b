"""A server as a process of ours: started, stopped, killed and started again on the same data and port.

1. The server leads a process group of its own, so that Ctrl-C in a terminal does not reach it.
2. A shell reads process ids from a pipe whose other end only we hold. When we end without having closed the server, the pipe
   ends, and the shell kills the last process and removes the folder. It does not matter which thread started the server, nor
   how we ended.
3. Ports are below those that the system gives to clients. So between `kill()` and `start()` no client can take the port.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

HOST = "127.0.0.1"
# Resolved: Java uses kept classes only with the class path that they were kept with.
CACHE = (Path(__file__).resolve().parents[2] / ".servers").resolve()
_PORTS = range(15_000, 32_000)
_START_TIMEOUT_S = 180.0
_STOP_TIMEOUT_S = 120.0
_POLL_S = 0.05
_LOG_TAIL_CHARS = 4_000
_WATCH = 'while read -r pid; do last=$pid; done; [ -z "$last" ] || kill -s KILL -- "-$last"; rm -rf -- "$1"'
_random = random.Random(os.urandom(8))  # not the global one, which random tests seed


class ServerMissing(Exception):
    """What a server needs is not installed; the message says what to do."""


class ServerFailed(Exception):
    """A server did not start; the message ends with its log."""


def is_required(name: str) -> bool:
    """Whether tests must not do without it: ``SERVERS_REQUIRED`` names such servers, or is 1 for all; so is ``CI`` alone."""
    named = os.environ.get("SERVERS_REQUIRED") or ("1" if os.environ.get("CI") else "")
    return named == "1" or name in named.split()


def java() -> str:
    """The program that runs the jars of servers."""
    folders = [str(Path(os.environ["JAVA_HOME"]) / "bin")] if os.environ.get("JAVA_HOME") else []
    return require_program("java", folders, package="openjdk-17-jre-headless")


def classes_of(libraries: Path) -> Path:
    """Where a server's classes lie as the JVM has them in memory, from which it starts in half the time."""
    return libraries.with_name(f"{libraries.name}.jsa")


def classes_options(libraries: Path) -> list[str]:
    """What a server's JVM uses them with, when they are there. A JVM that cannot use them goes without."""
    classes = classes_of(libraries)
    return [f"-XX:SharedArchiveFile={classes}"] if classes.is_file() else []


def free_port() -> int:
    """A port that nobody listens on."""
    for _ in range(1_000):
        port = _random.choice(_PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((HOST, port))
                return port
    raise ServerFailed(f"no free port in {_PORTS}")


def accepts_connections(port: int) -> bool:
    """Whether somebody listens on a port."""
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
        return True
    return False


def find_program(name: str, folders: Iterable[str] = ()) -> str | None:
    """The path of a program in `PATH` or in one of the folders, or None."""
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *folders]))


def require_program(name: str, folders: Iterable[str] = (), *, package: str) -> str:
    """The path of a program.

    Raises:
        ServerMissing: It is not installed.
    """
    found = find_program(name, folders)
    if found is None:
        raise ServerMissing(
            f"'{name}' is not installed (Debian, Ubuntu: apt-get install {package}); then: make servers"
        )
    return found


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float) -> None:
    """Wait until a condition holds.

    Raises:
        ServerFailed: It did not within the time.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise ServerFailed(f"{what}: not within {timeout_s:g} s")
        time.sleep(_POLL_S)


def _stat(pid: int | str) -> list[str]:
    """State, parent and so on of a process, where the system shows it; of one that has ended, nothing."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return []


def _children(pid: int) -> list[int]:
    processes = [entry.name for entry in Path("/proc").glob("[0-9]*")]
    return [int(process) for process in processes if _stat(process)[1:2] == [str(pid)]]


def _lives(pid: int) -> bool:
    return _stat(pid)[:1] not in ([], ["Z"])


def _stands(group: int) -> bool:
    """Whether all threads of a process group are stopped: those of a busy machine answer for a moment after the signal."""
    processes = [entry.name for entry in Path("/proc").glob("[0-9]*")]
    members = [process for process in processes if _stat(process)[2:3] == [str(group)]]
    threads = [f"{pid}/task/{entry.name}" for pid in members for entry in Path(f"/proc/{pid}/task").glob("*")]
    return all(_stat(thread)[:1] in (["T"], ["Z"], []) for thread in threads)


class Server(ABC):
    """One server. `start()` first prepares its data; later starts go on with them.

    Attributes:
        name: The server's, for messages.
        users: Accounts to run as when we are root and the server refuses to run as root; the first that exists is taken.
        stop_signal: The signal upon which the server ends in good order.
        folder: Its data, configuration and log.
        port: Where it listens, on 127.0.0.1, after every start.
    """

    name: ClassVar[str]
    users: ClassVar[tuple[str, ...]] = ()
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self) -> None:
        self.check_installed()
        self.folder = Path(tempfile.mkdtemp(prefix=f"server-{self.name}-"))
        self.port = free_port()
        self._identity = self._account()
        if self._identity:
            os.chown(self.folder, self._identity["user"], self._identity["group"])
        self._prepared = False
        self._process: subprocess.Popen[bytes] | None = None
        self._watch = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "watch", str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @classmethod
    @abstractmethod
    def check_installed(cls) -> None:
        """Raise `ServerMissing` when something is not installed."""

    @abstractmethod
    def prepare(self) -> None:
        """Make the data folder and the configuration, once."""

    @abstractmethod
    def command(self) -> list[str]:
        """The server's command line."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether it answers requests."""

    def environment(self) -> dict[str, str]:
        """What the server's environment has more than ours."""
        return {}

    @property
    def log(self) -> Path:
        """What the server and its tools printed."""
        return self.folder / "log.txt"

    @property
    def pid(self) -> int | None:
        """The running server's process id, or None."""
        return self._process.pid if self.running and self._process else None

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, and wait until it answers.

        Raises:
            ServerFailed: It runs already, ended at once or did not answer in time.
        """
        if self.running:
            raise ServerFailed(f"{self.name} runs already")
        self._reap()
        if not self._prepared:
            self.prepare()
            self._prepared = True
        self._process = self._spawn(self.command())
        try:
            wait_for(lambda: not self.running or self.is_ready(), f"{self.name} to answer", _START_TIMEOUT_S)
            if not self.running:
                raise ServerFailed(f"{self.name} ended with status {self._process.returncode}")
        except ServerFailed as failed:
            self.kill()
            raise ServerFailed(f"{failed}; its log ends with:\n{self._log_tail()}") from None

    def stop(self) -> bool:
        """End it; nothing happens when it does not run.

        Returns:
            Whether it ended in good order; else it was killed.
        """
        if self._process is not None and self.running:
            self._process.send_signal(self.stop_signal)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_TIMEOUT_S)
        in_order = not self.running
        self.kill()
        return in_order

    def kill(self) -> None:
        """End it and its workers as ``kill -9`` does; nothing happens when it does not run."""
        if self._process is not None and self.running:
            # PostgreSQL's workers lead groups of their own, and would live on for a moment.
            workers = _children(self._process.pid)
            os.killpg(self._process.pid, signal.SIGKILL)
            for worker in workers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
            self._process.wait()
            wait_for(lambda: not any(map(_lives, workers)), f"{self.name}'s workers to end", _STOP_TIMEOUT_S)
        self._reap()

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Let it stand still meanwhile, as ``kill -STOP`` does: it takes connections, and answers nothing."""
        assert self._process is not None
        group = self._process.pid
        os.killpg(group, signal.SIGSTOP)
        try:
            wait_for(lambda: _stands(group), f"{self.name} to stand still", _STOP_TIMEOUT_S)
            yield
        finally:
            os.killpg(group, signal.SIGCONT)

    def close(self) -> None:
        """Kill it and remove its data; it cannot be started again."""
        self.kill()
        self._watch.communicate()

    def run_tool(self, command: list[str]) -> None:
        """Run a program of the server's, as the server's user, in its folder.

        Raises:
            ServerFailed: It ended with another status than 0, or did not end in time.
        """
        self._process = self._spawn(command)
        try:
            status: int | str = self._process.wait(_START_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            status = f"none within {_START_TIMEOUT_S:g} s"
        self._reap()
        if status:
            raise ServerFailed(f"{self.name}: {command[0]} ended with status {status}:\n{self._log_tail()}")

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**os.environ, "HOME": str(self.folder), **self.environment()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **self._identity,
            )
        self._tell_watch(str(process.pid))
        return process

    def _account(self) -> dict[str, Any]:
        """Arguments of Popen that change the user, where needed."""
        if not self.users or os.geteuid() != 0:
            return {}
        for user in self.users:
            with contextlib.suppress(KeyError):
                account = pwd.getpwnam(user)
                return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        raise ServerMissing(
            f"{self.name} does not run as root, and there is no user {' or '.join(self.users)}"
        )

    def _reap(self) -> None:
        """Wait for the ended process; its id may become another's now."""
        if self._process is not None:
            self._process.wait()
            self._process = None
            self._tell_watch("")

    def _tell_watch(self, pid: str) -> None:
        assert self._watch.stdin is not None
        self._watch.stdin.write(f"{pid}\n".encode())
        self._watch.stdin.flush()

    def _log_tail(self) -> str:
        if not self.log.exists():
            return ""
        return self.log.read_text(errors="replace")[-_LOG_TAIL_CHARS:]
