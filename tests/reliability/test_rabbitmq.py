"""RabbitMQ: what comes again after a failure and what is made of it, acknowledgements, and what goes wrong with a broker."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
import uuid
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from servers.process import free_port
from servers.rabbitmq import RabbitMQServer
from support.graphs import GraphBuilder
from support.jobs import NO_RESTART, StoppedJob, TestJob
from support.live import logged_state
from support.script import Failure, Fault, Script

from api.common import RestartStrategies, Types
from api.common.serialization import DeserializationSchema, SerializationSchema, SimpleStringSchema
from api.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from api.datastream.connectors.rabbitmq import RMQConnectionConfig, RMQSink, RMQSource
from api.datastream.state import ValueStateDescriptor
from changelog_engine.connectors.rabbitmq import sink as sink_module
from changelog_engine.connectors.rabbitmq import source as source_module
from changelog_engine.errors import ConnectorError, JobExecutionError, RestoreError
from changelog_engine.graph.nodes import JobGraph, NodeKind
from changelog_engine.replay.job import replay_graph
from changelog_engine.testing import without_spark

pytestmark = pytest.mark.slow

_PAUSE_S = 0.005  # before who found nothing looks again


def config(rabbitmq: RabbitMQServer, **more: Any) -> RMQConnectionConfig:
    builder = RMQConnectionConfig.Builder().set_uri(rabbitmq.uri())
    for name, value in {"network_recovery_interval": 100, **more}.items():
        getattr(builder, f"set_{name}")(value)
    return builder.build()


def source_of(
    rabbitmq: RabbitMQServer, queue: str, by_id: bool = True, schema: Any = None, **more: Any
) -> Any:
    made = RMQSource(config(rabbitmq, **more), queue, by_id, schema or SimpleStringSchema())
    return made._function


def sink_of(rabbitmq: RabbitMQServer, queue: str, schema: Any = None) -> Any:
    return RMQSink(config(rabbitmq), queue, schema or SimpleStringSchema())._function


def texts(*numbers: int) -> list[str]:
    return [str(number) for number in numbers]


def fill(rabbitmq: RabbitMQServer, queue: str, numbers: range) -> None:
    rabbitmq.publish(queue, texts(*numbers), (f"id-{number}" for number in numbers))


class Count(KeyedProcessFunction):
    """Counts how often there was an element, and passes it on."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        yield value


def counting(source: Any, sink: Any = None, parallelism: int = 1) -> JobGraph:
    build = GraphBuilder("job", parallelism, 16)
    keyed = build.key_by(build.source(source, uid="queue"), str, Types.STRING())
    counted = build.process(keyed, Count(), uid="count")
    build.collect(counted)
    if sink is not None:
        build.add(NodeKind.SINK, "sink", counted, function=sink, uid="sink")
    return build.graph()


def drained(source: Any, position: Any = None, count: int = 1, seconds: float = 5.0) -> tuple[Any, Any, Any]:
    """A reader that has given at least so many elements, they, and its position at a barrier."""
    reader = source.reader(source.splits(1)[0])
    position = {} if position is None else position
    found: list[Any] = []
    deadline = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < deadline:
        values, position, _, _, _ = reader.read(position, 1000)
        found += values
        time.sleep(0 if values else _PAUSE_S)
    return reader, found, reader.at_barrier(position)


