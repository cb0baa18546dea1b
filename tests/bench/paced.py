"""How long records are under way: who writes them at a steady pace, and who notes when their results come.

Each record carries its number and its own time, on the monotonic clock, which all processes of a machine share. The writer
never waits for the job, so that a job which falls behind shows in the figures. ``python paced.py write SERVERS TOPIC PER_S
KEYS`` writes until it is stopped; ``python paced.py read SERVERS TOPIC WRITTEN PER_S KEYS WARM_UP_S SECONDS`` has it started
when the job runs, reads what is committed to WRITTEN, and prints the result as JSON.
"""

from __future__ import annotations

import argparse
import os
import socket
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer

from keyed_count import leave_own_folder, report
from log_figures import percentile

PAIR = "<qq"  # a record's number and its time in ns, as results come through a socket
_TICK_S = 0.001
_PATIENCE_S = 90.0  # for the first result, for the job to catch up, for the last results
_IN_TIME_NS = (
    1_500_000_000  # a checkpoint interval, after which results of transactions are seen, and a little
)
_POLL_S = 0.05
_AT_ONCE = (
    10_000  # results of a transaction come together: reading them one by one would be part of their latency
)
_MOST_KEPT = 100
_FIRST = -1  # the number of a record that only shows that the job runs


class Arrivals:
    """Notes results as they come, of the records that count.

    These are so many from some seconds after the first result on, and from when the job has worked off what came while it
    started: what a start costs is measured elsewhere.

    Args:
        per_s: how many records are written a second.
        warm_up_s: from the first result to the first record that may count.
        seconds: how long records count.
    """

    def __init__(self, per_s: int, warm_up_s: float, seconds: float) -> None:
        self._per_s = per_s
        self._warm_up_s = warm_up_s
        self._wanted = int(per_s * seconds)
        self._began_ns: int | None = None
        self._first: int | None = None
        self._latency_ms: dict[int, float] = {}
        self._twice = 0
        self._deadline_s = time.monotonic() + _PATIENCE_S

    @property
    def complete(self) -> bool:
        """Whether the result of each record that counts has come.

        Raises:
            RuntimeError: they do not come any more.
        """
        if len(self._latency_ms) == self._wanted:
            return True
        if time.monotonic() > self._deadline_s:
            if self._first is None:
                raise RuntimeError(f"the job did not catch up with {self._per_s} records a second")
            raise RuntimeError(f"only {len(self._latency_ms)} of {self._wanted} results came")
        return False

    def note(self, number: int, time_ns: int, now_ns: int) -> None:
        """The result of a record has come.

        Args:
            number: of the record.
            time_ns: the record's own.
            now_ns: when its result came.
        """
        first = self._first
        if first is None:
            self._wait_for_pace(number, time_ns, now_ns)
        elif 0 <= number - first < self._wanted:
            if number in self._latency_ms:
                self._twice += 1
            else:
                self._latency_ms[number] = (now_ns - time_ns) / 1e6

    def _wait_for_pace(self, number: int, time_ns: int, now_ns: int) -> None:
        if self._began_ns is None:
            self._began_ns = now_ns
            self._deadline_s = time.monotonic() + self._warm_up_s + _PATIENCE_S
        if now_ns - self._began_ns >= 1e9 * self._warm_up_s and now_ns - time_ns < _IN_TIME_NS:
            # None of these has come yet: they are younger than this result
            self._first = number + 2 * self._per_s
            self._deadline_s = time.monotonic() + self._wanted / self._per_s + _PATIENCE_S

    def result(self) -> dict[str, Any]:
        """Percentiles in ms, and how many results came twice."""
        values = list(self._latency_ms.values())
        shares = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
        return {
            "records": len(values),
            "twice": self._twice,
            **{f"{name}_ms": round(percentile(values, share), 1) for name, share in shares.items()},
            "max_ms": round(max(values), 1),
        }


def write(servers: str, topic: str, per_s: int, keys: int) -> None:
    """Write "key number time" until the process is stopped. What a late tick missed is written with the next.

    Args:
        servers: where the broker is.
        topic: what is written to.
        per_s: records a second.
        keys: how many there are.
    """
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, "acks": 1})
    began, number, parent = time.monotonic(), 0, os.getppid()
    while os.getppid() == parent:
        due = int((time.monotonic() - began) * per_s)
        while number < due:
            producer.produce(topic, f"{number * 7919 % keys} {number} {time.monotonic_ns()}")
            number += 1
        producer.poll(0)
        time.sleep(_TICK_S)


def read(servers: str, topic: str, written: str, per_s: int, keys: int, arrivals: Arrivals) -> dict[str, Any]:
    """Start the writer when the job gives results; read those as a consumer group of its own, until all are there.

    Args:
        servers: where the broker is.
        topic: what the job reads.
        written: where its results are: "key number time count".
        per_s, keys: see `write`.
        arrivals: notes them.
    """
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(topic, f"0 {_FIRST} 0")
    producer.flush()
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"latency-{uuid.uuid4()}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
        }
    )
    consumer.subscribe([written])
    writer = None
    came: list[tuple[int, list[Message]]] = []  # and when; looked into while nothing comes
    try:
        while not arrivals.complete:
            message = consumer.poll(0 if came else _POLL_S)
            if message is not None:
                together = [message, *consumer.consume(_AT_ONCE, 0)]
                came.append((time.monotonic_ns(), together))
                if len(came) < _MOST_KEPT:
                    continue
            for number, time_ns, now_ns in _results(came):
                if number != _FIRST:
                    arrivals.note(number, time_ns, now_ns)
                elif writer is None:
                    command = [sys.executable, __file__, "write", servers, topic, str(per_s), str(keys)]
                    writer = subprocess.Popen(command)
            came.clear()
    finally:
        if writer is not None:
            writer.kill()
        consumer.close()
    return arrivals.result()


def _results(came: Iterable[tuple[int, list[Message]]]) -> Iterator[tuple[int, int, int]]:
    """Of each message, the record's number and time, and when it came."""
    for now_ns, messages in came:
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
            number, time_ns = map(int, message.value().split()[1:3])
            yield number, time_ns, now_ns


def listen(path: Path, arrivals: Arrivals, stopped: Callable[[], bool]) -> dict[str, Any]:
    """Take results from a socket: pairs as struct packs them by `PAIR`, until all are there.

    Args:
        path: of the socket, which is made here.
        arrivals: notes them.
        stopped: whether there will be no more.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 * 2**20)
        server.bind(str(path))
        server.settimeout(_POLL_S)
        while not arrivals.complete and not stopped():
            try:
                pairs = server.recv(2**16)
            except TimeoutError:
                continue
            now_ns = time.monotonic_ns()
            for number, time_ns in struct.iter_unpack(PAIR, pairs):
                arrivals.note(number, time_ns, now_ns)
    return arrivals.result()


def main() -> None:
    """Command line: what to do, and with what."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("how", choices=["write", "read"])
    parser.add_argument("given", nargs="+")
    how, given = (arguments := parser.parse_args()).how, arguments.given
    if how == "write":
        servers, topic, *numbers = given
        write(servers, topic, *map(int, numbers))
    else:
        servers, topic, written, *numbers = given
        per_s, keys, warm_up_s, seconds = map(int, numbers)
        report(read(servers, topic, written, per_s, keys, Arrivals(per_s, warm_up_s, seconds)))


if __name__ == "__main__":
    leave_own_folder()
    main()
