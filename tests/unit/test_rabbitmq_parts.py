"""RabbitMQ without a broker: what the options take, what is said of errors, which ids are remembered."""

from __future__ import annotations

import pickle
import re
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pika
import pytest

from api.common.serialization import SerializationSchema, SimpleStringSchema
from api.datastream.connectors import RMQConnectionConfig, RMQSink, RMQSource
from changelog_engine.connectors import rabbitmq as engine
from changelog_engine.connectors.rabbitmq import sink as sink_module
from changelog_engine.connectors.rabbitmq.link import failure
from changelog_engine.connectors.rabbitmq.sink import QueueWriter
from changelog_engine.connectors.rabbitmq.source import _REMEMBERED, Message, Remembered
from changelog_engine.errors import ArgumentTypeError, ConfigurationError, TypeMismatchError

Builder = RMQConnectionConfig.Builder


def filled() -> Builder:
    builder = Builder().set_host("mq").set_port(5673).set_virtual_host("sales")
    return builder.set_user_name("ann").set_password("p/w")


class TestConfig:
    def test_what_was_set(self) -> None:
        config = (
            filled()
            .set_requested_heartbeat(7)
            .set_requested_frame_max(0)
            .set_requested_channel_max(3)
            .set_network_recovery_interval(0)
            .set_connection_timeout(2_500)
            .set_automatic_recovery(False)
            .set_topology_recovery_enabled(True)
            .set_prefetch_count(65_535)
            .build()
        )
        assert (config.get_host(), config.get_port(), config.get_virtual_host()) == ("mq", 5673, "sales")
        assert (config.get_user_name(), config.get_password(), config.get_uri()) == ("ann", "p/w", None)
        assert (config.get_requested_heartbeat(), config.get_requested_frame_max()) == (7, 0)
        assert (config.get_requested_channel_max(), config.get_connection_timeout()) == (3, 2_500)
        assert (config.get_network_recovery_interval(), config.is_automatic_recovery()) == (0, False)
        assert config.is_topology_recovery() is True
        parameters = config._options.parameters()
        assert (parameters.heartbeat, parameters.channel_max, parameters.socket_timeout) == (7, 3, 2.5)
        assert parameters.ssl_options is None

    def test_what_was_not_set(self) -> None:
        config = filled().build()
        assert config.get_requested_heartbeat() is None
        assert config._options.parameters().heartbeat == 20
        assert config.is_automatic_recovery() is None
        assert "p/w" not in repr(config) + repr(config._options)
        assert pickle.loads(pickle.dumps(config))._options == config._options

    @pytest.mark.parametrize(
        ("uri", "host", "port", "virtual_host", "user", "password"),
        [
            ("amqp://ann:p%2Fw@mq:5673/sales", "mq", 5673, "sales", "ann", "p/w"),
            ("amqp://mq", "mq", 5672, "/", "guest", "guest"),
            ("amqps://mq/%2F", "mq", 5671, "/", "guest", "guest"),
            ("amqp://a%40b:c@[::1]:1/a%2Fb", "::1", 1, "a/b", "a@b", "c"),
        ],
    )
    def test_uris(self, uri: str, host: str, port: int, virtual_host: str, user: str, password: str) -> None:
        config = filled().set_requested_heartbeat(9).set_uri(uri).build()
        assert (config.get_host(), config.get_port(), config.get_virtual_host()) == (host, port, virtual_host)
        assert (config.get_user_name(), config.get_password(), config.get_uri()) == (user, password, uri)
        assert config.get_requested_heartbeat() == 9
        assert (config._options.tls is not None) == uri.startswith("amqps")

    def test_parameters_of_uris(self) -> None:
        options = (
            Builder().set_uri("amqp://mq?heartbeat=5&connection_timeout=80&channel_max=2").build()._options
        )
        assert (options.heartbeat_s, options.connection_timeout_ms, options.channel_max) == (5, 80, 2)
        tls = Builder().set_uri("amqps://mq?cacertfile=/a&certfile=/b&keyfile=/c").build()._options.tls
        assert (tls.ca_file, tls.cert_file, tls.key_file, tls.verify) == ("/a", "/b", "/c", True)

    @pytest.mark.parametrize(
        ("uri", "said"),
        [
            ("http://mq", "must look like amqp://"),
            ("mq:5672", "must look like amqp://"),
            ("amqp://mq:port", "must look like amqp://"),
            ("amqp://u:s3cret@mq/a/b", "write %2F"),
            ("amqp://u:s3cret@mq?hartbeat=3", "'hartbeat', which is not one of heartbeat"),
            ("amqp://u:s3cret@mq?heartbeat=soon", "heartbeat must be a whole number"),
            ("amqp://mq?heartbeat=65536", "heartbeat must be a whole number from 0 to 65,535, got '65536'"),
            ("amqp://mq?channel_max=70000", "channel_max must be a whole number from 0 to 65,535"),
            ("amqp://mq?connection_timeout=2147483648", "from 0 to 2,147,483,647"),
            (f"amqp://mq?connection_timeout={'9' * 5_000}", "from 0 to 2,147,483,647"),
            ("amqp://mq?heartbeat", "must look like amqp://"),
            ("amqp://u:12?s3cret@mq/%2F", "written as %2F, %3F and %40"),
            ("amqp://u:12?s3cret=1@mq/%2F", "must look like amqp://"),
            ("amqp://u:12?heartbeat=s3cret@mq/%2F", "must look like amqp://"),
            ("amqp://u:12/s3cret@mq", "must look like amqp://"),
            ("amqp://mq?verify=verify_none", "'verify' is for URIs that begin with amqps"),
            ("amqps://mq?verify=no", "verify must be verify_peer or verify_none, got 'no'"),
            ("amqps://mq?keyfile=/k", "keyfile and no certfile"),
        ],
    )
    def test_uris_that_are_refused(self, uri: str, said: str) -> None:
        with pytest.raises(ConfigurationError, match=re.escape(said)) as caught:
            Builder().set_uri(uri)
        assert "s3cret" not in str(caught.value)

    def test_the_largest_parameters_of_uris(self) -> None:
        uri = "amqp://mq?heartbeat=65535&channel_max=65535&connection_timeout=2147483647"
        options = Builder().set_uri(uri).build()._options
        assert (options.heartbeat_s, options.channel_max, options.connection_timeout_ms) == (
            65_535, 65_535, 2_147_483_647,
        )  # fmt: skip
        parameters = options.parameters()
        assert (parameters.heartbeat, parameters.channel_max) == (65_535, 65_535)

    @pytest.mark.parametrize(
        ("name", "values"),
        [
            ("port", [0, 65_536, "5672", True]),
            ("host", ["", " ", None]),
            ("virtual_host", ["", 1]),
            ("user_name", ["", None]),
            ("password", [None, 5]),
            ("uri", [None, 5]),
            ("requested_heartbeat", [-1, 65_536, 1.5]),
            ("requested_frame_max", [-1, 1, 4_095, 131_073, False]),
            ("requested_channel_max", [-1, 65_536]),
            ("network_recovery_interval", [-1, "1"]),
            ("connection_timeout", [-1, None]),
            ("automatic_recovery", [1, None]),
            ("topology_recovery_enabled", ["yes"]),
            ("prefetch_count", [-1, 65_536, 2.0]),
        ],
    )
    def test_values_that_are_refused(self, name: str, values: list[Any]) -> None:
        for value in values:
            with pytest.raises(ConfigurationError, match=f"set_{name}"):
                getattr(Builder(), f"set_{name}")(value)

    def test_what_is_missing_is_named(self) -> None:
        builder = Builder().set_host("mq").set_port(1).set_user_name("ann").set_password("x")
        with pytest.raises(ConfigurationError, match=r"give set_virtual_host\(\) or set_uri\(\) first"):
            builder.build()


