"""The Kinesis sink: at least once.

Invariants:
    * What came before a barrier is in the stream when the checkpoint is made.
    * Every record's result in a response is looked at; one that failed is sent again, or fails the job.
    * Of each partition key the stream's last record is the last one written.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from changelog_engine.clock import monotonic_s
from changelog_engine.connectors.collecting import CollectingWriter, to_send_again
from changelog_engine.connectors.kinesis.clients import Client, RequestError
from changelog_engine.connectors.kinesis.properties import ClientProperties
from changelog_engine.connectors.packages import KINESIS
from changelog_engine.connectors.protocols import CommittingSink, SinkContext
from changelog_engine.connectors.reconnecting import Trouble
from changelog_engine.connectors.schemas import unwritable
from changelog_engine.connectors.still_ours import check_still_ours
from changelog_engine.errors import TypeMismatchError
from changelog_engine.types.typeinfo import shown, shown_bytes

MOST_RECORDS = 500  # of Kinesis, in a request
MOST_BYTES = 5 << 20
MOST_RECORD_BYTES = 1 << 20
_MOST_TRIES = 50  # without any record getting through
_FIRST_WAIT_S = 0.05
_LONGEST_WAIT_S = 5.0
_LONGEST_KEY = 256


@dataclass(frozen=True)
class SinkOptions:
    """In which portions records are written."""

    batch_size: int = MOST_RECORDS
    batch_bytes: int = MOST_BYTES  # bytes in a request, keys included
    record_bytes: int = MOST_RECORD_BYTES  # of a record, its key included
    time_in_buffer_ms: int = 5_000  # how long a record waits at most
    fail_on_error: bool = False  # whether a record that was not taken fails the job at once


class _Record(NamedTuple):
    key: str
    data: bytes

    @property
    def size(self) -> int:
        return len(self.data) + len(self.key.encode())


@dataclass(eq=False, repr=False)
class KinesisSink(CommittingSink):
    """Writes elements to a stream.

    Args:
        schema: has ``serialize(element)``.
        key_of: element -> partition key; None for one of each subtask; or "random".
    """

    stream: str
    schema: Any
    key_of: Callable[[Any], str] | str | None
    properties: ClientProperties
    options: SinkOptions

    def __post_init__(self) -> None:
        KINESIS.load()

    def check_before_start(self) -> None:
        """Raise when Kinesis does not answer, does not know the caller, or has no such stream."""
        with contextlib.closing(Client(self.properties)) as client:
            client.check_stream(self.stream)

    def committing_writer(self, context: SinkContext) -> KinesisWriter:
        return KinesisWriter(self, context.subtask)


class KinesisWriter(CollectingWriter):
    """Collects records, and sends them when they are enough, old enough, or a barrier comes."""

    def __init__(
        self,
        sink: KinesisSink,
        subtask: int,
        clock: Callable[[], float] = monotonic_s,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(sink.options.time_in_buffer_ms / 1000, clock)
        self._stream = sink.stream
        self._options = sink.options
        self._serialize: Callable[[Any], bytes] = sink.schema.serialize
        self._key_of = _keys(sink.key_of, subtask)
        self._sleep = sleep
        self._client = Client(sink.properties)
        self._trouble = Trouble(f"Kinesis ({sink.properties.where}), stream {sink.stream!r}", clock)

    def write(self, values: Sequence[Any]) -> None:
        options = self._options
        for value in values:
            record = self._record(value)
            size = record.size
            if self._size_bytes + size > options.batch_bytes:
                self._flush()
            if not self._waiting:
                self._oldest_s = self._clock()
            self._waiting.append(record)
            self._size_bytes += size
            if len(self._waiting) >= options.batch_size:
                self._flush()
        self.end_epoch()

    def close(self) -> None:
        super().close()
        self._client.close()

    def _record(self, value: Any) -> _Record:
        data, key = self._serialize(value), self._key_of(value)
        if not isinstance(data, (bytes, bytearray)):
            raise unwritable("the schema of a Kinesis sink", data, value)
        if type(key) is not str or not 1 <= len(key) <= _LONGEST_KEY:
            raise TypeMismatchError(
                f"the partition key {shown(key)} of {shown(value)} is not a str of 1 to {_LONGEST_KEY} characters"
            )
        record = _Record(key, bytes(data))
        if record.size > self._options.record_bytes:
            raise self._client.refused(
                f"a record for stream {self._stream!r} with partition key {key!r} is too large: {record.size} bytes are "
                f"more than {self._options.record_bytes}. It is {shown_bytes(record.data)}"
            )
        return record

    def _send(self, records: Sequence[_Record]) -> None:
        """Send records until the stream has all.

        Raises:
            ConnectorError: it refuses them, or takes none for too long.
        """
        tried = 0
        while records:
            check_still_ours()
            left, trouble = self._put(records)
            if not left:
                self._trouble.over()
                return
            if self._options.fail_on_error:
                raise self._client.failure(
                    f"stream {self._stream!r} did not take {len(left)} of {len(records)} records: {trouble}. "
                    "set_fail_on_error(False) lets them be sent again"
                )
            tried = tried + 1 if len(left) == len(records) else 1
            if tried >= _MOST_TRIES:
                raise self._client.failure(
                    f"stream {self._stream!r} took none of {len(left)} records in {tried} tries: {trouble}"
                )
            failed = f"stream {self._stream!r} did not take {len(left)} of {len(records)} records: {trouble}"
            self._trouble.again(str(self._client.failure(failed)))
            self._sleep(min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** (tried - 1)))
            records = left

    def _put(self, records: Sequence[_Record]) -> tuple[Sequence[_Record], str]:
        """Send records once; which are to be sent again, and why."""
        entries = [{"PartitionKey": record.key, "Data": record.data} for record in records]
        try:
            answer = self._client.call("put_records", StreamName=self._stream, Records=entries)
        except RequestError as error:
            if not error.may_pass:
                raise self._client.refused(f"writing to stream {self._stream!r} failed: {error}") from None
            return records, str(error)
        results = answer["Records"]
        failed = [at for at, result in enumerate(results) if result.get("ErrorCode")]
        if len(results) != len(records) or (answer.get("FailedRecordCount") or 0) != len(failed):
            raise self._client.failure(
                f"a request of {len(records)} records for stream {self._stream!r} was answered with {len(results)} results, "
                f"{len(failed)} of them failures, and the count of failures {answer.get('FailedRecordCount')}"
            )
        if not failed:
            return (), ""
        first = results[failed[0]]
        again = to_send_again(records, set(failed), lambda record: record.key)
        return again, f"{first['ErrorCode']}: {first.get('ErrorMessage')}"


def _keys(key_of: Callable[[Any], str] | str | None, subtask: int) -> Callable[[Any], str]:
    if callable(key_of):
        return key_of
    if key_of is None:
        fixed = str(subtask)
        return lambda value: fixed
    return lambda value: uuid.uuid4().hex
