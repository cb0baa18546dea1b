"""The parts of Kinesis's connectors that need no server."""

from __future__ import annotations

import contextlib
import pickle
from typing import Any

import botocore.loaders
import pytest

from api.common.serialization import SimpleStringSchema
from api.datastream.connectors.kinesis import (
    FlinkKinesisConsumer,
    KinesisShardAssigner,
    KinesisStreamsSink,
    PartitionKeyGenerator,
)
from changelog_engine.connectors.collecting import to_send_again
from changelog_engine.connectors.kinesis import ClientProperties, KinesisSink, SinkOptions
from changelog_engine.connectors.kinesis.clients import Client
from changelog_engine.connectors.kinesis.reader import Polling
from changelog_engine.connectors.kinesis.sink import KinesisWriter, _Record
from changelog_engine.errors import (
    ArgumentTypeError,
    ConfigurationError,
    ConnectorError,
    NotSupportedError,
    TypeMismatchError,
)

REGION = {"aws.region": "eu-west-1"}
BASIC = "aws.credentials.provider.basic."


def consumer(**more: Any) -> Any:
    given = REGION | {name.replace("__", "."): value for name, value in more.items()}
    return FlinkKinesisConsumer("s", SimpleStringSchema(), given)._function


def test_properties() -> None:
    source = consumer(flink__shard__getrecords__maxretries=7, flink__list__shards__maxretries="9")
    assert (source.polling.max_retries, source.polling.most, source.discovery_interval_ms) == (
        7,
        10_000,
        10_000,
    )
    assert pickle.loads(pickle.dumps(source)).polling == source.polling
    at = consumer(
        flink__stream__initpos="AT_TIMESTAMP", flink__stream__initpos__timestamp="2024-02-29T00:00:00"
    )
    assert at.properties.initial_position() == ("AT_TIMESTAMP", 1_709_164_800_000)
    secret = consumer(**{f"{BASIC}accesskeyid": "a", f"{BASIC}secretkey": "hush"})
    assert "hush" not in repr(secret.properties)
    assert secret.properties.arguments()["aws_secret_access_key"] == "hush"


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({}, ConfigurationError, "'aws.region' is missing"),
        ({"aws.region": None}, ArgumentTypeError, "'aws.region' must be a str"),
        (REGION | {"flink.shard.getrecord": "1"}, ConfigurationError, "'flink.shard.getrecord' is not known"),
        (
            REGION | {"flink.stream.initpos": "EARLIEST"},
            ConfigurationError,
            "LATEST, TRIM_HORIZON, AT_TIMESTAMP",
        ),
        (REGION | {"flink.stream.initpos": "AT_TIMESTAMP"}, ConfigurationError, "needs property"),
        (
            REGION | {"flink.stream.initpos": "AT_TIMESTAMP", "flink.stream.initpos.timestamp": "noon"},
            ConfigurationError,
            "ISO 8601, got 'noon'",
        ),
        (REGION | {"flink.stream.recordpublisher": "EFO"}, NotSupportedError, "enhanced fan-out"),
        (
            REGION | {"flink.stream.initpos.timestamp.format": "dd.MM.yyyy"},
            NotSupportedError,
            "in ISO 8601, such as 2024",
        ),
        (REGION | {1: "hush"}, ArgumentTypeError, "name of a property must be a str, got 1"),
        (REGION | {"flink.stream.efo.consumername": "me"}, NotSupportedError, "enhanced fan-out"),
        (
            REGION | {"flink.shard.getrecords.maxrecordcount": "20000"},
            ConfigurationError,
            "between 1 and 10000",
        ),
        (
            REGION | {"flink.shard.getrecords.maxretries": "many"},
            ConfigurationError,
            "must be a whole number",
        ),
        (REGION | {"aws.credentials.provider": "SYS_PROP"}, NotSupportedError, "AUTO looks where boto3 does"),
        (REGION | {f"{BASIC}secretkey": "hush"}, ConfigurationError, "need both properties"),
        (REGION | {f"{BASIC}secretkey": b"hush"}, ArgumentTypeError, "got a value"),
        (REGION | {"aws.credentials.provider": "PROFILE"}, ConfigurationError, "profile.name' is missing"),
        (REGION | {"changelog.on-data-loss": "no"}, ConfigurationError, "fail, ignore"),
    ],
)
def test_what_is_refused(given: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says) as caught:
        FlinkKinesisConsumer("s", SimpleStringSchema(), given)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("method", "value", "error"),
    [
        ("set_stream_name", "", ArgumentTypeError),
        ("set_serialization_schema", str, ArgumentTypeError),
        ("set_partition_key_generator", lambda element: "k", ArgumentTypeError),
        ("set_fail_on_error", 1, ArgumentTypeError),
        ("set_kinesis_client_properties", "eu-west-1", ArgumentTypeError),
        ("set_kinesis_client_properties", {"flink.stream.initpos": "LATEST", **REGION}, ConfigurationError),
        ("set_max_batch_size", 501, ConfigurationError),
        ("set_max_in_flight_requests", 0, ConfigurationError),
        ("set_max_buffered_requests", "1", ArgumentTypeError),
        ("set_max_batch_size_in_bytes", 6 << 20, ConfigurationError),
        ("set_max_time_in_buffer_ms", 0, ConfigurationError),
        ("set_max_record_size_in_bytes", 11 << 20, ConfigurationError),
    ],
)
def test_what_the_builder_refuses(method: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=method):
        getattr(KinesisStreamsSink.builder(), method)(value)


