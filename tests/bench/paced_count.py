"""The keyed count of records that come at a steady pace, without a broker: their numbers and times go into a socket.

``python paced_count.py SOCKET PER_S KEYS [KEY=VALUE ...]`` runs until it is stopped; what listens is `paced.listen`.
"""

from __future__ import annotations

import argparse
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

from changelog_engine.api.common import Configuration, Types, WatermarkStrategy
from changelog_engine.api.datastream import (
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from changelog_engine.api.datastream.state import ValueStateDescriptor
from changelog_engine.connectors import Range, Sink, SinkWriter, Source, Split, SplitReader
from keyed_count import leave_own_folder
from paced import PAIR

SUBTASKS = 2
_AT_ONCE = 4_096  # pairs in a datagram


class PacedSource(Source):
    """Gives (key, number, time in ns); a record is there from its time on.

    Args:
        per_s: records a second.
        keys: how many there are.
    """

    def __init__(self, per_s: int, keys: int) -> None:
        self.per_s = per_s
        self.keys = keys
        self.began_ns = time.monotonic_ns()

    def splits(self, parallelism: int) -> list[Split]:
        """One for each subtask: every n-th number."""
        return [Split(str(number), number) for number in range(SUBTASKS)]

    def reader(self, split: Split) -> SplitReader:
        """A reader of every n-th number."""
        return _PacedReader(self)


class _PacedReader(SplitReader):
    def __init__(self, source: PacedSource) -> None:
        self._source = source
        self.behind = 0

    def read(self, position: int, max_records: int) -> Range:
        source = self._source
        due = (time.monotonic_ns() - source.began_ns) * source.per_s // 10**9
        waiting = max(0, -(-(due - position) // SUBTASKS))
        end = position + SUBTASKS * min(waiting, max_records)
        self.behind = max(0, waiting - max_records)
        tick = 10**9 // source.per_s
        records = [
            (number * 7919 % source.keys, number, source.began_ns + number * tick)
            for number in range(position, end, SUBTASKS)
        ]
        return Range(records, end, False)


class SocketSink(Sink):
    """Sends pairs of a record's number and its time.

    Args:
        path: of the socket.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """See Sink."""
        return _SocketWriter(self.path)


class _SocketWriter(SinkWriter):
    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.connect(path)

    def write(self, values: Sequence[Any]) -> None:
        for start in range(0, len(values), _AT_ONCE):
            pairs = values[start : start + _AT_ONCE]
            self._socket.send(b"".join(struct.pack(PAIR, number, time_ns) for number, time_ns in pairs))

    def flush(self) -> None:
        """All was sent."""


class CountPerKey(KeyedProcessFunction):
    """Counts the elements of the current key; emits number and time of each."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """The state."""
        self.state = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        """One more."""
        self.state.update((self.state.value() or 0) + 1)
        yield value[1], value[2]


def run(path: str, per_s: int, keys: int, settings: dict[str, str]) -> None:
    """Run the job until it is stopped.

    Args:
        path: of the socket that results go to.
        per_s: records a second.
        keys: how many there are.
        settings: configuration, in Flink's own keys.
    """
    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(SUBTASKS)
    three, two = (Types.TUPLE([Types.LONG()] * number) for number in (3, 2))
    records = env.from_source(PacedSource(per_s, keys), WatermarkStrategy.no_watermarks(), "paced", three)
    counted = records.key_by(lambda record: record[0], Types.LONG()).process(CountPerKey(), two)
    counted.sink_to(SocketSink(path))
    env.execute("paced-count")


def main() -> None:
    """Command line: socket, records a second, keys, KEY=VALUE settings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("socket")
    parser.add_argument("per_s", type=int)
    parser.add_argument("keys", type=int)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    given = parser.parse_args()
    run(given.socket, given.per_s, given.keys, dict(setting.split("=", 1) for setting in given.settings))


if __name__ == "__main__":
    leave_own_folder()
    main()
