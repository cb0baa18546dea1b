"""The parts of Pulsar's connectors that need no broker."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pulsar
import pytest

from api.common import ConfigOptions, Duration
from api.common.serialization import SimpleStringSchema
from api.datastream.connectors.base import DeliveryGuarantee
from api.datastream.connectors.pulsar import (
    MessageDelayer,
    PulsarDeserializationSchema,
    PulsarSerializationSchema,
    PulsarSink,
    PulsarSource,
    RangeGenerator,
    StartCursor,
    StopCursor,
    SubscriptionType,
    TopicRoutingMode,
)
from changelog_engine.connectors import pulsar as engine
from changelog_engine.connectors import still_ours
from changelog_engine.connectors.data_loss import DataLoss
from changelog_engine.connectors.properties import Properties
from changelog_engine.connectors.pulsar import sink
from changelog_engine.connectors.pulsar.clients import Client
from changelog_engine.connectors.pulsar.reader import PartitionReader, ReadOptions
from changelog_engine.connectors.pulsar.routing import Router, java_hash, murmur3_hash
from changelog_engine.errors import (
    ArgumentTypeError,
    ConfigurationError,
    ConnectorError,
    FencedError,
    NotSupportedError,
)

URL = "pulsar://localhost:6650"
TOKENS = "org.apache.pulsar.client.impl.auth.AuthenticationToken"


def source_builder() -> Any:
    made = PulsarSource.builder().set_service_url(URL).set_subscription_name("s").set_topics("t")
    return made.set_deserialization_schema(SimpleStringSchema())


def sink_builder() -> Any:
    return (
        PulsarSink.builder()
        .set_service_url(URL)
        .set_topics("t")
        .set_serialization_schema(SimpleStringSchema())
    )


class TestBuilders:
    def test_a_source(self) -> None:
        source = source_builder().build()._source
        assert isinstance(source, engine.DiscoveringPulsarSource)
        assert (source.bounded, source.timed, source.replayable, source.discovery_interval_ms) == (
            False,
            True,
            True,
            300_000,
        )
        assert source.with_options({})._reading.acknowledges_every_s == 5.0
        assert (
            source.with_options({"execution.checkpointing.interval": "5 ms"})._reading.acknowledges_every_s
            is None
        )
        assert pickle.loads(pickle.dumps(source)).topics == engine.Topics(names=("t",))
        option = ConfigOptions.key("pulsar.source.partitionDiscoveryIntervalMs").int_type().no_default_value()
        assert type(source_builder().set_config(option, 0).build()._source) is engine.PulsarSource
        ended = source_builder().set_bounded_stop_cursor(StopCursor.latest()).build()._source
        assert (type(ended), ended.bounded) == (engine.PulsarSource, True)
        named = (
            source_builder()
            .set_subscription_type(SubscriptionType.Failover)
            .set_range_generator(RangeGenerator.full())
        )
        whole = PulsarDeserializationSchema.flink_schema(SimpleStringSchema())
        assert named.set_deserialization_schema(whole).build()._source.output_type == source.output_type

    def test_a_sink(self) -> None:
        sink = sink_builder().build()._sink
        assert (sink.waits, sink.routing, sink.delay_ms) == (False, engine.Routing.ROUND_ROBIN, 0)
        made = sink_builder().set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        made.delay_sending_message(MessageDelayer.fixed(Duration.of_seconds(2)))
        made.set_serialization_schema(PulsarSerializationSchema.flink_schema(SimpleStringSchema()))
        made.set_properties({"pulsar.producer.properties": {"a": "b"}})
        sink = pickle.loads(pickle.dumps(made.build()._sink))
        assert (sink.waits, sink.delay_ms, sink.producing["properties"]) == (True, 2000, {"a": "b"})
        assert sink_builder().set_config("pulsar.sink.deliveryGuarantee", "at-least-once").build()._sink.waits

    @pytest.mark.parametrize(
        ("change", "error", "says"),
        [
            (lambda b: b.set_topics("u"), ConfigurationError, "choose them once"),
            (lambda b: b.set_config("pulsar.source.maxFetchRecord", 1), ConfigurationError, "is not known to Flink's"),
            (lambda b: b.set_config("pulsar.consumer.receiverQueueSize", 0), ConfigurationError, "between 1 and"),
            (lambda b: b.set_config("pulsar.client.operationTimeoutMs", "x"), ConfigurationError, "whole number"),
            (lambda b: b.set_config("pulsar.client.useKeyStoreTls", True), NotSupportedError, "give PEM files"),
            (lambda b: b.set_config("pulsar.client.enableTransaction", True), NotSupportedError, "needs transactions"),
            (lambda b: b.set_config("pulsar.source.resetSubscriptionCursor", False), NotSupportedError, "always true here"),
            (lambda b: b.set_config("pulsar.source.autoCommitCursorInterval", "x"), ConfigurationError, "duration"),
            (lambda b: b.set_config("pulsar.client.authParams", None), ArgumentTypeError, "got a value of type NoneType"),
            (lambda b: b.set_config("pulsar.client.authParams", "x"), ConfigurationError, "need each other"),
            (lambda b: b.set_properties({URL: 1}).set_properties({URL: 2}), ConfigurationError, "set it once"),
            (lambda b: b.set_subscription_type(SubscriptionType.Shared), NotSupportedError, "Exclusive or Failover"),
            (lambda b: b.set_service_url("localhost:6650"), ConfigurationError, "pulsar://host:6650"),
            (lambda b: b.set_service_url("pulsar://a:b@c:1"), ConfigurationError, r"call set_authentication\(\)"),
            (lambda b: b.set_authentication("my.Plugin", "a:b"), NotSupportedError, "my.Plugin is a Java class"),
            (lambda b: b.set_authentication("AuthenticationBasic", "a:b"), ConfigurationError, "needs parameter 'userId'"),
            (lambda b: b.set_start_cursor("earliest"), ArgumentTypeError, "must be a StartCursor"),
            (lambda b: b.set_start_cursor(StartCursor.from_message_id(b"junk")), ConfigurationError, "is not a message id"),
            (lambda b: b.set_bounded_stop_cursor(StopCursor.at_message_id(pulsar.MessageId.earliest.serialize())),
             ConfigurationError, "cannot be at MessageId.earliest"),
        ],
    )  # fmt: skip
    def test_what_a_source_refuses(self, change: Any, error: type[Exception], says: str) -> None:
        with pytest.raises(error, match=says):
            change(source_builder()).build()

    @pytest.mark.parametrize(
        ("change", "error", "says"),
        [
            (
                lambda b: b.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE),
                NotSupportedError,
                "take AT_LEAST_ONCE",
            ),
            (
                lambda b: b.set_config("pulsar.sink.deliveryGuarantee", "exactly-once"),
                NotSupportedError,
                "transactions",
            ),
            (lambda b: b.set_topic_router("my.Router"), NotSupportedError, "give a function"),
            (
                lambda b: b.set_topic_routing_mode(TopicRoutingMode.CUSTOM),
                ConfigurationError,
                "need each other",
            ),
            (lambda b: b.set_topics([]), ArgumentTypeError, "a topic or several"),
            (
                lambda b: b.set_config("pulsar.producer.chunkingEnabled", True),
                NotSupportedError,
                "as large as brokers",
            ),
            (
                lambda b: b.set_config("pulsar.producer.compressionType", "RAR"),
                ConfigurationError,
                "NONE, LZ4",
            ),
            (lambda b: b.set_config("pulsar.producer.properties", "ab"), ConfigurationError, "name:value"),
        ],
    )
    def test_what_a_sink_refuses(self, change: Any, error: type[Exception], says: str) -> None:
        with pytest.raises(error, match=says):
            change(sink_builder()).build()

    def test_what_is_missing(self) -> None:
        source, sink = PulsarSource.builder(), PulsarSink.builder()
        given = {
            "set_service_url": URL,
            "set_serialization_schema": SimpleStringSchema(),
            "set_deserialization_schema": SimpleStringSchema(),
        }
        for call in ("set_topics", "set_deserialization_schema", "set_service_url", "set_subscription_name"):
            with pytest.raises(ConfigurationError, match=rf"call {call}\(\)"):
                source.build()
            getattr(source, call)(given.get(call, "x"))
        for call in ("set_serialization_schema", "set_service_url", "set_topics"):
            with pytest.raises(ConfigurationError, match=rf"call {call}\(\)"):
                sink.build()
            getattr(sink, call)(given.get(call, "x"))

    def test_topics(self) -> None:
        made = PulsarSource.builder().set_service_url(URL).set_subscription_name("s")
        made.set_deserialization_schema(SimpleStringSchema()).set_topic_pattern("a/b/c.*")
        with pytest.raises(ConfigurationError, match=r"needs set_admin_url\(\)"):
            made.build()
        assert made.set_admin_url("http://localhost:8080").build()._source.topics._parts()[0] == "a/b"
        with pytest.raises(NotSupportedError, match="read a persistent:// topic"):
            engine.Topics(names=("non-persistent://a/b/c",)).check(engine.ClientProperties(
                {"pulsar.client.serviceUrl": URL}, "PulsarSource", "source"
            ))  # fmt: skip

    def test_keys_are_not_chosen(self) -> None:
        with pytest.raises(NotSupportedError, match="returns None for their keys"):
            RangeGenerator.fixed_key  # noqa: B018

    def test_without_the_client(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pulsar", None)
        with pytest.raises(ConfigurationError, match=r"pip install 'changelog-engine\[pulsar\]'"):
            sink_builder().build()


class TestCursors:
    def test_ids_that_stand_for_an_end(self) -> None:
        for given, at in (
            (pulsar.MessageId.earliest, engine.CursorKind.EARLIEST),
            (pulsar.MessageId.latest, engine.CursorKind.LATEST),
        ):
            source = (
                source_builder()
                .set_start_cursor(StartCursor.from_message_id(given.serialize()))
                .build()
                ._source
            )
            assert source.start.at is at
        stop = StopCursor.at_message_id(pulsar.MessageId.latest.serialize())
        assert (
            source_builder().set_bounded_stop_cursor(stop).build()._source.stop.at is engine.CursorKind.LATEST
        )


class TestSecrets:
    def test_they_are_shown_nowhere(self, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("hush\n")
        for given in (
            "token:hush",
            "hush",
            {"token": "hush"},
            f"file://{tmp_path}/token",
            '{"token": "hush"}',
        ):
            source = source_builder().set_authentication(TOKENS, given).build()._source
            assert source.properties.authentication.token() == "hush"
            assert "hush" not in repr(source.properties)
        made = source_builder().set_config("pulsar.client.authPluginClassName", TOKENS)
        made.set_config("pulsar.client.authParamMap", {"token": "hush"})
        properties = made.build()._source.properties
        assert properties.authentication.token() == "hush"
        assert "hush" not in repr(properties)
        assert "hush" not in repr(properties.given) + repr(properties.maps)
        with pytest.raises(ConfigurationError, match="can't be used: No such file") as caught:
            source_builder().set_authentication(TOKENS, "file:///nowhere/hush").build()
        assert "hush" not in str(caught.value)

    @pytest.mark.parametrize(
        ("plugin", "params"),
        [
            ("AuthenticationTls", "tlsCertFile:/a.pem,tlsKeyFile:/b.pem"),
            ("AuthenticationBasic", '{"userId": "u", "password": "hush"}'),
            ("AuthenticationOAuth2", '{"issuerUrl": "http://i", "privateKey": "file:///k", "audience": "a"}'),
        ],
    )
    def test_ways_to_log_in(self, plugin: str, params: str) -> None:
        authentication = engine.Authentication(f"org.apache.pulsar.{plugin}", params)
        properties = engine.ClientProperties(
            {"pulsar.client.serviceUrl": URL}, "PulsarSink", "sink", authentication
        )
        Client(properties).close()
        assert "hush" not in repr(properties)


class TestRouting:
    def test_hashes(self) -> None:
        known = {
            "": 0,
            "hello": 0x248BFA47,
            "hello, world": 0x149BBB7F,
            "The quick brown fox jumps over the lazy dog": 0x2E4FF723,
        }
        assert {key: murmur3_hash(key) for key in known} == known
        assert (java_hash("hello"), java_hash("polygenelubricants")) == (99162322, 0)

    def test_where_messages_go(self) -> None:
        turns = Router(engine.Routing.ROUND_ROBIN, 2, murmur3_hash, None)
        assert [turns.route(None, None, ["a", "b"]) for _ in range(5)] == ["a", "a", "b", "b", "a"]
        by_key = Router(engine.Routing.MESSAGE_KEY_HASH, 2, murmur3_hash, None)
        assert {by_key.route(None, "hello", ["a", "b"]) for _ in range(5)} == {"b"}
        assert {by_key.route(None, None, ["a", "b"]) for _ in range(200)} == {"a", "b"}


def test_the_end_of_the_input_is_no_event_time() -> None:
    client, producer = mock.Mock(), mock.Mock()
    client.partitions.return_value = ["t"]
    with mock.patch.object(sink, "Client", return_value=client):
        writer = sink_builder().build()._sink.writer(0, 1)
    writer._producers["t"] = producer, None
    writer.write_timed(["a", "b", "c", "d"], [5, -(2**63), 2**63 - 1, 2**63 - 2], 0)
    times = [call.kwargs["event_timestamp"] for call in producer.send_async.call_args_list]
    assert times == [5, None, None, 2**63 - 2]


def test_who_was_replaced_hands_no_more_messages_to_the_client() -> None:
    """On a topic that is compacted an old value of a key would come behind its newest."""
    client, producer = mock.Mock(), mock.Mock()
    client.partitions.return_value = ["t"]

    def check() -> None:
        if producer.send_async.called:
            raise FencedError("another driver took the job over")

    with mock.patch.object(sink, "Client", return_value=client):
        writer = sink_builder().build()._sink.writer(0, 1)
    writer._producers["t"] = producer, None
    still_ours.ask_by(check)
    try:
        with pytest.raises(FencedError):
            writer.write(["a"] * 1000)
    finally:
        still_ours.ask_by(None)
    assert producer.send_async.call_count == 1


@pytest.mark.parametrize("before", [True, False])
def test_what_was_not_taken_is_told_when_a_sink_that_does_not_wait_is_closed(
    caplog: pytest.LogCaptureFixture, before: bool
) -> None:
    """Nobody heard of it: the last flush() was before."""
    client, result = mock.Mock(), mock.Mock()
    client.partitions.return_value = ["t"]
    client.failure = lambda doing, topic, kind, told: ConnectorError(f"{doing}: {told}")
    client.pulsar.CompressionType = SimpleNamespace(__members__={"NONE": 0})
    result.name = "TimeOut"
    with mock.patch.object(sink, "Client", return_value=client):
        writer = sink_builder().build()._sink.writer(0, 1)
    writer.write_timed(["a"], None, 0)
    sent = client.producer.return_value.send_async.call_args.args[1]
    writer.flush()
    if before:
        sent(result, None)
    else:
        client.asked.side_effect = lambda *_: sent(result, None)
    writer.close()
    assert [record.getMessage() for record in caplog.records] == ["writing to 't': TimeOut"]


class Stored:
    """A message of a topic without partitions."""

    def __init__(self, ledger: int, entry: int, published_ms: int) -> None:
        self.place, self.published_ms = (ledger, entry), published_ms

    def message_id(self) -> Any:
        return pulsar.MessageId(-1, *self.place, -1)

    def publish_timestamp(self) -> int:
        return self.published_ms

    def event_timestamp(self) -> int:
        return 0

    def has_null_value(self) -> bool:
        return False

    def data(self) -> bytes:
        return f"{self.place[0]}:{self.place[1]}".encode()


def reader_of(*given: Stored, fails: bool = True) -> Any:
    """A reader whose client gives these messages, and then nothing."""
    client = mock.Mock(named="Pulsar", pulsar=pulsar)
    client.reader.return_value.read_next.side_effect = [*given, *[pulsar.Timeout()] * 9]
    chosen = {} if fails else {"changelog.on-data-loss": "ignore"}
    options = ReadOptions(
        SimpleStringSchema(), "s", None, 10, DataLoss(Properties(chosen, "PulsarSource")), None
    )
    return PartitionReader(client, lambda: None, options, "t")


def position_of(stored: Stored) -> Any:
    return ["read", stored.message_id().serialize().hex(), None]


def test_messages_that_come_again_are_given_out_once() -> None:
    """Also of a producer whose clock is ahead."""
    first, ahead, last, new = Stored(5, 0, 10), Stored(5, 1, 99), Stored(5, 2, 11), Stored(5, 3, 12)
    reader = reader_of(first, ahead, last, ahead, last, new)
    assert list(reader.read(position_of(first), 10).values) == ["5:1", "5:2", "5:3"]


@pytest.mark.parametrize("restored", [False, True])
def test_a_topic_whose_ids_began_anew_is_an_error(restored: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Its messages were left out, as if they came again: brokers lost their storage."""
    old, anew = [Stored(5, 0, 10), Stored(5, 1, 11)], [Stored(3, 0, 12), Stored(3, 1, 13)]
    given = anew if restored else [*old[1:], *anew]
    position = position_of(old[-1])
    with pytest.raises(ConnectorError, match=r"read 't' up to message 5:1, .* the next one is 3:0"):
        reader_of(*given).read(position, 10)
    assert list(reader_of(*given, fails=False).read(position, 10).values) == ["3:0", "3:1"]
    assert "the next one is 3:0" in caplog.text


