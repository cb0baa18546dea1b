"""Reading a shard in a worker.

Invariants:
    * What is given out begins exactly after the position asked for, and follows the shard without a gap.
    * A request that failed for a reason that may pass is sent again, up to a limit and after growing waits, in which other
      shards are read.
    * No more than one answer is in store.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from changelog_engine.clock import WallClock, monotonic_s, wall_ms
from changelog_engine.connectors.data_loss import DataLoss
from changelog_engine.connectors.kinesis.clients import EXPIRED_ITERATOR, NOT_FOUND, Client, RequestError
from changelog_engine.connectors.kinesis.properties import ClientProperties
from changelog_engine.connectors.protocols import Position, Range, SplitReader
from changelog_engine.connectors.reconnecting import Trouble
from changelog_engine.connectors.schemas import unreadable
from changelog_engine.errors import RefusedForGoodError
from changelog_engine.graph.hooks import hook_of
from changelog_engine.types.copies import as_given

# A position: [kind, value, read to]. The last is the time up to which all was read, in ms of Kinesis's clock.
OLDEST, TIME, AFTER = "oldest", "time", "after"
_ITERATORS = {OLDEST: "TRIM_HORIZON", TIME: "AT_TIMESTAMP", AFTER: "AFTER_SEQUENCE_NUMBER"}
_WAIT_S = 0.005
_HOUR_MS = 3_600_000
_SHORTEST_RETENTION_MS = 24 * _HOUR_MS  # of Kinesis
_AGGREGATE = b"\xf3\x89\x9a\xc2"  # what the Kinesis Producer Library puts before several records in one
_EXPIRIES = 3  # of new iterators, one after the other


class KinesisRecord(NamedTuple):
    """A record as it is stored. ``timestamp`` is when it arrived, in ms."""

    stream: str
    shard: str
    sequence_number: str
    partition_key: str
    timestamp: int
    data: bytes


@dataclass(frozen=True)
class Polling:
    """How a shard is asked for records.

    Args:
        most: records in one answer.
        interval_s: between two requests; Kinesis allows five in a second for a shard.
        max_retries: how often a request is sent again.
        first_wait_s, longest_wait_s, growth: the waits before it.
    """

    most: int
    interval_s: float
    max_retries: int
    first_wait_s: float
    longest_wait_s: float
    growth: float

    @classmethod
    def of(cls, properties: ClientProperties) -> Polling:
        """As properties say, with Flink's defaults."""
        number, prefix = properties.number, "flink.shard.getrecords."
        return cls(
            most=number(prefix + "maxrecordcount", 10_000, 1, 10_000),
            interval_s=number(prefix + "intervalmillis", 200, 0, 600_000) / 1000,
            max_retries=number(prefix + "maxretries", 3, 0, 1_000_000),
            first_wait_s=number(prefix + "backoff.base", 300, 0, 3_600_000) / 1000,
            longest_wait_s=number(prefix + "backoff.max", 1000, 0, 3_600_000) / 1000,
            growth=properties.real(prefix + "backoff.expconst", 1.5, 1, 100),
        )

    def wait_s(self, tried: int) -> float:
        """The wait after a number of tries."""
        return min(self.longest_wait_s, self.first_wait_s * self.growth ** min(tried - 1, 100))


