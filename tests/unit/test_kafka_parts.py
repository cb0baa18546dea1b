"""What of Kafka needs no broker: properties, their secrets, and what the API refuses."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from api.common import Row, Types, WatermarkStrategy
from api.common.serialization import DeserializationSchema, SimpleStringSchema
from api.datastream import StreamExecutionEnvironment
from api.datastream.connectors import DeliveryGuarantee, FlinkKafkaConsumer, FlinkKafkaProducer, Semantic
from api.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSinkBuilder,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
    KafkaTopicSelector,
    OffsetsInitializer,
)
from api.datastream.formats.avro import AvroRowSerializationSchema
from api.datastream.formats.json import JsonRowSerializationSchema
from changelog_engine.connectors import CommittingSink, DiscoveringSource, Sink, still_ours
from changelog_engine.connectors.kafka import (
    ClientProperties,
    RecordSchema,
    TransactionalKafkaSink,
    clients,
    producing,
)
from changelog_engine.connectors.kafka.exactly_once import _slug
from changelog_engine.connectors.kafka.offsets import Cluster
from changelog_engine.connectors.kafka.reader import Decoded, Decoder
from changelog_engine.connectors.kafka.sink import KafkaWriter
from changelog_engine.connectors.kafka.transactions import admin_settings
from changelog_engine.errors import (
    ConfigurationError,
    ConnectorError,
    FencedError,
    InvalidJobError,
    NotSupportedError,
    TypeMismatchError,
)
from changelog_engine.graph.nodes import NodeKind
from changelog_engine.graph.tags import OutputTag
from changelog_engine.operators.failures import element_in

SERVERS = "localhost:9092"
SECRET = "hush-hush"


def settings(**given: Any) -> dict[str, str]:
    dotted = {name.replace("_", "."): value for name, value in given.items()}
    return ClientProperties({"bootstrap.servers": SERVERS, **dotted}, "Test").settings


class TestProperties:
    def test_javas_names(self) -> None:
        found = settings(
            fetch_max_wait_ms=100,
            send_buffer_bytes="5",
            max_request_size="7",
            buffer_memory="33554432",
            key_deserializer="org.apache.kafka.common.serialization.StringDeserializer",
            max_poll_records="500",
            zookeeper_connect="localhost:2181",
            schema_registry_url="http://localhost:8081",
            enable_idempotence=True,
            interceptor_classes="",
            ssl_endpoint_identification_algorithm="",
        )
        assert found == {
            "bootstrap.servers": SERVERS,
            "fetch.wait.max.ms": "100",
            "socket.send.buffer.bytes": "5",
            "message.max.bytes": "7",
            "queue.buffering.max.kbytes": "32768",
            "enable.idempotence": "true",
            "ssl.endpoint.identification.algorithm": "none",
        }

    def test_a_login_in_javas_way(self) -> None:
        login = (
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="me" password="{SECRET}\\"";'
        )
        found = settings(sasl_jaas_config=login, sasl_mechanism="SCRAM-SHA-256")
        assert found["sasl.username"] == "me"
        assert str(found["sasl.password"]) == f'{SECRET}"'
        assert "sasl.jaas.config" not in found
        with pytest.raises(NotSupportedError, match=r"sasl\.jaas\.config"):
            settings(sasl_jaas_config="com.sun.security.auth.module.Krb5LoginModule required;")

    def test_stores(self) -> None:
        found = settings(ssl_truststore_location="/ca.pem", ssl_truststore_type="PEM")
        assert found == {"bootstrap.servers": SERVERS, "ssl.ca.location": "/ca.pem"}
        found = settings(ssl_keystore_location="/me.p12", ssl_keystore_password=SECRET)
        assert found["ssl.keystore.location"] == "/me.p12"
        with pytest.raises(NotSupportedError, match="Java key store of type JKS"):
            settings(ssl_keystore_location="/me.jks")

    @pytest.mark.parametrize("name", ["sasl.password", "ssl.key.password", "sasl.jaas.config"])
    def test_secrets_are_never_shown(self, name: str) -> None:
        value = SECRET
        if name == "sasl.jaas.config":
            value = f'x.PlainLoginModule required username="me" password="{SECRET}";'
        properties = ClientProperties({"bootstrap.servers": SERVERS, name: value}, "Test")
        again = pickle.loads(pickle.dumps(properties))
        for each in (properties, again):
            assert SECRET not in f"{each!r} {each.settings!r} {each.given!r} {vars(each)!r}"
            assert each.redacted(f"wrong password {SECRET}!") == "wrong password ***!"

    def test_values_that_cannot_be_used(self) -> None:
        for given in ({"a": object()}, {1: "a"}, {"buffer.memory": "much"}):
            with pytest.raises(ConfigurationError, match="Test: "):
                ClientProperties(given, "Test")  # type: ignore[arg-type]
        with pytest.raises(NotSupportedError, match="names a Java class"):
            settings(partitioner_class="org.example.Mine")
        with pytest.raises(NotSupportedError, match=r"'config.providers' .* give the values themselves"):
            settings(config_providers="file")
        assert "partitioner.class" not in settings(
            partitioner_class="org.apache.kafka.clients.producer.UniformStickyPartitioner"
        )

    def test_what_kafka_python_gets(self) -> None:
        given = {
            "bootstrap.servers": "a:1, b:2",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "me",
            "sasl.password": SECRET,
            "ssl.endpoint.identification.algorithm": "",
        }
        found = admin_settings(ClientProperties(given, "Test"))
        assert found["bootstrap_servers"] == ["a:1", "b:2"]
        assert (found["sasl_mechanism"], found["sasl_plain_username"]) == ("PLAIN", "me")
        assert str(found["sasl_plain_password"]) == SECRET
        assert SECRET not in repr(found)
        assert found["ssl_check_hostname"] is False
        with pytest.raises(NotSupportedError, match="cannot log in by OAUTHBEARER"):
            admin_settings(ClientProperties({**given, "sasl.mechanism": "OAUTHBEARER"}, "Test"))


def source_builder() -> KafkaSourceBuilder:
    made = KafkaSource.builder().set_bootstrap_servers(SERVERS).set_topics("t")
    return made.set_value_only_deserializer(SimpleStringSchema())


def sink_builder() -> KafkaSinkBuilder:
    record = KafkaRecordSerializationSchema.builder().set_topic("t")
    record.set_value_serialization_schema(SimpleStringSchema())
    return KafkaSink.builder().set_bootstrap_servers(SERVERS).set_record_serializer(record.build())


class TestBuilders:
    def test_what_is_missing(self) -> None:
        with pytest.raises(ConfigurationError, match=r"call set_topics\(\)"):
            KafkaSource.builder().build()
        with pytest.raises(ConfigurationError, match=r"call set_value_only_deserializer\(\)"):
            KafkaSource.builder().set_topics("t").build()
        with pytest.raises(ConfigurationError, match="choose them once"):
            source_builder().set_topic_pattern("t.*")
        with pytest.raises(ConfigurationError, match=r"call set_record_serializer\(\)"):
            KafkaSink.builder().set_bootstrap_servers(SERVERS).build()
        with pytest.raises(ConfigurationError, match=r"call set_topic\(\)"):
            KafkaRecordSerializationSchema.builder().build()
        with pytest.raises(ConfigurationError, match=r"'bootstrap.servers' is missing"):
            FlinkKafkaConsumer("t", SimpleStringSchema(), {})
        with pytest.raises(ConfigurationError, match=r"'bootstrap.servers' is missing"):
            FlinkKafkaProducer("t", SimpleStringSchema(), {})

    def test_unknown_properties_are_named(self) -> None:
        with pytest.raises(ConfigurationError, match=r"KafkaSource: property 'no.such.name' is not known"):
            source_builder().set_property("no.such.name", "1").build()
        with pytest.raises(ConfigurationError, match=r"KafkaSink: property 'no.such.name' is not known"):
            sink_builder().set_property("no.such.name", "1").build()
        with pytest.raises(ConfigurationError, match=r'KafkaSource: .*"session.timeout.ms"'):
            source_builder().set_property("session.timeout.ms", "soon").build()
        with pytest.raises(NotSupportedError, match=r"'transactional.id' is set by the engine"):
            sink_builder().set_property("transactional.id", "mine").build()

    def test_wrong_arguments(self) -> None:
        for wrong in (
            lambda: source_builder().set_starting_offsets("earliest"),
            lambda: source_builder().set_bounded(5),
            lambda: KafkaSource.builder().set_topic_pattern("("),
            lambda: KafkaSource.builder().set_topics(),
            lambda: KafkaSource.builder().set_partitions({("t", 1)}),
            lambda: source_builder().set_value_only_deserializer(str),
            lambda: source_builder().set_deserializer(SimpleStringSchema()),
            lambda: source_builder().set_bad_records_tag("bad"),
            lambda: KafkaOffsetsInitializer.timestamp(-1),
            lambda: KafkaOffsetsInitializer.offsets({"t": 1}),
            lambda: KafkaOffsetsInitializer.committed_offsets("latest"),
            lambda: KafkaTopicPartition("", 0),
            lambda: sink_builder().set_delivery_guarantee("exactly"),
            lambda: sink_builder().set_transactional_id_prefix(""),
            lambda: KafkaRecordSerializationSchema.builder().set_topic_selector("t"),
            lambda: FlinkKafkaConsumer([], SimpleStringSchema(), {}),
            lambda: FlinkKafkaProducer("t", SimpleStringSchema(), {}, semantic="exactly"),
        ):
            with pytest.raises(ConfigurationError):
                wrong()

    def test_names(self) -> None:
        assert OffsetsInitializer is KafkaOffsetsInitializer
        assert [strategy.name for strategy in KafkaOffsetResetStrategy] == ["LATEST", "EARLIEST", "NONE"]
        assert (
            len({KafkaTopicPartition("t", 1), KafkaTopicPartition("t", 1), KafkaTopicPartition("t", 2)}) == 2
        )
        assert (Semantic.AT_LEAST_ONCE.value, Semantic.NONE.value) == ((1,), 2)

    def test_what_looks_for_new_partitions(self) -> None:
        assert source_builder().build()._source.discovery_interval_ms == 300_000
        never = source_builder().set_property("partition.discovery.interval.ms", "-1")
        assert not isinstance(never.build()._source, DiscoveringSource)
        bounded = source_builder().set_bounded(KafkaOffsetsInitializer.latest()).build()._source
        assert bounded.bounded
        assert not isinstance(bounded, DiscoveringSource)
        properties = {"bootstrap.servers": SERVERS, "group.id": "g"}
        consumer = FlinkKafkaConsumer("t", SimpleStringSchema(), properties)
        assert not isinstance(consumer._function, DiscoveringSource)
        properties["flink.partition-discovery.interval-millis"] = "50"
        assert FlinkKafkaConsumer("t", SimpleStringSchema(), properties)._function.discovery_interval_ms == 50

    def test_guarantees(self) -> None:
        plain = sink_builder().build()._sink
        assert isinstance(plain, Sink)
        assert not plain.waits
        assert sink_builder().set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE).build()._sink.waits
        exact = sink_builder().set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        assert isinstance(exact.build()._sink, CommittingSink)
        assert exact.build()._sink.timeout_ms == 900_000
        exact.set_property("enable.idempotence", "false")
        with pytest.raises(ConfigurationError, match=r"'enable.idempotence' must be true"):
            exact.build()

    def test_the_older_producer(self) -> None:
        properties = {"bootstrap.servers": SERVERS}
        producer = FlinkKafkaProducer("t", SimpleStringSchema(), properties)
        assert (producer._function.waits, producer._function.timed, producer._function.only_log) == (
            True,
            False,
            False,
        )
        producer.set_flush_on_checkpoint(False).set_write_timestamp_to_kafka(True).set_log_failures_only(True)
        assert (producer._function.waits, producer._function.timed, producer._function.only_log) == (
            False,
            True,
            True,
        )
        exact = FlinkKafkaProducer("t", SimpleStringSchema(), properties, semantic=Semantic.EXACTLY_ONCE)
        assert isinstance(exact._function, TransactionalKafkaSink)
        assert not exact._function.only_log_lost
        assert exact.ignore_failures_after_transaction_timeout()._function.only_log_lost


class ByFirst(KafkaTopicSelector):
    def apply(self, data: Any) -> Any:
        return data[0]


def test_topic_selectors() -> None:
    record = KafkaRecordSerializationSchema.builder().set_topic_selector(ByFirst())
    schema = record.set_value_serialization_schema(SimpleStringSchema()).build()._schema
    assert schema.topic_of(["a"]) == "a"
    with pytest.raises(TypeMismatchError, match="the topic selector gave 5"):
        RecordSchema(None, lambda element: element, SimpleStringSchema()).topic_of(5)


@pytest.mark.parametrize("kind", ["json", "avro"])
def test_a_key_of_some_of_the_rows_fields(kind: str) -> None:
    if kind == "json":
        declared = Types.ROW_NAMED(["b", "a"], [Types.STRING(), Types.LONG()])
        schema = JsonRowSerializationSchema.builder().with_type_info(declared).build()
    else:
        fields = [{"name": "b", "type": "string"}, {"name": "a", "type": "long"}]
        text = json.dumps({"type": "record", "name": "key", "fields": fields})
        schema = AvroRowSerializationSchema(avro_schema_string=text)
    record = KafkaRecordSerializationSchema.builder().set_topic("t").set_key_serialization_schema(schema)
    record = record.set_value_serialization_schema(SimpleStringSchema())
    write = pickle.loads(pickle.dumps(record.build()._schema.key_schema)).serialize
    key = schema.serialize(Row("x", 1))
    assert write(Row(n=0, a=1, b="x")) == write(Row(a=1, b="x")) == write(Row("x", 1)) == key
    for other in (Row(n=0, a=1, c="x"), Row("x", 1, 2), ("x", 1, 2)):
        with pytest.raises(TypeMismatchError, match="a row of 3 fields where 2 are declared"):
            write(other)


class Half(SimpleStringSchema):
    """Gives too few."""

    def serialize(self, element: str) -> bytes:
        return element.encode()

    def serialize_all(self, elements: list[str]) -> list[bytes]:
        return [each.encode() for each in elements[::2]]

    def deserialize(self, message: bytes) -> str:
        return message.decode()

    def deserialize_all(self, messages: list[bytes]) -> list[str]:
        return [each.decode() for each in messages[::2]]


class Both(Half):
    """Writes one, and many in the same way."""

    def serialize(self, element: str) -> bytes:
        return element.encode()

    def serialize_all(self, elements: list[str]) -> list[bytes]:
        return [each.encode() for each in elements]


class Loud(Half):
    """Overrides what is called for one: then that is called for each."""

    def serialize(self, element: str) -> bytes:
        return element.upper().encode()

    def deserialize(self, message: bytes) -> str:
        return message.decode().upper()


def test_schemas_for_many_at_once() -> None:
    assert RecordSchema("t", None, Loud()).records_of(["a", "b"]) == (["t", "t"], [b"A", b"B"], [None, None])
    assert RecordSchema("t", None, SimpleStringSchema()).records_of(["a", "b"])[1] == [b"a", b"b"]

    class Forgot(SimpleStringSchema):
        def serialize(self, element: str) -> bytes:
            return given[element]  # type: ignore[return-value]

    given: dict[str, object] = {"a": b"A", "b": None}
    with pytest.raises(
        TypeMismatchError, match=r"Forgot.serialize\(\) gave None for 'b', and the record has no key"
    ):
        RecordSchema("t", None, Forgot()).records_of(["a", "b"])
    assert RecordSchema("t", None, Forgot(), SimpleStringSchema()).records_of(["a", "b"])[1] == [b"A", None]
    with pytest.raises(
        ConnectorError, match=r"Half.serialize_all\(\) gave 1 messages of topic 't' for 2 elements"
    ):
        RecordSchema("t", None, Half()).records_of(["a", "b"])
    with pytest.raises(AttributeError) as caught:
        RecordSchema("t", None, Both()).records_of(["a", 5, "b"])
    within = caught.value.__traceback__
    assert within is not None
    assert element_in(caught.value.with_traceback(within.tb_next)) == 5
    properties = ClientProperties({"bootstrap.servers": SERVERS}, "Test")
    messages = [Message(topic="t", partition=0, offset=0, value=value) for value in (b"a", b"b")]
    values: list[Any] = []
    Decoder(Loud(), None, properties)(messages, Decoded(values, [], []))
    assert values == ["A", "B"]
    with pytest.raises(ConnectorError, match=r"Half.deserialize_all\(\) gave 1 values for 2 messages"):
        Decoder(Half(), None, properties)(messages, Decoded([], [], []))


class Given(DeserializationSchema):
    """Gives what it is made of."""

    def __init__(self, *given: Any) -> None:
        self._given = given

    def deserialize(self, message: bytes) -> Any:
        return self._given[int(message)]


class Generating(Given):
    """Gives them one by one."""

    def deserialize(self, message: bytes) -> Any:
        return self._given[int(message)]

    def deserialize_all(self, messages: list[bytes]) -> Iterator[Any]:
        return (self._given[int(message)] for message in messages)


@pytest.mark.parametrize("schema", [Given, Generating])
def test_elements_that_are_arrays(schema: type[Given]) -> None:
    array = np.arange(3)
    messages = [
        Message(topic="t", partition=0, offset=at, value=b"%d" % at, timestamp=(1, at)) for at in range(2)
    ]
    values: list[Any] = []
    times: list[int] = []
    decoder = Decoder(schema(array, None), None, ClientProperties({"bootstrap.servers": SERVERS}, "Test"))
    decoder(messages, Decoded(values, times, []))
    assert len(values) == 1
    assert np.array_equal(values[0], array)
    assert times == [0]


class Refills(DeserializationSchema):
    """Fills one dict for each message."""

    def __init__(self) -> None:
        self._kept: dict[str, Any] = {}

    def deserialize(self, message: bytes) -> Any:
        if message == b"bad":
            raise ValueError
        self._kept["n"] = int(message)
        return self._kept


@pytest.mark.parametrize("last", [b"2", b"bad"], ids=["at once", "one by one"])
def test_case_49_a_schema_that_fills_one_object(last: bytes) -> None:
    messages = [
        Message(topic="t", partition=0, offset=at, value=value, timestamp=(1, at))
        for at, value in enumerate((b"0", b"1", last))
    ]
    values: list[Any] = []
    Decoder(Refills(), "bad", ClientProperties({"bootstrap.servers": SERVERS}, "Test"))(
        messages, Decoded(values, [], [])
    )
    assert values[:2] == [{"n": 0}, {"n": 1}]


@pytest.mark.parametrize(
    "strategy",
    [WatermarkStrategy.no_watermarks(), WatermarkStrategy.for_monotonous_timestamps()],
    ids=["plain", "timed"],
)
def test_the_side_output_of_a_source(strategy: WatermarkStrategy) -> None:
    env, tag = StreamExecutionEnvironment.get_execution_environment(), OutputTag("bad")
    stream = env.from_source(source_builder().set_bad_records_tag(tag).build(), strategy, "kafka")
    (producer,) = stream.get_side_output(tag)._transformation.inputs
    assert producer.kind is NodeKind.SOURCE
    with pytest.raises(InvalidJobError, match="has no side outputs"):
        stream.get_side_output(OutputTag("other"))


def test_the_execution_plan_has_no_secrets() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    made = source_builder().set_property("sasl.password", SECRET)
    stream = env.from_source(made.build(), WatermarkStrategy.no_watermarks(), "kafka")
    stream.sink_to(sink_builder().set_property("sasl.password", SECRET).build())
    assert SECRET not in env.get_execution_plan()


def test_the_end_of_the_input_is_no_time_of_a_record() -> None:
    """Who reads the topic by event time would take all other records for late."""
    client, schema = mock.Mock(), RecordSchema("t", None, SimpleStringSchema())
    with mock.patch.object(producing, "make", return_value=client):
        producer = producing.RecordProducer(ClientProperties({"bootstrap.servers": SERVERS}, "Test"), {})
    producer.send(schema, ["a", "b", "c", "d"], [5, -(2**63), 2**63 - 1, 2**63 - 2], None)
    assert [call.args[-1] for call in client.produce.call_args_list] == [5, 0, 0, 2**63 - 2]


@pytest.mark.parametrize("full", [False, True])
def test_who_was_replaced_hands_few_more_records_to_the_client(full: bool) -> None:
    """On a topic that is compacted an old value of a key would come behind its newest."""
    client, schema = mock.Mock(), RecordSchema("t", None, SimpleStringSchema())
    if full:
        client.produce.side_effect = [BufferError] * 2 + [None] * 1000

    def check() -> None:
        if client.produce.called:
            raise FencedError("another driver took the job over")

    with mock.patch.object(producing, "make", return_value=client):
        producer = producing.RecordProducer(ClientProperties({"bootstrap.servers": SERVERS}, "Test"), {})
    still_ours.ask_by(check)
    try:
        with pytest.raises(FencedError):
            producer.send(schema, ["a"] * 1000, None, None)
    finally:
        still_ours.ask_by(None)
    assert client.produce.call_count == (1 if full else 200)


@pytest.mark.parametrize("call", ["poll", "flush"])
def test_a_client_that_became_unusable_is_an_error_of_the_connector(call: str) -> None:
    """Older versions of confluent-kafka raise a KafkaException there, newer ones what is not a class of exceptions."""
    client = mock.Mock()
    getattr(client, call).side_effect = KafkaException(KafkaError(KafkaError._FENCED, "fenced", True))
    with mock.patch.object(producing, "make", return_value=client):
        producer = producing.RecordProducer(ClientProperties({"bootstrap.servers": SERVERS}, "Test"), {})
    with pytest.raises(ConnectorError, match=r"writing failed: .*fenced"):
        getattr(producer, call)()


def test_a_cluster_that_nobody_answers_for_is_known_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sooner than a slow answer is given up: this would take ten minutes."""
    monkeypatch.setattr(clients, "CONTACT_TIMEOUT_S", 0.2)
    cluster = Cluster(ClientProperties({"bootstrap.servers": "localhost:1"}, "consumer"), timeout_s=600.0)
    with pytest.raises(ConnectorError, match=r"Kafka \(localhost:1\): listing topics failed: .*refused"):
        cluster.topics()
    cluster.close()


@pytest.mark.parametrize(("waits", "left", "told"), [(False, 3, True), (False, 0, False), (True, 3, False)])
def test_what_is_not_delivered_at_the_end_is_told(
    waits: bool, left: int, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A sink that does not wait gives its last records some seconds; a sink that waits writes them again."""
    writer: Any = KafkaWriter.__new__(KafkaWriter)
    writer._sink = SimpleNamespace(waits=waits)
    writer._producer = SimpleNamespace(
        flush_for=lambda wait_s: left, failure=lambda doing, error: f"{doing} failed: {error}"
    )
    writer.close()
    messages = [record.getMessage() for record in caplog.records]
    assert messages == (["writing failed: 3 records were not delivered"] if told else [])


def test_sinks_with_different_uids_share_no_transactional_ids() -> None:
    """They would fence each other, and abort what the other's checkpoints keep."""
    assert [_slug(name) for name in ("orders", "a.c_1")] == ["orders", "a.c_1"]
    names = ("注文", "在庫", "ä", "ö", "a/b", "a b", "a-b", "a_b", "a--b", "a  b")
    assert len({_slug(name) for name in names}) == len(names)
    assert not any("-" in _slug(name) for name in names), "it parts the fields of an id"
