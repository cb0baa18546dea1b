"""One process that has imported what workers need, and forks the workers of all stages: the first daemon that needs one.

Spark runs a daemon for each stage (``daemon.py``). What workers need takes more than half a second of CPU to import:
once for each stage, that was most of what the start of a job cost in Python. The daemons of one JVM that have the same
variables and path find each other by the name of a socket. Whoever has the name forks for all: it is asked over a
connection of its own for each worker, gets the worker's link, standard output and standard error, and answers with the
process's id. All else about a worker is its own daemon's.

Invariants:
    * A server and who asks it are processes of one user and children of one parent; others are not answered, and not asked.
    * A daemon that gets no answer, for whatever reason, forks by itself: the server saves time and is never needed.
    * A worker whose daemon has not heard of it has a closed link, and ends.
    * The kernel takes the name back when its process ends; the next daemon that needs a worker has it then.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

_INT = struct.Struct("!i")  # bytes that follow; a process
_PEER = struct.Struct("3i")  # process, user, group
_ANSWER_S = 60  # it may be importing, on a busy machine
_ASKED_S = 10
_LONGEST = 1 << 26
_DESCRIPTORS = 3
_BACKLOG = 1024


class WorkerRequest(NamedTuple):
    """What a daemon asks for.

    Args:
        broadcasts: variables that it knows, each as number and path.
        descriptors: the worker's link, standard output and standard error. They are the receiver's to close.
    """

    pin: str
    subtask: int
    broadcasts: list[bytes]
    descriptors: list[int]


class Asking(NamedTuple):
    """A request that has come."""

    connection: socket.socket
    daemon: int  # the process that asks, whose process group the worker joins
    request: WorkerRequest


def name_of_server(variables: Iterable[tuple[str, str]]) -> bytes | None:
    """The name by which daemons that can fork each other's workers meet; None outside of Linux or in a deleted folder."""
    if sys.platform != "linux":
        return None
    try:
        alike = [os.getppid(), os.getcwd(), sys.executable, *sys.path, list(sys.flags), sorted(variables)]
    except OSError:  # the folder is gone
        return None
    return b"\0changelog-engine-" + hashlib.sha256(json.dumps(alike).encode()).hexdigest().encode()


def become_server(name: bytes) -> socket.socket | None:
    """The socket on which requests come; None if another process has the name."""
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(name)
        listening.listen(_BACKLOG)
    except OSError:
        listening.close()
        return None
    listening.setblocking(False)
    return listening


def ask(name: bytes, request: WorkerRequest) -> int | None:
    """Have the server fork a worker; returns its process, or None if there is no server, or none that answers."""
    told = [each.decode("latin-1") for each in request.broadcasts]
    body = json.dumps([request.pin, request.subtask, told]).encode()
    with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_ANSWER_S)
        connection.connect(name)
        if _sibling(connection) is not None:
            socket.send_fds(connection, [_INT.pack(len(body))], request.descriptors)
            connection.sendall(body)
            process: int = _INT.unpack(exactly(connection, _INT.size))[0]
            return process
    return None


def accept(listening: socket.socket) -> Asking | None:
    """The next request; None if it is not one, or somebody else's."""
    try:
        connection, _ = listening.accept()
    except OSError:
        return None
    descriptors: list[int] = []
    try:
        connection.settimeout(_ASKED_S)
        daemon = _sibling(connection)
        if daemon is None:
            raise ConnectionError("somebody else's")
        size, descriptors, _, _ = socket.recv_fds(connection, _INT.size, _DESCRIPTORS)
        keep_from_programs(descriptors)
        length = _INT.unpack(size + exactly(connection, _INT.size - len(size)))[0]
        if len(descriptors) != _DESCRIPTORS or not 0 <= length <= _LONGEST:
            raise ConnectionError("not a request")
        pin, subtask, told = json.loads(exactly(connection, length))
        broadcasts = [each.encode("latin-1") for each in told]
    except (OSError, ValueError):
        for each in descriptors:
            os.close(each)
        connection.close()
        return None
    return Asking(connection, daemon, WorkerRequest(pin, subtask, broadcasts, list(descriptors)))


def answer(connection: socket.socket, process: int) -> None:
    """Tell the worker's process."""
    with suppress(OSError):  # who asked has ended, and so will the worker
        connection.sendall(_INT.pack(process))


def _sibling(connection: socket.socket) -> int | None:
    """The process at the other side, if it is of this user and this one's parent has started it."""
    given = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    process, user, _ = _PEER.unpack(given)
    with suppress(OSError), open(f"/proc/{process}/stat", "rb") as file:
        parent = int(file.read().rpartition(b")")[2].split()[1])  # behind a name, which may be any bytes
        if user == os.geteuid() and parent == os.getppid():
            return int(process)
    return None


def keep_from_programs(descriptors: Iterable[int]) -> None:
    """Close descriptors that came over a socket in what this process starts, as Python does with all others.

    A program that a user's function leaves running would hold a worker's link and connection: its end would not be heard.
    """
    for each in descriptors:
        os.set_inheritable(each, False)


def exactly(connection: socket.socket, size: int) -> bytes:
    """So many bytes.

    Raises:
        OSError: there are fewer.
    """
    found = b""
    while len(found) < size:
        more = connection.recv(size - len(found))
        if not more:
            raise ConnectionError("the connection ended")
        found += more
    return found