@pytest.mark.parametrize("fails", [True, False])
def test_a_topic_that_ends_before_what_was_read_is_an_error(fails: bool) -> None:
    """Its broker gives nothing: the reader stands behind the end."""
    last = Stored(5, 9, 10)
    reader = reader_of(fails=fails)
    consumer = reader._client.subscribed.return_value
    for end in ((5, 9), (6, -1), (-1, -1)):  # as it was; all was deleted by retention
        consumer.get_last_message_id.return_value = Stored(*end, 0).message_id()
        assert list(reader.read(position_of(last), 10).values) == []
        reader._looked_s = None
    consumer.get_last_message_id.return_value = Stored(5, 3, 0).message_id()
    if fails:
        with pytest.raises(ConnectorError, match=r"read 't' up to message 5:9, and its last one is 5:3 now"):
            reader.read(position_of(last), 10)
        return
    reader.read(position_of(last), 10)
    reader._client.reader.return_value.read_next.side_effect = [Stored(5, 3, 12), pulsar.Timeout()]
    assert list(reader.read(position_of(last), 10).values) == ["5:3"]
    assert reader._client.reader.call_args.args[1] == pulsar.MessageId.earliest


@pytest.mark.parametrize("fails", [True, False])
def test_another_message_under_the_id_of_the_one_that_was_read(
    fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The topic was made again and grew: ids of the old one are those of others, which were left out up to there."""
    reader = reader_of(Stored(5, 0, 10), Stored(5, 1, 11))
    reader._client.subscribed.return_value.is_connected.return_value = False
    first = reader.read(["earliest", "", None], 2)
    kept = reader.at_barrier(first.next)
    assert reader.at_barrier(kept) == kept
    assert list(reader.read(kept, 10).values) == []
    assert reader._client.reader.call_count == 1, "it goes on where it stands"

    again = reader_of(Stored(5, 1, 11), Stored(5, 2, 12))
    found = again.read(kept, 10)
    assert list(found.values) == ["5:2"]
    assert again.at_barrier(found.next) == [*position_of(Stored(5, 2, 12)), 12]

    anew = reader_of(Stored(5, 1, 21), Stored(5, 2, 22), fails=fails)
    said = "up to message 5:1, and another one has that id now"
    if fails:
        with pytest.raises(ConnectorError, match=said):
            anew.read(kept, 10)
        return
    place = anew.read(kept, 10).next
    assert said in caplog.text
    anew._client.reader.return_value.read_next.side_effect = [
        Stored(5, 0, 20),
        Stored(5, 1, 21),
        pulsar.Timeout(),
    ]
    assert list(anew.read(place, 10).values) == ["5:0", "5:1"]
