"""The Kinesis source: a split is a shard, a position says after which record reading goes on.

Invariants:
    * A shard is read only when those that it was made of were read to their ends.
    * Every shard that is made while the job runs, or stands still, is read; where one was deleted unread, the job says so.
    * Positions are of one stream: where it was deleted and made anew, none of the old one's is used for the new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, NamedTuple

from changelog_engine.connectors.kinesis.clients import Client, RequestError
from changelog_engine.connectors.kinesis.properties import ClientProperties
from changelog_engine.connectors.kinesis.reader import AFTER, OLDEST, TIME, Polling, ShardReader
from changelog_engine.connectors.packages import KINESIS
from changelog_engine.connectors.protocols import DiscoveringSource, Position, Split
from changelog_engine.connectors.reconnecting import Trouble
from changelog_engine.connectors.shared_client import SharedClient
from changelog_engine.errors import ConfigurationError, ConnectorError

_DISCOVERY_INTERVAL_MS = 10_000


class Shard(NamedTuple):
    """A shard of a stream, the ids of those that it was made of, whether records still go into it, and its first number."""

    stream: str
    id: str
    parents: tuple[str, ...]
    open: bool
    starts_at: int

    @property
    def split_id(self) -> str:
        """Its split's id."""
        return f"{self.stream}/{self.id}"


class KinesisSource(DiscoveringSource):
    """Reads streams from sequence numbers of its own. It never ends.

    Args:
        schema: has ``deserialize(bytes)``, or ``deserialize_record(KinesisRecord)``; None leaves a record out.
            ``get_produced_type`` says of what type its elements are.
    """

    timed = True
    watermarks_by_split = True

    def __init__(self, streams: tuple[str, ...], schema: Any, properties: ClientProperties) -> None:
        KINESIS.load()
        self.streams = streams
        self.schema = schema
        self.properties = properties
        self.polling = Polling.of(properties)
        self.output_type = schema.get_produced_type()
        self.discovery_interval_ms: int | None = properties.number(
            "flink.shard.discovery.intervalmillis", _DISCOVERY_INTERVAL_MS, 1
        )
        self._client = SharedClient(partial(Client, properties))
        self._looks = False
        self._trouble = Trouble(f"Kinesis ({properties.where}): looking for new shards")

    def check_before_start(self) -> None:
        """Raise when Kinesis does not answer, does not know the caller, or has no such stream."""
        with self._client.taken() as client:
            for stream in self.streams:
                client.check_stream(stream)

    def splits(self, parallelism: int) -> list[Split]:
        with self._client.taken() as client:
            try:
                return [split for stream in self.streams for split in self._first(client, stream)]
            except RequestError as error:
                raise client.failure(f"planning the splits failed: {error}") from None

    def _first(self, client: Client, stream: str) -> list[Split]:
        kind, from_ms = self.properties.initial_position()
        now_ms = server_time_ms(client.check_stream(stream))
        shards = _shards(client, stream)
        if kind == "LATEST":
            return [Split(shard.split_id, [TIME, now_ms, now_ms]) for shard in shards if shard.open]
        if from_ms is not None and from_ms > now_ms:
            raise ConfigurationError(
                f"{self.properties.what}: property 'flink.stream.initpos.timestamp' lies {(from_ms - now_ms) / 1000:g} s in "
                "the future"
            )
        ids = {shard.id for shard in shards}
        start: Position = [OLDEST, None, now_ms] if from_ms is None else [TIME, from_ms, now_ms]
        return [Split(shard.split_id, start) for shard in shards if not ids.intersection(shard.parents)]

    def discover(self, known: Mapping[str, tuple[Position, bool]]) -> list[Split]:
        """When Kinesis does not answer, it is asked again later."""
        if not self._looks:
            self._looks = True  # what looks every ten seconds keeps its client
            self._client.take()
        with self._client.taken() as client:
            try:
                found = [split for stream in self.streams for split in self._children(client, stream, known)]
            except RequestError as error:
                self._trouble.again(str(client.failure(f"looking for new shards failed: {error}")))
                return []
        self._trouble.over()
        return found

    def job_ended(self) -> None:
        if self._looks:
            self._looks = False
            self._client.give_back()

    def _children(
        self, client: Client, stream: str, known: Mapping[str, tuple[Position, bool]]
    ) -> list[Split]:
        shards = {shard.id: shard for shard in _shards(client, stream)}
        _check_not_made_anew(client, shards.values(), known)
        read = {name.removeprefix(f"{stream}/") for name in known if name.startswith(f"{stream}/")}
        ended = {name for name in read if known[f"{stream}/{name}"][1]}
        skipped = _ancestors(read, shards)  # older than where the job began
        found = []
        for shard in shards.values():
            if shard.id in read or shard.id in skipped:
                continue
            waits = [
                parent for parent in shard.parents if parent not in ended and parent in shards.keys() | read
            ]
            if waits:
                continue
            if not ended.intersection(shard.parents):
                self._lost(client, shard)
            found.append(Split(shard.split_id, self._start_of_child(shard, stream, known)))
        return found

    def _start_of_child(
        self, shard: Shard, stream: str, known: Mapping[str, tuple[Position, bool]]
    ) -> Position:
        """Its oldest record; or the time at which the job begins, where none of its parents' records was as late."""
        positions = [
            known[f"{stream}/{parent}"][0] for parent in shard.parents if f"{stream}/{parent}" in known
        ]
        times = [position for position in positions if position[0] == TIME]
        if times and len(times) == len(positions):
            return [TIME, times[0][1], times[0][2]]
        return [OLDEST, None, min((position[2] for position in positions), default=0)]

    def _lost(self, client: Client, shard: Shard) -> None:
        what = (
            f"shard {shard.id!r} of stream {shard.stream!r} was made of shards that are no longer there and that the job "
            "has not read: their records were deleted, by the stream's retention"
        )
        self.properties.loss.found(str(client.failure(what)))

    def reader(self, split: Split) -> ShardReader:
        stream, _, shard = split.id.rpartition("/")
        client, loss = self._client.take(), self.properties.loss
        return ShardReader(client, self._client.give_back, loss, self.polling, self.schema, stream, shard)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_looks": False}


