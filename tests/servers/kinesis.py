"""Kinesis Data Streams, simulated by kinesalite: sequence numbers, iterators, splits and merges are as in AWS.

It knows no credentials and throttles nobody; `support.faulty_kinesis` stands before it for that.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from servers.process import CACHE, HOST, Server, ServerMissing, accepts_connections, require_program, wait_for

PACKAGES = ("kinesalite@3.3.3", "leveldown@5.6.0")
FOLDER = CACHE / PACKAGES[0].replace("@", "-")
_SERVE = "require('kinesalite')(JSON.parse(process.argv[1])).listen(+process.argv[2], process.argv[3])"
_TIMEOUT_S = 60.0


class KinesisServer(Server):
    """A simulation of Kinesis.

    Attributes:
        endpoint: Its URL.
        properties: Flink's properties of a client.
    """

    name = "kinesis"

    def __init__(self) -> None:
        super().__init__()
        self.endpoint = f"http://{HOST}:{self.port}"
        self._client: Any = None

    @classmethod
    def check_installed(cls) -> None:
        require_program("node", package="nodejs")
        if not FOLDER.is_dir():
            raise ServerMissing(f"{PACKAGES[0]} is not here: make servers")

    @property
    def properties(self) -> dict[str, str]:
        """Of a client that goes there directly."""
        return properties(self.endpoint)

    def prepare(self) -> None:
        (self.folder / "data").mkdir()

    def command(self) -> list[str]:
        quick = {"createStreamMs": 1, "deleteStreamMs": 1, "updateStreamMs": 1, "shardLimit": 1000}
        options = json.dumps({"path": str(self.folder / "data"), **quick})
        return [require_program("node", package="nodejs"), "-e", _SERVE, options, str(self.port), HOST]

    def environment(self) -> dict[str, str]:
        return {"NODE_PATH": str(FOLDER / "node_modules")}

    def is_ready(self) -> bool:
        if not accepts_connections(self.port):
            return False
        try:
            self.ask("list_streams")
        except (BotoCoreError, ClientError):
            return False
        return True

    def _connect(self) -> Any:
        config = Config(retries={"total_max_attempts": 1}, read_timeout=10)
        return boto3.client(
            "kinesis",
            config=config,
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id="tester",
            aws_secret_access_key="secret",
        )

    def ask(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """Send one request."""
        if self._client is None:  # one for all: it takes longer to make than a request
            self._client = self._connect()
        answer: dict[str, Any] = getattr(self._client, operation)(**arguments)
        return answer

    def kill(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        super().kill()

    def create_stream(self, shards: int = 1) -> str:
        """Make a stream, and wait until it can be written; its name."""
        name = f"stream-{uuid.uuid4().hex[:12]}"
        self._create(name, shards)
        return name

    def make_anew(self, name: str) -> None:
        """Delete a stream, and make another one of the same name, with one shard."""
        self.ask("delete_stream", StreamName=name)
        wait_for(
            lambda: name not in self.ask("list_streams")["StreamNames"], f"the end of {name}", _TIMEOUT_S
        )
        self._create(name, 1)

    def _create(self, name: str, shards: int) -> None:
        self.ask("create_stream", StreamName=name, ShardCount=shards)
        self._wait_for(name)

    def put(self, stream: str, values: Iterable[bytes], key: str | None = None) -> None:
        """Write records in their order; a key for all of them, or one for each."""
        for number, value in enumerate(values):
            self.ask("put_record", StreamName=stream, Data=value, PartitionKey=key or f"key {number}")

    def records(self, stream: str) -> list[tuple[str, bytes]]:
        """All records, with their partition keys, by shard and sequence number."""
        found = []
        for shard in self.shards(stream):
            place = {"StreamName": stream, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
            iterator = self.ask("get_shard_iterator", **place)["ShardIterator"]
            while iterator:
                answer = self.ask("get_records", ShardIterator=iterator)
                found += [(each["PartitionKey"], each["Data"]) for each in answer["Records"]]
                iterator = answer.get("NextShardIterator") if answer["Records"] else None
        return found

    def shards(self, stream: str) -> list[dict[str, Any]]:
        """The stream's shards, as boto3 describes them."""
        found: list[dict[str, Any]] = self.ask("list_shards", StreamName=stream)["Shards"]
        return found

    def split(self, stream: str, shard: str) -> None:
        """Split a shard in its middle."""
        (hashes,) = (each["HashKeyRange"] for each in self.shards(stream) if each["ShardId"] == shard)
        middle = (int(hashes["StartingHashKey"]) + int(hashes["EndingHashKey"])) // 2 + 1
        self.ask("split_shard", StreamName=stream, ShardToSplit=shard, NewStartingHashKey=str(middle))
        self._wait_for(stream)

    def merge(self, stream: str, one: str, other: str) -> None:
        """Merge two neighbours."""
        self.ask("merge_shards", StreamName=stream, ShardToMerge=one, AdjacentShardToMerge=other)
        self._wait_for(stream)

    def _wait_for(self, stream: str) -> None:
        def is_active() -> bool:
            summary = self.ask("describe_stream_summary", StreamName=stream)["StreamDescriptionSummary"]
            return bool(summary["StreamStatus"] == "ACTIVE")

        wait_for(is_active, f"stream {stream}", _TIMEOUT_S)


def properties(endpoint: str) -> dict[str, str]:
    """Flink's properties of a client."""
    return {
        "aws.region": "us-east-1",
        "aws.endpoint": endpoint,
        "aws.credentials.provider.basic.accesskeyid": "tester",
        "aws.credentials.provider.basic.secretkey": "s3cr3t/key",
    }