def test_what_is_missing_or_not_here() -> None:
    made = KinesisStreamsSink.builder()
    for step in ("set_kinesis_client_properties", "set_stream_name", "set_serialization_schema"):
        with pytest.raises(ConfigurationError, match=step):
            made.build()
        given = {"set_kinesis_client_properties": REGION, "set_stream_name": "s"}
        getattr(made, step)(given.get(step, SimpleStringSchema()))
    with pytest.raises(ConfigurationError, match="set_partition_key_generator"):
        made.build()
    made.set_partition_key_generator(PartitionKeyGenerator.random()).set_max_batch_size_in_bytes(100)
    with pytest.raises(ConfigurationError, match="max_record_size_in_bytes smaller"):
        made.build()
    with pytest.raises(ArgumentTypeError, match="streams must be a stream or several"):
        FlinkKinesisConsumer([], SimpleStringSchema(), REGION)
    with pytest.raises(ArgumentTypeError, match="deserializer must be"):
        FlinkKinesisConsumer("s", str, REGION)  # type: ignore[arg-type]
    source = FlinkKinesisConsumer("s", SimpleStringSchema(), REGION)
    assert source.set_shard_assigner(KinesisShardAssigner.uniform_shard_assigner()) is source
    with pytest.raises(NotSupportedError, match="assign_timestamps_and_watermarks"):
        source.set_periodic_watermark_assigner(None)


def test_an_older_record_of_a_key_never_comes_last() -> None:
    records = [
        _Record(key, data) for key, data in [("a", b"1"), ("b", b"2"), ("a", b"3"), ("b", b"4"), ("c", b"5")]
    ]
    assert [record.data for record in to_send_again(records, {0, 3}, lambda r: r.key)] == [b"1", b"3", b"4"]


def test_waits_grow_to_a_bound() -> None:
    polling = Polling(1, 0.2, 3, 0.3, 1.0, 1.5)
    assert [round(polling.wait_s(tried), 3) for tried in (1, 2, 3, 4, 1000)] == [0.3, 0.45, 0.675, 1.0, 1.0]


def test_a_generator_of_keys_without_apply() -> None:
    class Nothing(PartitionKeyGenerator):
        pass

    made = KinesisStreamsSink.builder()
    for generator in (PartitionKeyGenerator(), Nothing()):
        with pytest.raises(ConfigurationError, match=r"apply\(element\)"):
            made.set_partition_key_generator(generator)
    made.set_partition_key_generator(PartitionKeyGenerator.fixed())