def _shards(client: Client, stream: str) -> list[Shard]:
    found: list[Shard] = []
    arguments: dict[str, Any] = {"StreamName": stream}
    while True:
        try:
            answer = client.call("list_shards", **arguments)
        except RequestError as error:
            if error.may_pass:
                raise
            raise client.refused(f"listing the shards of stream {stream!r} failed: {error}") from None
        for each in answer["Shards"]:
            parents = (each.get("ParentShardId"), each.get("AdjacentParentShardId"))
            numbers = each["SequenceNumberRange"]
            is_open, starts_at = "EndingSequenceNumber" not in numbers, int(numbers["StartingSequenceNumber"])
            found.append(Shard(stream, each["ShardId"], tuple(p for p in parents if p), is_open, starts_at))
        if not answer.get("NextToken"):
            return found
        arguments = {"NextToken": answer["NextToken"]}


def _check_not_made_anew(
    client: Client, shards: Iterable[Shard], known: Mapping[str, tuple[Position, bool]]
) -> None:
    """A stream that was deleted and made anew has shards of the same names, and later sequence numbers.

    Raises:
        ConnectorError: what was read is of another stream than these shards.
    """
    for shard in shards:
        position, ended = known.get(shard.split_id, (None, False))
        if position is None:
            continue
        if (ended and shard.open) or (position[0] == AFTER and int(position[1]) < shard.starts_at):
            raise client.refused(
                f"stream {shard.stream!r} is not the one that the job has read: its shard {shard.id!r} begins at another "
                "place. It was deleted and made anew, or is another account's or region's, so records of it would be left "
                "out. Give the source another uid(), and it begins where 'flink.stream.initpos' says"
            )


def _ancestors(of: Iterable[str], shards: Mapping[str, Shard]) -> set[str]:
    found: set[str] = set()
    left = [parent for name in of if name in shards for parent in shards[name].parents]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += shards[name].parents if name in shards else ()
    return found


def server_time_ms(answer: Mapping[str, Any]) -> int:
    """What the clock of Kinesis showed when it answered, to the second: ours may be wrong.

    Raises:
        ConnectorError: it did not say.
    """
    date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    if date is None:
        raise ConnectorError(
            "Kinesis: an answer has no Date header; where the job begins is measured by the clock of Kinesis"
        )
    return int(parsedate_to_datetime(date).timestamp() * 1000)