class TestArguments:
    def test_source_and_sink(self) -> None:
        config = filled().build()
        schema = SimpleStringSchema()
        with pytest.raises(
            ArgumentTypeError, match=r"RMQSource: connection_config .* got a Builder; build\(\) it"
        ):
            RMQSource(filled(), "q", True, schema)  # type: ignore[arg-type]
        with pytest.raises(ArgumentTypeError, match="RMQSink: queue_name must be a non-empty str"):
            RMQSink(config, "", schema)
        with pytest.raises(ArgumentTypeError, match="use_correlation_id must be True or False"):
            RMQSource(config, "q", "yes", schema)  # type: ignore[arg-type]
        with pytest.raises(ArgumentTypeError, match="must be a DeserializationSchema"):
            RMQSource(config, "q", True, str)  # type: ignore[arg-type]
        with pytest.raises(ArgumentTypeError, match="must be a SerializationSchema"):
            RMQSink(config, "q", str)  # type: ignore[arg-type]

    def test_without_pika(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pika", None)
        with pytest.raises(ConfigurationError, match=r"pip install 'changelog-engine\[rabbitmq\]'"):
            RMQSink(filled().build(), "q", SimpleStringSchema())

    def test_the_source(self) -> None:
        source = RMQSource(filled().build(), "q", True, SimpleStringSchema())._function
        assert (source.bounded, source.parallel, source.acknowledges, source.replayable) == (
            False, False, True, False,
        )  # fmt: skip
        assert source.with_options({}).checkpoints is False
        assert source.with_options({"execution.checkpointing.interval": "5 ms"}).checkpoints is True
        assert isinstance(source, engine.QueueSource)


class TestRemembered:
    def test_ids_are_forgotten_some_time_after_their_acknowledgement(self) -> None:
        now = 0.0
        remembered = Remembered(lambda: now)
        assert [remembered.is_new(each, False) for each in ("a", "b", "a")] == [True, True, False]
        now = 1_000_000.0
        assert remembered.all() == ["a", "b"], "not acknowledged: for ever"
        remembered.acknowledged()
        assert remembered.is_new("c", False)
        now += 9
        assert remembered.all() == ["a", "b", "c"]
        assert not remembered.is_new("b", True)  # it came again, and waits for its acknowledgement again
        now += 2
        assert remembered.all() == ["c", "b"]
        assert not remembered.is_new("b", True)
        assert remembered.is_new("a", True)

    def test_ids_of_a_checkpoint(self) -> None:
        now = 0.0
        remembered = Remembered(lambda: now)
        remembered.restore(["a", "b"])
        assert not remembered.is_new("a", True)
        now = 10_000.0
        assert remembered.all() == ["b", "a"], "no message has come that nobody had before"
        assert remembered.is_new("new", False)
        now += 599
        assert remembered.all() == ["b", "a", "new"]
        now += 2
        assert remembered.all() == ["a", "new"]

    def test_acknowledged_ids_are_bounded_and_others_are_not(self) -> None:
        remembered = Remembered(lambda: 0.0)
        for number in range(_REMEMBERED + 10):
            remembered.is_new(f"{number}", False)
        assert len(remembered.all()) == _REMEMBERED + 10
        remembered.acknowledged()
        kept = remembered.all()
        assert len(kept) == _REMEMBERED
        assert kept[0] == "10", "the oldest go first"


class WithoutQueues:
    """A broker's connection that finds no queue, once."""

    is_open = False

    def __init__(self, parameters: Any) -> None:
        pass

    def channel(self) -> Any:
        return self

    def queue_declare(self, queue: str, passive: bool = False, durable: bool = False) -> None:
        if passive:
            raise NO_QUEUE


NO_QUEUE = pika.exceptions.ChannelClosedByBroker(404, "NOT_FOUND - no queue 'q' in vhost '/'")


class TestQueuesThatAreGone:
    """As after a broker that was started on an empty disk."""

    def test_while_the_job_runs(self) -> None:
        error = str(failure(filled().build()._options, "the channel", NO_QUEUE))
        assert "no queue 'q' in vhost '/': it was deleted, or the broker has lost its storage" in error
        assert error.endswith("what waited in it is lost. The program makes it when it is started again")

    def test_when_the_program_starts(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(pika, "BlockingConnection", WithoutQueues)
        RMQSink(filled().build(), "q", SimpleStringSchema())._function.check_before_start()
        assert (
            "'q' was not there, and was made, durable. If the job used it before, it was deleted"
            in caplog.text
        )


class FakeLink:
    """A link to nobody."""

    failed = False
    blocked = None

    def __init__(self) -> None:
        self.errors: list[Exception] = []

    def call(self, work: Any, doing: str) -> None:
        pass

    soon = check = fail = close = lambda self, *arguments: None


class TestWriting:
    @pytest.fixture
    def writer(self, monkeypatch: pytest.MonkeyPatch) -> QueueWriter:
        monkeypatch.setattr(sink_module, "connected", lambda options, woken: FakeLink())
        return QueueWriter(RMQSink(filled().build(), "q", Anything())._function)

    @staticmethod
    def confirm(writer: QueueWriter, tag: int, multiple: bool) -> None:
        method = SimpleNamespace(NAME="Basic.Ack", delivery_tag=tag, multiple=multiple)
        writer._confirmed(SimpleNamespace(method=method))

    def test_confirmations(self, writer: QueueWriter) -> None:
        writer.write([b"x" * size for size in range(1, 9)])
        self.confirm(writer, 3, False)
        assert sorted(writer._on_the_way) == [1, 2, 4, 5, 6, 7, 8]
        self.confirm(writer, 5, True)
        assert sorted(writer._on_the_way) == [6, 7, 8]
        assert writer._bytes_on_the_way == 6 + 7 + 8
        self.confirm(writer, 8, True)
        writer.flush()
        assert (writer._on_the_way, writer._bytes_on_the_way) == ({}, 0)

    def test_a_confirmation_looks_at_what_it_confirms_only(self, writer: QueueWriter) -> None:
        class Looked(dict[int, int]):
            seen = 0

            def __iter__(self) -> Iterator[int]:
                for each in super().__iter__():
                    Looked.seen += 1
                    yield each

        writer.write([b"x"] * 400)
        writer._on_the_way = Looked(writer._on_the_way)
        self.confirm(writer, 10, True)
        assert len(writer._on_the_way) == 390
        assert Looked.seen <= 12

    def test_what_is_not_bytes(self, writer: QueueWriter) -> None:
        class Unshowable:
            def __repr__(self) -> str:
                raise ValueError("no repr")

        for value in (Unshowable(), "x" * 10_000):
            with pytest.raises(TypeMismatchError, match="which is not bytes") as caught:
                writer.write([value])
            assert len(str(caught.value)) < 500


class Anything(SerializationSchema):
    """Gives what it is given."""

    def serialize(self, element: Any) -> Any:
        return element


class Until(SimpleStringSchema):
    """Ends at a word."""

    def is_end_of_stream(self, next_element: Any) -> bool:
        return next_element == "end"


@pytest.mark.parametrize(("schema", "read"), [(SimpleStringSchema(), ["a", "end", "b"]), (Until(), ["a"])])
def test_the_end_of_a_queue(schema: SimpleStringSchema, read: list[str]) -> None:
    reader = RMQSource(filled().build(), "q", False, schema)._function.reader(engine.QueueSource)
    assert (reader._is_end is None) is (type(schema) is SimpleStringSchema), "asked only where it may say yes"
    messages = [Message(tag, False, None, body) for tag, body in enumerate((b"a", b"end", b"b"), 1)]
    reader._delivery = SimpleNamespace(take=lambda most, wait_s: messages, acknowledge_soon=lambda tag: None)
    found = reader.read({}, 10)
    assert (found.values, found.finished) == (read, type(schema) is Until)