def test_secrets_are_never_shown() -> None:
    basic = "aws.credentials.provider.basic."
    given = {"aws.region": "eu", f"{basic}accesskeyid": "AKIA", f"{basic}secretkey": "hush"}
    properties = ClientProperties(given, "KinesisStreamsSink", False)
    arguments = properties.arguments()
    assert (arguments["aws_access_key_id"], arguments["aws_secret_access_key"]) == ("AKIA", "hush")
    for shown in (properties, properties.given, arguments, pickle.loads(pickle.dumps(properties))):
        assert "hush" not in repr(shown)
        assert "AKIA" not in repr(shown)


def test_values_as_java_writes_them() -> None:
    given = {
        "aws.region": "eu",
        "aws.trust.all.certificates": True,
        "flink.shard.getrecords.maxrecordcount": 5,
    }
    properties = ClientProperties(given, "FlinkKinesisConsumer", True)
    assert properties.arguments()["verify"] is False
    assert Polling.of(properties).most == 5


def test_a_record_that_is_not_one() -> None:
    class Schema:
        def serialize(self, value: Any) -> Any:
            return value

    class Unshowable:
        def __repr__(self) -> str:
            raise ValueError("no repr")

    properties = ClientProperties({"aws.region": "eu"}, "KinesisStreamsSink", False)
    writer = KinesisWriter(KinesisSink("s", Schema(), None, properties, SinkOptions()), 0)
    for value in (Unshowable(), "x" * 10_000):
        with pytest.raises(TypeMismatchError, match="which is not bytes") as caught:
            writer.write([value])
        assert len(str(caught.value)) < 500


def test_a_profile_that_is_not_there_is_named() -> None:
    properties = ClientProperties(
        REGION | {"aws.credentials.provider.profile.name": "nobody's"}, "x", source=False
    )
    with pytest.raises(ConfigurationError, match=r"x: The config profile \(nobody's\) could not be found"):
        Client(properties)


def test_what_aws_says_of_itself_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client for each subtask would parse megabytes anew."""
    Client(ClientProperties(REGION, "x", source=False)).close()
    monkeypatch.setattr(
        botocore.loaders.JSONFileLoader, "load_file", lambda loader, path: pytest.fail(f"read {path}")
    )
    Client(ClientProperties(REGION | {"aws.endpoint": "http://127.0.0.1:1"}, "x", source=False)).close()


STREAM = [("0", None, "10", "19"), ("1", "0", "20", None), ("2", "0", "20", None)]  # shard 0 was split


@pytest.mark.parametrize(
    ("shards", "known", "other"),
    [
        (STREAM, {"0": (["after", "19", 5], True), "1": (["after", "20", 5], False)}, False),
        (STREAM, {"0": (["oldest", None, 5], True), "1": (["time", 5, 5], False)}, False),
        (STREAM[1:], {"0": (["after", "19", 5], True), "1": (["after", "20", 5], True)}, True),
        (STREAM, {"0": (["after", "9", 5], True)}, True),
        (STREAM, {"1": (["after", "9", 5], False)}, True),
        ([("0", None, "30", None)], {"0": (["oldest", None, 5], True)}, True),
        ([("0", None, "30", None)], {"0": (["oldest", None, 5], False)}, False),
    ],
)
def test_shards_of_a_stream_that_was_made_anew(
    shards: list[Any], known: dict[str, Any], other: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their names are those of the stream before; their numbers are later."""

    def call(client: Client, operation: str, **arguments: Any) -> dict[str, Any]:
        listed = []
        for name, parent, first, last in shards:
            numbers = {"StartingSequenceNumber": first} | ({"EndingSequenceNumber": last} if last else {})
            listed.append({"ShardId": name, "ParentShardId": parent, "SequenceNumberRange": numbers})
        return {"Shards": listed}

    monkeypatch.setattr(Client, "call", call)
    source = consumer(**{"changelog.on-data-loss": "ignore"})
    looked = {f"s/{name}": each for name, each in known.items()}
    with pytest.raises(ConnectorError, match="made anew") if other else contextlib.nullcontext():
        source.discover(looked)
    source.job_ended()