def read_on(reader: Any, position: Any) -> None:
    """Read for ten seconds, or until that fails."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        _, position, *_ = reader.read(position, 10)
        time.sleep(_PAUSE_S)


class TestExactlyOnce:
    @pytest.mark.parametrize(
        "faults",
        [
            (Fault.WORKER, Fault.PARTS),
            (Fault.COMMIT_LIES, Fault.GONE),
            (Fault.COMMIT_FAILS, Fault.HANDED_OUT),
            (Fault.DRIVER,),
        ],
        ids=lambda faults: "-".join(fault.name for fault in faults),
    )
    def test_each_message_counts_once(
        self, rabbitmq: RabbitMQServer, tmp_path: Path, faults: tuple[Fault, ...]
    ) -> None:
        queue = rabbitmq.create_queue()
        fill(rabbitmq, queue, range(60))
        failures = tuple(Failure(2 + 2 * number, fault) for number, fault in enumerate(faults))
        job = StoppedJob(
            tmp_path, 60, Script((7,), (True, False), failures), tolerable_failures=1, delete_on_cancel=False
        )
        job.run(counting(source_of(rabbitmq, queue)))
        assert not job.progress.waiting, "all of it happened"
        assert Counter(job.output) == Counter(texts(*range(60)))
        counts = logged_state(str(tmp_path))["count", "count"]
        assert list(counts.values()) == [1] * 60
        assert rabbitmq.left(queue) == 0, "all is acknowledged"

    def test_the_broker_is_killed_while_it_reads(
        self, rabbitmq: RabbitMQServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It forgets acknowledgements that it had read and not written yet; a reader and two writers wait for it."""
        queue, into = rabbitmq.create_queue(), rabbitmq.create_queue()
        fill(rabbitmq, queue, range(40))

        def start() -> None:
            rabbitmq.start()
            fill(rabbitmq, queue, range(40, 50))

        starting = threading.Thread(target=start)

        def die() -> None:
            rabbitmq.wait_until_declared()
            rabbitmq.kill()
            starting.start()  # the job meets a broker that is gone, then one that starts

        job = StoppedJob(tmp_path, 50, steps=[(20, die)])
        job.run(counting(source_of(rabbitmq, queue), sink_of(rabbitmq, into), 2))
        starting.join()
        assert Counter(job.output) == Counter(texts(*range(50)))
        assert rabbitmq.left(queue) == 0
        assert set(rabbitmq.take(into)) == {text.encode() for text in texts(*range(50))}
        said = [record.message for record in caplog.records if "trying again" in record.message]
        failed = [record.message for record in caplog.records if "failed and restarts" in record.message]
        assert 1 <= len(said) <= 3 * len(failed), "once for each connection that is waited for"

    def test_known_messages_are_dropped_fast_however_few_an_epoch_reads(
        self, rabbitmq: RabbitMQServer
    ) -> None:
        """An epoch may read a single element, and a job rests for up to a second after one that has none."""
        queue = rabbitmq.create_queue()
        fill(rabbitmq, queue, range(300))
        source = source_of(rabbitmq, queue)
        reader, _, position = drained(source, count=300)
        reader.close()
        rabbitmq.publish(queue, ["new"], ["id-new"])
        reader, found, reads = source.reader(source.splits(1)[0]), [], 0
        deadline = time.monotonic() + 60
        while not found and time.monotonic() < deadline:
            before = position
            found, position, *_ = reader.read(position, 1)
            reads += position != before  # the broker may take its time
        reader.close()
        assert found == ["new"]
        assert reads < 100, "hardly more than one message an epoch"

    def test_a_checkpoint_without_anything_read(self, rabbitmq: RabbitMQServer, tmp_path: Path) -> None:
        """A stop makes a checkpoint in an epoch that reads nothing: it has the ids all the same."""
        queue = rabbitmq.create_queue()
        fill(rabbitmq, queue, range(10))
        job = StoppedJob(tmp_path, 10, Script((10,), (False, True)))
        acknowledge = source_module.Delivery.acknowledge
        source_module.Delivery.acknowledge = lambda *_: None  # type: ignore[method-assign] # they get lost
        try:
            job.run(counting(source_of(rabbitmq, queue)))
        finally:
            source_module.Delivery.acknowledge = acknowledge  # type: ignore[method-assign]
        assert job.commits[-1].stopped
        assert rabbitmq.left(queue) == 10
        fill(rabbitmq, queue, range(10, 12))
        job.count = 12
        job.run(counting(source_of(rabbitmq, queue)))
        assert sorted(job.output, key=int) == texts(*range(12))
        assert rabbitmq.left(queue) == 0

    def test_the_tasks_end_and_the_reader_stays(self, rabbitmq: RabbitMQServer) -> None:
        queue = rabbitmq.create_queue()
        fill(rabbitmq, queue, range(5))
        source = source_of(rabbitmq, queue)
        reader, found, position = drained(source, count=5)
        assert len(found) == 5
        with pytest.raises(
            ConnectorError, match=r"cannot be read again from message 3 .* a queue has no positions"
        ):
            reader.read({**position, "read": 3}, 10)
        other = source.reader(source.splits(1)[0])
        within = {name: position[name] for name in ("reader", "read")}
        with pytest.raises(ConnectorError, match="of another reader that no checkpoint has kept"):
            other.read(within, 10)
        reader.close()

    def test_a_message_without_an_id(self, rabbitmq: RabbitMQServer, tmp_path: Path) -> None:
        queue = rabbitmq.create_queue()
        rabbitmq.publish(queue, ["one"])
        job = StoppedJob(tmp_path, 1, restart=NO_RESTART)
        with pytest.raises(JobExecutionError, match=r"has no correlation id, .* It is b'one'"):
            job.run(counting(source_of(rabbitmq, queue)))
        assert rabbitmq.take(queue) == [b"one"]

    def test_an_id_that_was_sent_twice(
        self, rabbitmq: RabbitMQServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        queue = rabbitmq.create_queue()
        rabbitmq.publish(queue, ["one", "two", "three"], ["x", "x", "y"])
        with caplog.at_level(logging.WARNING):
            reader, found, _ = drained(source_of(rabbitmq, queue), count=2)
        assert found == ["one", "three"]
        assert "correlation id 'x' was sent twice" in caplog.text
        reader.close()

    def test_its_history_is_not_replayed(self, rabbitmq: RabbitMQServer, tmp_path: Path) -> None:
        queue = rabbitmq.create_queue()
        fill(rabbitmq, queue, range(10))
        job = StoppedJob(tmp_path, 10)
        graph = counting(source_of(rabbitmq, queue))
        job.run(graph)
        with pytest.raises(
            RestoreError, match=r"cannot be replayed: its source 'source', a QueueSource, gives each"
        ):
            replay_graph(graph, job.settings, None)


class TestAtLeastOnce:
    def test_nothing_is_lost(self, rabbitmq: RabbitMQServer, tmp_path: Path) -> None:
        queue = rabbitmq.create_queue()
        rabbitmq.publish(queue, texts(*range(60)))
        failures = (Failure(2, Fault.WORKER), Failure(4, Fault.COMMIT_LIES), Failure(6, Fault.HANDED_OUT))
        job = StoppedJob(tmp_path, 60, Script((7,), (True, False), failures))
        source = source_of(rabbitmq, queue, by_id=False)
        job.run(counting(source))
        while rabbitmq.left(queue):  # what counted twice has taken the place of others
            job.count = len(job.output) + 1
            job.run(counting(source))
        assert set(job.output) == set(texts(*range(60)))

    def test_only_what_a_checkpoint_covers_is_acknowledged(self, rabbitmq: RabbitMQServer) -> None:
        queue = rabbitmq.create_queue()
        fill(rabbitmq, queue, range(10))
        source = source_of(rabbitmq, queue, by_id=False)
        reader = source.reader(source.splits(1)[0])
        position: Any = {}
        given: list[str] = []
        while len(given) < 4:
            values, position, *_ = reader.read(position, 4 - len(given))
            given += values
        reader.acknowledged(position)
        while len(given) < 6:
            values, position, *_ = reader.read(position, 6 - len(given))
            given += values
        reader.close()
        assert given == texts(*range(6))
        assert rabbitmq.left(queue) == 6
        assert rabbitmq.take(queue) == [text.encode() for text in texts(*range(4, 10))]

    def test_a_prefetch_count_bounds_what_is_not_acknowledged(self, rabbitmq: RabbitMQServer) -> None:
        queue = rabbitmq.create_queue()
        fill(rabbitmq, queue, range(10))
        source = source_of(rabbitmq, queue, prefetch_count=3)
        reader, found, position = drained(source, count=4, seconds=0.5)
        assert found == texts(0, 1, 2)
        assert rabbitmq.ready(queue) == 7
        reader.acknowledged(position)
        values: list[Any] = []
        for _ in range(50):
            more, position, *_ = reader.read(position, 10)
            values += more
        assert values == texts(3, 4, 5)
        reader.close()

    def test_large_messages_are_few_at_a_time(
        self, rabbitmq: RabbitMQServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(source_module, "_WINDOW_BYTES", 4_000_000)
        queue = rabbitmq.create_queue()
        rabbitmq.publish(queue, [bytes([number]) * 1_000_000 for number in range(30)])
        reader, found, _ = drained(source_of(rabbitmq, queue, False, Length()), count=30, seconds=30)
        assert found == [1_000_000] * 30
        assert reader._delivery._window <= 4
        reader.close()

    def test_nothing_is_lost_or_comes_twice_while_consumers_change(self, rabbitmq: RabbitMQServer) -> None:
        """They do while messages are acknowledged. The broker may put back a few behind others: no order is promised."""
        queue = rabbitmq.create_queue()
        rabbitmq.publish(queue, texts(*range(3000)))
        source = source_of(rabbitmq, queue, by_id=False)
        reader = source.reader(source.splits(1)[0])
        position: Any = {}
        found: list[str] = []
        deadline = time.monotonic() + 30
        while len(found) < 3000 and time.monotonic() < deadline:
            values, position, *_ = reader.read(position, 37)
            found += values
            if len(found) % 2:
                reader.acknowledged(position)
        assert sorted(found, key=int) == texts(*range(3000))
        reader.close()


class Length(DeserializationSchema):
    """How long a message is."""

    def deserialize(self, message: bytes) -> int:
        return len(message)


class Number(DeserializationSchema):
    """The number that a message says."""

    def deserialize(self, message: bytes) -> int:
        return int(message)


class UntilEnd(SimpleStringSchema):
    """Leaves out "skip", and ends at "end"."""

    def deserialize(self, message: bytes) -> str | None:
        return None if message == b"skip" else super().deserialize(message)

    def is_end_of_stream(self, next_element: str) -> bool:
        return next_element == "end"


class TestProgram:
    def test_from_queue_to_queue(self, rabbitmq: RabbitMQServer, tmp_path: Path) -> None:
        """Queues that are missing are made; the schema ends the stream; what comes after that stays."""
        read, written = (f"queue-{uuid.uuid4().hex[:8]}" for _ in range(2))
        rabbitmq.create_queue(read)
        rabbitmq.publish(read, ["a", "skip", "b", "end", "later"], "12345")
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(1)
        env.enable_checkpointing(10)
        words = env.add_source(RMQSource(config(rabbitmq), read, True, UntilEnd()), "words", Types.STRING())
        words.map(str.upper, Types.STRING()).add_sink(
            RMQSink(config(rabbitmq), written, SimpleStringSchema())
        )
        with without_spark():
            env.execute(f"job-{uuid.uuid4().hex[:8]}")
        assert rabbitmq.take(written) == [b"A", b"B"]
        assert rabbitmq.left(read) == 1
        assert rabbitmq.take(read) == [b"later"]

    @pytest.mark.parametrize("by_id", [True, False])
    def test_without_checkpoints(self, rabbitmq: RabbitMQServer, by_id: bool) -> None:
        """Messages are acknowledged when they are read; ids are not looked at."""
        queue = rabbitmq.create_queue()
        rabbitmq.publish(queue, ["a", "b", "end"])
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(2)
        words = env.add_source(RMQSource(config(rabbitmq), queue, by_id, UntilEnd()))
        with without_spark(), words.execute_and_collect(f"job-{uuid.uuid4().hex[:8]}") as found:
            assert list(found) == ["a", "b"]
        assert rabbitmq.left(queue) == 0

    def test_the_changelog_turns_checkpoints_on(self, rabbitmq: RabbitMQServer, tmp_path: Path) -> None:
        """Nobody has said enable_checkpointing(), and there are checkpoints: ids are looked at."""
        queue = rabbitmq.create_queue()
        rabbitmq.publish(queue, ["a"])
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(1)
        env.enable_changelog_state_backend(True)
        env.set_restart_strategy(RestartStrategies.no_restart())
        env._settings.set(_base_path(), str(tmp_path))
        words = env.add_source(RMQSource(config(rabbitmq), queue, True, UntilEnd()))
        with (
            without_spark(),
            pytest.raises(JobExecutionError, match="has no correlation id"),
            words.execute_and_collect(f"job-{uuid.uuid4().hex[:8]}") as found,
        ):
            list(found)
        assert rabbitmq.take(queue) == [b"a"]


def _base_path() -> Any:
    from changelog_engine.config import options

    return options.BASE_PATH


def written(writer: Any, elements: list[Any]) -> None:
    """Write, and wait for the broker."""
    writer.write(elements)
    writer.flush()


class TestSink:
    def job(self, sink: Any, elements: list[Any]) -> JobGraph:
        build = GraphBuilder(f"job-{uuid.uuid4().hex[:8]}", 2, 16)
        build.add(NodeKind.SINK, "sink", build.source(elements, uid="in"), function=sink, uid="sink")
        return build.graph()

    def test_nothing_is_lost(self, rabbitmq: RabbitMQServer, tmp_path: Path) -> None:
        queue = rabbitmq.create_queue()
        failures = (Failure(2, Fault.WORKER), Failure(3, Fault.PARTS), Failure(5, Fault.COMMITTED))
        job = TestJob(tmp_path, Script((9,), (True, False), failures))
        job.run(self.job(sink_of(rabbitmq, queue), texts(*range(60))))
        found = Counter(rabbitmq.take(queue))
        assert set(found) == {text.encode() for text in texts(*range(60))}
        assert max(found.values()) <= 4

    def test_a_killed_broker_has_what_an_epoch_wrote_and_forgot_what_was_acknowledged(
        self, rabbitmq: RabbitMQServer
    ) -> None:
        """An epoch ends when it has all. The next writer waits for it; the next reader knows what comes again."""
        read, queue = rabbitmq.create_queue(), rabbitmq.create_queue()
        fill(rabbitmq, read, range(2000))
        writer = sink_of(rabbitmq, queue).writer(0, 1)
        writer.write(texts(*range(5000)))
        writer.flush()
        assert rabbitmq.ready(queue) == 5000
        rabbitmq.wait_until_declared()
        source = source_of(rabbitmq, read)
        reader, found, position = drained(source, count=2000)
        assert found == texts(*range(2000)), "in the queue's order, however many consumers there were"
        reader.acknowledged(position)
        after = reader.at_barrier(position)
        rabbitmq.kill()  # messages are persistent
        with pytest.raises(ConnectorError, match=r"RabbitMQ \(127.0.0.1:\d+, .*\): the connection failed"):
            written(writer, ["lost"])
        writer.close()
        starting = threading.Timer(0.5, rabbitmq.start)
        starting.start()
        writer = sink_of(rabbitmq, queue).writer(0, 1)
        writer.write(["later"])
        writer.flush()
        writer.close()
        starting.join()
        assert rabbitmq.ready(queue) == 5001
        assert rabbitmq.ready(read), "or the reader shows nothing"
        reader.close()
        rabbitmq.publish(read, ["new"], ["id-new"])
        reader, found, _ = drained(source, after, seconds=60)
        assert found == ["new"]
        reader.close()

    def test_a_queue_that_was_deleted(self, rabbitmq: RabbitMQServer) -> None:
        queue = rabbitmq.create_queue()
        writer = sink_of(rabbitmq, queue).writer(0, 1)
        rabbitmq.delete_queue(queue)
        writer.write(["lost"])
        with pytest.raises(ConnectorError, match=r"cannot deliver: 312 NO_ROUTE. There is no such queue"):
            writer.flush()
        writer.close()

    def test_a_queue_that_is_full(self, rabbitmq: RabbitMQServer) -> None:
        queue = rabbitmq.create_queue(x_max_length=2, x_overflow="reject-publish")
        writer = sink_of(rabbitmq, queue).writer(0, 1)
        writer.write(texts(1, 2))
        writer.flush()
        writer.write(texts(*range(3, 50)))
        with pytest.raises(ConnectorError, match=r"the broker refused a message .* is full"):
            writer.flush()
        writer.close()

    def test_a_broker_that_confirms_nothing(
        self, rabbitmq: RabbitMQServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(sink_module, "ANSWER_TIMEOUT_S", 0.5)
        monkeypatch.setattr(sink_module, "_LOOK_S", 0.1)
        queue = rabbitmq.create_queue()
        writer = sink_of(rabbitmq, queue).writer(0, 1)
        written(writer, ["a"])
        monkeypatch.setattr(writer, "_send", lambda bodies: None)
        link = writer._link
        link._is_blocked(None, SimpleNamespace(method=SimpleNamespace(reason="low on disk")))
        assert "takes no messages until it has room again (low on disk)" in caplog.text
        unblocking = threading.Timer(1.5, link._is_unblocked, (None, None))
        unblocking.start()
        began = time.monotonic()
        with pytest.raises(ConnectorError, match=r"has confirmed none of 2 messages for 0 s. Its log says"):
            written(writer, ["b", "c"])
        assert 1.9 < time.monotonic() - began < 20, "a broker that says why it waits has a timeout of its own"
        writer.close()
        assert rabbitmq.take(queue) == [b"a"]

    def test_a_message_that_is_too_large(self, rabbitmq: RabbitMQServer) -> None:
        queue = rabbitmq.create_queue()
        writer = sink_of(rabbitmq, queue).writer(0, 1)
        writer.write(["x" * 7_900_000])
        writer.flush()
        writer.write(["x" * 8_100_000])
        with pytest.raises(ConnectorError, match="message size 8100000 is larger than configured max size"):
            writer.flush()
        writer.close()
        assert [len(body) for body in rabbitmq.take(queue)] == [7_900_000]

    def test_what_is_not_bytes(self, rabbitmq: RabbitMQServer) -> None:
        class Text(SerializationSchema):
            def serialize(self, element: Any) -> Any:
                return str(element)

        queue = rabbitmq.create_queue()
        writer = sink_of(rabbitmq, queue, Text()).writer(0, 1)
        with pytest.raises(TypeError, match="gave '7' for 7, which is not bytes"):
            writer.write([7])
        writer.close()


class TestTrouble:
    def check(self, builder: RMQConnectionConfig.Builder, queue: str = "q") -> None:
        RMQSource(builder.build(), queue, False, SimpleStringSchema())._function.check_before_start()

    def test_no_broker(self) -> None:
        port = free_port()
        builder = RMQConnectionConfig.Builder().set_uri(f"amqp://me:secret@127.0.0.1:{port}/%2F")
        with pytest.raises(
            ConnectorError, match=rf"RabbitMQ \(127.0.0.1:{port}, .* cannot be reached: .*Is it running"
        ):
            self.check(builder)
        with pytest.raises(ConnectorError, match=r"RabbitMQ \(no.such.host.invalid:5672"):
            self.check(RMQConnectionConfig.Builder().set_uri("amqp://me:secret@no.such.host.invalid"))
        sink = RMQSink(builder.set_automatic_recovery(False).build(), "q", SimpleStringSchema())._function
        with pytest.raises(ConnectorError, match="cannot be reached") as caught:
            sink.writer(0, 1)
        assert "secret" not in str(caught.value)

    def test_somebody_else_answers(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:

            def answer() -> None:
                asked, _ = server.accept()
                with asked:
                    asked.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

            thread = threading.Thread(target=answer)
            thread.start()
            builder = RMQConnectionConfig.Builder().set_uri(
                f"amqp://me:x@127.0.0.1:{server.getsockname()[1]}"
            )
            with pytest.raises(ConnectorError, match="cannot be reached"):
                self.check(builder)
            thread.join()

    def test_who_is_not_let_in(self, rabbitmq: RabbitMQServer) -> None:
        def builder(user: str, password: str, host: str = "/") -> RMQConnectionConfig.Builder:
            made = RMQConnectionConfig.Builder().set_host("127.0.0.1").set_port(rabbitmq.port)
            return made.set_virtual_host(host).set_user_name(user).set_password(password)

        self.check(builder(rabbitmq.user, rabbitmq.password), rabbitmq.create_queue())
        with pytest.raises(ConnectorError, match="refuses user 'tester': the password is wrong"):
            self.check(builder(rabbitmq.user, "hidden"))
        with pytest.raises(
            ConnectorError, match=r"into the virtual host: it does not exist|vhost nowhere not found"
        ):
            self.check(builder(rabbitmq.user, rabbitmq.password, "nowhere"))
        sink = RMQSink(builder(rabbitmq.user, "hidden").build(), "q", SimpleStringSchema())._function
        with pytest.raises(ConnectorError, match="refuses user") as caught:
            sink.writer(0, 1)  # at once: no minute of patience
        assert "hidden" not in str(caught.value)

    def test_a_queue_is_taken_as_it_is(self, rabbitmq: RabbitMQServer) -> None:
        queue = rabbitmq.create_queue(x_queue_type="quorum")
        source = source_of(rabbitmq, queue)
        source.check_before_start()
        fill(rabbitmq, queue, range(300))
        reader, found, position = drained(source, count=300)
        assert found == texts(*range(300))
        reader.acknowledged(position)
        reader.close()
        assert rabbitmq.left(queue) == 0

    def test_a_queue_that_is_deleted_while_it_is_read(self, rabbitmq: RabbitMQServer) -> None:
        queue = rabbitmq.create_queue()
        fill(rabbitmq, queue, range(1))
        reader, _, position = drained(source_of(rabbitmq, queue))
        rabbitmq.delete_queue(queue)
        with pytest.raises(ConnectorError, match=f"reading queue '{queue}' failed: .* the queue was deleted"):
            read_on(reader, position)
        reader.close()

    def test_a_queue_that_is_gone_when_the_job_goes_on(
        self, rabbitmq: RabbitMQServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It is made, as for a job that begins; what waited in it is lost."""
        queue = rabbitmq.create_queue()
        fill(rabbitmq, queue, range(1))
        source = source_of(rabbitmq, queue)
        source.check_before_start()
        reader, _, position = drained(source, count=1)
        kept = reader.at_barrier(position)
        reader.close()
        rabbitmq.delete_queue(queue)
        source.check_before_start()
        reader = source.reader(source.splits(1)[0])
        reader.read({}, 1)
        reader.close()
        assert "made anew" not in caplog.text
        reader = source.reader(source.splits(1)[0])
        reader.read(kept, 1)
        reader.close()
        assert (
            f"queue '{queue}', which the job's checkpoint has read, was not there, and was made anew"
            in caplog.text
        )

    def test_a_stream(self, rabbitmq: RabbitMQServer) -> None:
        """Nothing of it would be acknowledged."""
        queue = rabbitmq.create_queue(x_queue_type="stream")
        reader, _, position = drained(source_of(rabbitmq, queue), seconds=0.1)
        rabbitmq.publish(queue, ["one"], ["id"])
        with pytest.raises(ConnectorError, match="it is a stream"):
            read_on(reader, position)
        reader.close()

    def test_a_message_that_cannot_be_read(self, rabbitmq: RabbitMQServer, tmp_path: Path) -> None:
        queue = rabbitmq.create_queue()
        rabbitmq.publish(queue, [b"x" * 200], ["bad"])
        job = StoppedJob(tmp_path, 1, restart=NO_RESTART)
        with pytest.raises(
            JobExecutionError,
            match=r"a message with correlation id 'bad' of queue .* ValueError: .*\(200 bytes\)",
        ):
            job.run(counting(source_of(rabbitmq, queue, schema=Number())))
        assert rabbitmq.left(queue) == 1

    def test_long_epochs_and_heartbeats(self, rabbitmq: RabbitMQServer) -> None:
        """The broker lets go of clients that it doesn't hear of for two heartbeats: of a newer one, and not of these."""
        queue = rabbitmq.create_queue()
        fill(rabbitmq, queue, range(5))
        reader, _, position = drained(source_of(rabbitmq, queue, requested_heartbeat=1), count=5)
        writer = RMQSink(
            config(rabbitmq, requested_heartbeat=1), queue, SimpleStringSchema()
        )._function.writer(0, 1)
        rabbitmq.let_go_of_a_silent_client()
        reader.acknowledged(position)
        writer.write(["later"])
        writer.flush()
        reader.close()
        writer.close()
        assert rabbitmq.left(queue) == 1


class TestTls:
    def uri(self, rabbitmq: RabbitMQServer, parameters: str, host: str = "localhost") -> str:
        return rabbitmq.uri(host).replace("amqp:", "amqps:").replace(
            str(rabbitmq.port), str(rabbitmq.tls_port)
        ) + (f"?{parameters}" if parameters else "")

    def check(self, uri: str, queue: str) -> None:
        made = RMQConnectionConfig.Builder().set_uri(uri).build()
        RMQSink(made, queue, SimpleStringSchema())._function.check_before_start()

    def test_certificates(self, rabbitmq: RabbitMQServer, tmp_path: Path) -> None:
        queue = rabbitmq.create_queue()
        certificate = tmp_path / "certificate.pem"
        certificate.write_text(rabbitmq.certificate.read_text())
        self.check(self.uri(rabbitmq, f"cacertfile={certificate}"), queue)
        self.check(self.uri(rabbitmq, "verify=verify_none"), queue)
        made = RMQConnectionConfig.Builder().set_uri(self.uri(rabbitmq, f"cacertfile={certificate}")).build()
        writer = RMQSink(made, queue, SimpleStringSchema())._function.writer(0, 1)
        writer.write(["hidden"])
        writer.flush()
        writer.close()
        assert rabbitmq.take(queue) == [b"hidden"]
        with pytest.raises(ConnectorError, match=r"TLS: .*certificate verify failed"):
            self.check(self.uri(rabbitmq, ""), queue)
        with pytest.raises(ValueError, match=r"certificates for TLS cannot be used: .*No such file"):
            self.check(self.uri(rabbitmq, "cacertfile=/nowhere.pem"), queue)
        with pytest.raises(ConnectorError, match=r"TLS|cannot be reached"):
            self.check(rabbitmq.uri().replace("amqp:", "amqps:"), queue)
        assert (
            ssl.CERT_REQUIRED
            is RMQSink(made, queue, SimpleStringSchema())._function.options.tls.context().verify_mode
        )