class ShardReader(SplitReader):
    """Reads one shard.

    Args:
        loss: what becomes of records that may have been deleted before the job read them.
    """

    def __init__(
        self,
        client: Client,
        closed: Callable[[], None],
        loss: DataLoss,
        polling: Polling,
        schema: Any,
        stream: str,
        shard: str,
        clock: Callable[[], float] = monotonic_s,
        now_ms: WallClock = wall_ms,
    ) -> None:
        self._client = client
        self._closed = closed
        self._loss = loss
        self._polling = polling
        whole = hook_of(schema, "deserialize_record")
        self._whole = whole is not None
        self._decode: Callable[[Any], Any] = schema.deserialize if whole is None else whole
        self._stream = stream
        self._shard = shard
        self._clock = clock
        self._now_ms = now_ms
        self._place: Position = None  # where the records in store begin
        self._stored: deque[dict[str, Any]] = deque()
        self._iterator: str | None = None
        self._ended = False  # nothing comes after what is in store
        self._behind_ms = 0
        self._due_s = 0.0
        self._failures = 0
        self._trouble = Trouble(str(client.failure(f"reading {self._named()}")), clock)

    def read(self, position: Position, max_records: int) -> Range:
        if position != self._place:
            self._turn(position)
        if not self._stored and not self._ended:
            self._fetch()
        count = min(max_records, len(self._stored))
        records = [self._record(self._stored.popleft()) for _ in range(count)]
        values, times = self._decoded(records)
        if records:
            self._place = [AFTER, records[-1].sequence_number, records[-1].timestamp]
        elif not self._ended and not self._behind_ms and self._failures == 0:
            self._caught_up()
        finished = self._ended and not self._stored
        if finished:
            self._place = [*self._place[:2], self._now_ms()]
        return Range(values, self._place, finished, times)

    def close(self) -> None:
        self._closed()

    def _turn(self, position: Position) -> None:
        """Read from another position on."""
        self._place = position
        self._stored.clear()
        self._iterator, self._ended = None, False
        self._behind_ms = 1  # until an answer says otherwise
        self._due_s = 0.0
        self._failures = 0

    def _caught_up(self) -> None:
        """There is nothing after the position now: note it from time to time, so that a checkpoint knows."""
        kind, value, read_to_ms = self._place
        now_ms = self._now_ms()
        if now_ms - read_to_ms > _HOUR_MS:
            self._place = [kind, value, now_ms]

    def _fetch(self) -> None:
        """Put what Kinesis gives into store; nothing when it is too early to ask."""
        now_s = self._clock()
        if now_s < self._due_s:
            if self._due_s - now_s > _WAIT_S:
                time.sleep(_WAIT_S)
            return
        try:
            if self._iterator is None:
                self._iterator = self._new_iterator()
            answer = self._client.call("get_records", ShardIterator=self._iterator, Limit=self._polling.most)
        except RequestError as error:
            self._failed(error)
            return
        self._failures = 0
        self._trouble.over()
        self._due_s = self._clock() + self._polling.interval_s
        self._stored.extend(answer["Records"])
        self._behind_ms = answer.get("MillisBehindLatest") or 0
        self._iterator = answer.get("NextShardIterator")
        self._ended = self._iterator is None

    def _failed(self, error: RequestError) -> None:
        expired = error.code == EXPIRED_ITERATOR
        # An iterator lives for five minutes: the next one begins at the position, behind what was given out.
        if expired:
            self._iterator = None
        elif not error.may_pass:
            hint = ": its records were deleted, by the stream's retention" if error.code == NOT_FOUND else ""
            raise self._client.refused(f"reading {self._named()} failed: {error}{hint}") from None
        self._failures += 1
        if self._failures > max(self._polling.max_retries, _EXPIRIES if expired else 0):
            raise self._client.failure(
                f"reading {self._named()} failed {self._failures} times: {error}. "
                "'flink.shard.getrecords.maxretries' says how often it is tried again"
            ) from None
        if not expired:
            self._trouble.again(str(self._client.failure(f"reading {self._named()} failed: {error}")))
        self._due_s = self._clock() + (0.0 if expired else self._polling.wait_s(self._failures))

    def _new_iterator(self) -> str:
        kind, value, read_to_ms = self._place
        self._check_retention(read_to_ms)
        arguments: dict[str, Any] = {"ShardIteratorType": _ITERATORS[kind]}
        if kind == AFTER:
            arguments["StartingSequenceNumber"] = value
        elif kind == TIME:
            arguments["Timestamp"] = value / 1000
        answer = self._client.call(
            "get_shard_iterator", StreamName=self._stream, ShardId=self._shard, **arguments
        )
        return str(answer["ShardIterator"])

    def _check_retention(self, read_to_ms: int) -> None:
        """Kinesis goes on silently with the oldest record that is left when the next one was deleted."""
        behind_ms = self._now_ms() - read_to_ms
        if behind_ms <= _SHORTEST_RETENTION_MS:
            return  # without a request: of those Kinesis allows 20 in a second, for all streams together
        summary = self._client.call("describe_stream_summary", StreamName=self._stream)
        kept_ms = summary["StreamDescriptionSummary"]["RetentionPeriodHours"] * _HOUR_MS
        if behind_ms <= kept_ms:
            return
        what = (
            f"the job has read {self._named()} up to {behind_ms // _HOUR_MS} hours ago, and the stream keeps its records "
            f"for {kept_ms // _HOUR_MS} hours: records between may have been deleted"
        )
        self._loss.found(str(self._client.failure(what)))

    def _record(self, given: dict[str, Any]) -> KinesisRecord:
        when = given.get("ApproximateArrivalTimestamp")
        arrived_ms = self._now_ms() if when is None else round(when.timestamp() * 1000)
        return KinesisRecord(
            self._stream,
            self._shard,
            given["SequenceNumber"],
            given["PartitionKey"],
            arrived_ms,
            given["Data"],
        )

    def _decoded(self, records: Sequence[KinesisRecord]) -> tuple[list[Any], list[int]]:
        values, times = [], []
        for record in records:
            data = record.data
            if data.startswith(_AGGREGATE) and hashlib.md5(data[4:-16]).digest() == data[-16:]:
                raise self._unreadable(
                    record,
                    "it is several records in one, made by the Kinesis Producer Library, which this version does not "
                    "take apart; switch its aggregation off (AggregationEnabled = false)",
                )
            try:
                value = as_given(self._decode(record if self._whole else data))
            except Exception as error:
                raise self._unreadable(record, error) from error
            if value is not None:
                values.append(value)
                times.append(record.timestamp)
        return values, times

    def _unreadable(self, record: KinesisRecord, why: Exception | str) -> RefusedForGoodError:
        which = str(self._client.failure(f"the record {record.sequence_number} of {self._named()}"))
        return unreadable(
            which, why, record.data, "Let the schema return None for records that are to be left out"
        )

    def _named(self) -> str:
        return f"shard {self._shard!r} of stream {self._stream!r}"
