"""Source and sink of Pulsar: every message once, from every cursor, through crashes, deletions and a broker that dies."""

from __future__ import annotations

import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from servers.process import free_port
from servers.pulsar import TOKENS, PulsarServer
from support.graphs import GraphBuilder, sink_job
from support.jobs import NO_RESTART, StoppedJob, TestJob
from support.script import Failure, Fault, Script

from api.common.serialization import SerializationSchema, SimpleStringSchema
from api.datastream.connectors.base import DeliveryGuarantee
from api.datastream.connectors.pulsar import (
    OutgoingMessage,
    PulsarDeserializationSchema,
    PulsarSerializationSchema,
    PulsarSink,
    PulsarSource,
    StartCursor,
    StopCursor,
    TopicRoutingMode,
)
from changelog_engine.connectors import Split
from changelog_engine.connectors.pulsar import reader as reader_module
from changelog_engine.connectors.reconnecting import UnreachableError, connected
from changelog_engine.errors import ConfigurationError, ConnectorError, JobExecutionError, TypeMismatchError
from changelog_engine.graph.nodes import JobGraph
from changelog_engine.testing.conformance import check_source

pytestmark = pytest.mark.slow

_PAUSE_S = 0.005  # before who found nothing looks again

QUICK = {"pulsar.client.operationTimeoutMs": "1000"}
_names = iter(range(1_000_000))


class Whole(PulsarDeserializationSchema):
    def deserialize_message(self, message: Any) -> Any:
        return None if message.value == b"skip" else message


class ByFirstWord(PulsarSerializationSchema):
    def serialize_message(self, element: str) -> OutgoingMessage:
        return OutgoingMessage(element.encode(), key=element.split()[0], properties={"of": "test"})


def built(builder: Any, pulsar: PulsarServer, topics: Any, more: dict[str, Any]) -> Any:
    builder.set_service_url(pulsar.url).set_authentication(TOKENS, f"token:{pulsar.token('admin')}")
    if topics is not None:
        builder.set_topics(topics)
    options = more.pop("options", {})
    for name, value in more.items():
        getattr(builder, f"set_{name}")(*value) if isinstance(value, tuple) else getattr(
            builder, f"set_{name}"
        )(value)
    return builder.set_properties(options).build()


def source_of(pulsar: PulsarServer, topics: Any, schema: Any = None, **more: Any) -> Any:
    builder = PulsarSource.builder().set_deserialization_schema(schema or SimpleStringSchema())
    more.setdefault("subscription_name", f"test-{next(_names)}")
    return built(builder, pulsar, topics, more)._source


def sink_of(pulsar: PulsarServer, topics: Any, schema: Any = None, **more: Any) -> Any:
    builder = PulsarSink.builder().set_serialization_schema(schema or SimpleStringSchema())
    more.setdefault("delivery_guarantee", DeliveryGuarantee.AT_LEAST_ONCE)
    return built(builder, pulsar, topics, more)._sink


def texts(*numbers: int) -> list[str]:
    return [str(number) for number in numbers]


def collected(source: Any, parallelism: int = 1, sink: Any = None) -> JobGraph:
    build = GraphBuilder("job", parallelism, 16)
    read = build.source(source, uid="pulsar")
    build.collect(read)
    if sink is not None:
        build.sink(read, sink)
    return build.graph()


def drained(source: Any, split: Split, count: int | None = None) -> tuple[list[Any], Any]:
    """So many elements of a partition, or all up to its stop; and the position after them."""
    reader = source.reader(split)
    try:
        return taken(reader, split.start, count)
    finally:
        reader.close()


def taken(reader: Any, position: Any, count: int | None = None) -> tuple[list[Any], Any]:
    """As `drained`, of a reader that goes on."""
    found, finished = [], False
    deadline = time.monotonic() + 30
    while not finished and len(found) != count and time.monotonic() < deadline:
        values, position, finished, _, _ = reader.read(
            position, 3 if count is None else min(3, count - len(found))
        )
        found += values
    assert finished or count is not None, "it has an end"
    return found, position


def all_of(source: Any) -> list[Any]:
    """Everything that a source with stops has."""
    return [value for split in source.splits(1) for value in drained(source, split)[0]]


def read_on(reader: Any, position: Any) -> None:
    """Read for a minute, or until that fails."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        _, position, *_ = reader.read(position, 1)
        time.sleep(_PAUSE_S)


def acknowledged_up_to(server: PulsarServer, topic: str, name: str, entry: int) -> bool:
    """Whether that entry is the last that a subscription no longer needs; the broker hears of it some time later."""
    deadline = time.monotonic() + 30
    while not server.subscription(topic, name)["markDeletePosition"].endswith(f":{entry}"):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


class TestReading:
    def test_conformance(self, pulsar: PulsarServer) -> None:
        one, several = pulsar.create_topic(), pulsar.create_topic(2)
        pulsar.put_batches(one, range(10), 4)
        pulsar.put(several, range(10, 25))
        source = source_of(pulsar, [one, several], bounded_stop_cursor=StopCursor.latest())
        assert source.bounded
        assert sorted(check_source(source), key=int) == texts(*range(25))

    def test_whole_messages(self, pulsar: PulsarServer) -> None:
        topic = pulsar.create_topic()
        (first,) = pulsar.put(
            topic, [b"\0\xff"], partition_key="ключ", event_timestamp=7, properties={"a": "b"}
        )
        pulsar.put(topic, ["skip", ""])
        source = source_of(pulsar, topic, Whole(), bounded_stop_cursor=StopCursor.latest())
        (split,) = source.splits(1)
        reader = source.reader(split)
        _, _, _, times, _ = reader.read(split.start, 1)
        reader.close()
        values, _ = drained(source, split)
        assert [message.value for message in values] == [b"\0\xff", b""]
        message = values[0]
        assert message[:5] == (f"persistent://public/default/{topic}", first, "ключ", b"\0\xff", 7)
        assert (message.properties, times) == ({"a": "b"}, [7])
        assert abs(message.publish_time - time.time() * 1000) < 600_000
        assert (values[1].key, values[1].event_time) == (None, None)

    def test_where_it_begins(self, pulsar: PulsarServer, caplog: pytest.LogCaptureFixture) -> None:
        topic = pulsar.create_topic()
        pulsar.put_batches(topic, range(6), 3)
        messages = pulsar.messages(topic)
        ids = [message.message_id().serialize() for message in messages]
        late_ms = messages[-1].publish_timestamp() + 1
        while time.time() * 1000 <= late_ms:
            time.sleep(0.001)
        ids += pulsar.put(topic, [6, 7])
        late_ms = pulsar.messages(topic)[6].publish_timestamp()

        def begun(start: StartCursor, **more: Any) -> list[str]:
            return all_of(
                source_of(pulsar, topic, start_cursor=start, bounded_stop_cursor=StopCursor.latest(), **more)
            )

        assert begun(StartCursor.earliest()) == texts(*range(8))
        assert begun(StartCursor.from_message_id(ids[4])) == texts(4, 5, 6, 7)
        assert begun(StartCursor.from_message_id(ids[4], False)) == texts(5, 6, 7)
        assert begun(StartCursor.from_publish_time(late_ms)) == texts(6, 7)
        assert begun(StartCursor.from_publish_time(0)) == texts(*range(8))
        assert begun(StartCursor.from_publish_time(late_ms + 10**9)) == []
        assert begun(StartCursor.latest()) == []
        source = source_of(pulsar, topic, start_cursor=StartCursor.latest())
        (split,) = source.splits(1)
        pulsar.put(topic, ["new"])
        assert drained(source, split, 1)[0] == ["new"], "decided when the splits are planned"

        other = pulsar.put(pulsar.create_topic(), ["elsewhere"])[0]
        strict = {"pulsar.source.verifyInitialOffsets": "FAIL_ON_MISMATCH"}
        with pytest.raises(ConfigurationError, match=r"has no message .*, where the start cursor is"):
            begun(StartCursor.from_message_id(other), options=strict)
        assert begun(StartCursor.from_message_id(ids[7]), options=strict) == ["7", "new"]

    def test_where_it_ends(self, pulsar: PulsarServer) -> None:
        topic, empty = pulsar.create_topic(), pulsar.create_topic()
        ids = [pulsar.put(topic, [each], event_timestamp=100 + each)[0] for each in range(5)]
        published_ms = [message.publish_timestamp() for message in pulsar.messages(topic)]

        def ended(stop: StopCursor) -> list[str]:
            return all_of(source_of(pulsar, topic, bounded_stop_cursor=stop))

        assert ended(StopCursor.at_message_id(ids[2])) == texts(0, 1)
        assert ended(StopCursor.after_message_id(ids[2])) == texts(0, 1, 2)
        assert ended(StopCursor.at_event_time(102)) == texts(0, 1)
        assert ended(StopCursor.after_event_time(102)) == texts(0, 1, 2)
        assert ended(StopCursor.at_publish_time(published_ms[0])) == []
        if published_ms[-1] > published_ms[0]:
            assert ended(StopCursor.after_publish_time(published_ms[0]))[:1] == ["0"]
        assert all_of(source_of(pulsar, empty, unbounded_stop_cursor=StopCursor.latest())) == []

    def test_what_the_brokers_keep(self, pulsar: PulsarServer, caplog: pytest.LogCaptureFixture) -> None:
        """The subscription keeps what a restore needs; when it was deleted nevertheless, the job says so."""
        topic = pulsar.create_topic()
        pulsar.put(topic, range(4))
        given = {"subscription_name": "keeper"}
        source = source_of(pulsar, topic, **given)
        (split,) = source.splits(1)
        _, old = drained(source, split, 1)
        reader = source.reader(split)
        found, position = taken(reader, old, 3)
        reader.acknowledged(position)
        reader.close()
        assert found == texts(1, 2, 3)
        assert acknowledged_up_to(pulsar, topic, "keeper", 2), "the last message that was read stays"
        pulsar.unload(topic)  # it goes on with another ledger
        pulsar.put(topic, [4])
        assert drained(source, Split(split.id, position), 1)[0] == ["4"]

        reader = source.reader(split)
        pulsar.put(topic, [5, 6])
        reader.acknowledged(taken(reader, position, 3)[1])
        reader.close()
        assert acknowledged_up_to(pulsar, topic, "keeper", 1)
        pulsar.unload(topic)
        pulsar.put(topic, ["on"])
        deadline = time.monotonic() + 60
        while len(pulsar.values(topic)) == 8:
            if time.monotonic() > deadline:
                pytest.skip("the broker does not delete what nobody needs")
            pulsar.trim(topic)
            time.sleep(0.1)
        with pytest.raises(ConnectorError, match=r"is not there any more.*changelog.on-data-loss"):
            drained(source, Split(split.id, old), 1)
        careless = source_of(pulsar, topic, options={"changelog.on-data-loss": "ignore"}, **given)
        assert drained(careless, Split(split.id, old), 1)[0] == [pulsar.values(topic)[0]]
        assert "is not there any more" in caplog.text

    def test_new_partitions_and_topics(self, pulsar: PulsarServer) -> None:
        prefix = f"found-{next(_names)}-{time.monotonic_ns()}"
        first = pulsar.create_topic(2, f"{prefix}-a")
        pulsar.put(first, ["a"])
        source = source_of(pulsar, None, topic_pattern=f"{prefix}-.", admin_url=pulsar.admin_url)
        known = {split.id: (split.start, False) for split in source.splits(1)}
        assert [name.removeprefix(f"persistent://public/default/{prefix}") for name in known] == [
            "-a-partition-0", "-a-partition-1",
        ]  # fmt: skip
        assert source.discovery_interval_ms == 300_000
        assert source.discover(known) == []
        pulsar.put(pulsar.create_topic(name=f"{prefix}-b"), ["b"])
        pulsar.ask(f"persistent/public/default/{first}/partitions", "POST", 3)
        new = source.discover(known)
        assert new[0].id.endswith("-a-partition-2")
        assert drained(source, new[1], 1)[0] == ["b"], "from the beginning"

    def test_messages_that_cannot_be_read(self, pulsar: PulsarServer) -> None:
        class Failing(PulsarDeserializationSchema):
            def deserialize_message(self, message: Any) -> Any:
                raise ValueError("no")

        topic = pulsar.create_topic()
        pulsar.put(topic, [b"x" * 200])
        source = source_of(pulsar, topic, Failing(), bounded_stop_cursor=StopCursor.latest())
        with pytest.raises(
            ConnectorError,
            match=rf"message \d+:0 of '.*{topic}' can't be read: ValueError: no.* bytes",
        ):
            all_of(source)

    def test_a_job_without_checkpoints_acknowledges_at_times(self, pulsar: PulsarServer) -> None:
        topic = pulsar.create_topic()
        pulsar.put(topic, range(3))
        options = {"pulsar.source.autoCommitCursorInterval": "0 ms"}
        source = source_of(pulsar, topic, subscription_name="free", options=options).with_options({})
        drained(source, source.splits(1)[0], 3)
        assert acknowledged_up_to(pulsar, topic, "free", 1)


class TestExactlyOnce:
    @pytest.mark.parametrize(
        "faults",
        [(Fault.WORKER, Fault.PARTS), (Fault.COMMIT_LIES, Fault.DRIVER)],
        ids=lambda faults: "-".join(fault.name for fault in faults),
    )
    def test_each_message_counts_once(
        self, pulsar: PulsarServer, tmp_path: Path, faults: tuple[Fault, ...]
    ) -> None:
        topic = pulsar.create_topic(2)
        pulsar.put_batches(topic, range(60), 5)
        failures = tuple(Failure(2 + 2 * number, fault) for number, fault in enumerate(faults))
        job = TestJob(tmp_path, Script((7,), (True, False), failures), delete_on_cancel=False)
        job.run(collected(source_of(pulsar, topic, bounded_stop_cursor=StopCursor.latest()), 2))
        assert not job.progress.waiting, "all of it happened"
        assert Counter(job.output) == Counter(texts(*range(60)))


class TestWriting:
    def test_partitions_are_taken_in_turn(self, pulsar: PulsarServer, tmp_path: Path) -> None:
        topic = pulsar.create_topic(3)
        options = {"pulsar.producer.batchingMaxMessages": 2, "pulsar.producer.compressionType": "LZ4"}
        sink = sink_of(pulsar, topic, producer_name="tester", options=options)
        TestJob(tmp_path, Script((4,))).run(sink_job(sink, texts(*range(8))))
        found = [sorted(pulsar.values(f"{topic}-partition-{number}")) for number in range(3)]
        assert found == [texts(0, 1, 6, 7), texts(2, 3), texts(4, 5)]
        assert pulsar.messages(topic)[0].producer_name().startswith("tester - ")

    def test_keys_keep_their_partition(self, pulsar: PulsarServer) -> None:
        topic = pulsar.create_topic(4)
        sink = sink_of(pulsar, topic, ByFirstWord(), topic_routing_mode=TopicRoutingMode.MESSAGE_KEY_HASH)
        writer = sink.writer(0, 1)
        writer.write_timed(["hello 1", "other 2", "hello 3"], [5, -(2**63), 6], 0)
        writer.flush()
        writer.close()
        # murmur3 of "hello" is 0x248bfa47
        found = pulsar.messages(f"{topic}-partition-{0x248BFA47 % 4}")
        hello = [message for message in found if message.partition_key() == "hello"]
        assert [message.data() for message in hello] == [b"hello 1", b"hello 3"]
        assert [message.event_timestamp() for message in hello] == [5, 6]
        assert hello[0].properties() == {"of": "test"}
        assert len(pulsar.messages(topic)) == 3

    def test_a_router_of_ones_own(self, pulsar: PulsarServer) -> None:
        one, two = pulsar.create_topic(), pulsar.create_topic()
        sink = sink_of(
            pulsar, None, topic_router=lambda element, key, partitions: one if element < "m" else two
        )
        writer = sink.writer(0, 1)
        writer.write(["a", "z"])
        writer.flush()
        writer.close()
        assert (pulsar.values(one), pulsar.values(two)) == (["a"], ["z"])

    def test_what_the_brokers_do_not_take_fails_the_epoch(self, pulsar: PulsarServer, tmp_path: Path) -> None:
        topic = pulsar.create_topic()
        with pytest.raises(JobExecutionError, match=r"MessageTooBig.*maxMessageSize"):
            TestJob(tmp_path, restart=NO_RESTART).run(
                sink_job(sink_of(pulsar, topic), ["ok", "x" * 6_000_000])
            )

        class Numbers(SerializationSchema):
            def serialize(self, element: Any) -> Any:
                return 5

        with pytest.raises(TypeMismatchError, match="gave 5 for 'a', which is not bytes"):
            sink_of(pulsar, topic, Numbers()).writer(0, 1).write(["a"])


class TestWhatIsSaid:
    @pytest.mark.parametrize("make", [source_of, sink_of])
    def test_no_such_topic(self, pulsar: PulsarServer, make: Any) -> None:
        with pytest.raises(ConnectorError, match="there is no topic 'nowhere': create it"):
            make(pulsar, "nowhere").check_before_start()

    @pytest.mark.parametrize("make", [source_of, sink_of])
    def test_nobody_there(self, pulsar: PulsarServer, make: Any) -> None:
        given = make(pulsar, "t", service_url=f"pulsar://127.0.0.1:{free_port()}", options=QUICK)
        with pytest.raises(ConnectorError, match=r"Connection refused\). Is Pulsar running"):
            given.check_before_start()

    def test_who_may_not(self, pulsar: PulsarServer) -> None:
        topic = pulsar.create_topic()
        wrong = source_of(pulsar, topic, authentication=(TOKENS, "token:secret.of.mine"), options=QUICK)
        with pytest.raises(
            ConnectorError, match=r"do not know the token.* of set_authentication\(\)"
        ) as caught:
            wrong.check_before_start()
        assert "secret" not in str(caught.value)
        stranger = source_of(pulsar, topic, authentication=(TOKENS, {"token": pulsar.token("stranger")}))
        with pytest.raises(ConnectorError, match=r"has no permission.*grant-permission"):
            stranger.check_before_start()
        pattern = {"topic_pattern": "a.*", "admin_url": pulsar.admin_url}
        stranger = source_of(
            pulsar, None, authentication=(TOKENS, {"token": pulsar.token("stranger")}), **pattern
        )
        with pytest.raises(ConnectorError, match=r"403 .*see the namespace"):
            stranger.check_before_start()

    def test_a_pattern_that_no_topic_matches(
        self, pulsar: PulsarServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The job waits for one, and said nothing."""
        assert source_of(pulsar, None, topic_pattern="typo-.*", admin_url=pulsar.admin_url).splits(1) == []
        assert "no topic matches 'typo-.*'. Create one, or correct it" in caplog.text

    def test_two_with_one_subscription(self, pulsar: PulsarServer, monkeypatch: pytest.MonkeyPatch) -> None:
        topic = pulsar.create_topic()
        source = source_of(pulsar, topic, subscription_name="shared")
        (split,) = source.splits(1)
        reader = source.reader(split)
        reader.read(split.start, 1)
        once = partial(connected, sleep=lambda seconds: None, patience_s=0.0)
        monkeypatch.setattr("changelog_engine.connectors.pulsar.source.connected", once)
        with pytest.raises(ConnectorError, match=r"connected under the same name.*set_subscription_name"):
            source_of(pulsar, topic, subscription_name="shared").splits(1)
        reader.close()


class TestKilledBrokers:
    def test_the_broker_is_killed_while_it_reads_and_writes(
        self, pulsar: PulsarServer, tmp_path: Path
    ) -> None:
        topic, into = pulsar.create_topic(2), pulsar.create_topic(2)
        pulsar.put_batches(topic, range(40), 5)
        job = StoppedJob(tmp_path, 60)

        def come_back() -> None:
            pulsar.start()
            pulsar.put(topic, range(40, 60))

        starting = threading.Thread(target=come_back)
        job.steps = [(20, lambda: (pulsar.kill(), starting.start()))]
        job.run(collected(source_of(pulsar, topic), 2, sink_of(pulsar, into)))
        starting.join()
        assert Counter(job.output) == Counter(texts(*range(60)))
        assert set(pulsar.values(into)) == set(job.output), "nothing is lost"

    def test_a_broker_that_does_not_come_back(
        self, pulsar: PulsarServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The last test: the next one would have to start a broker."""
        topic = pulsar.create_topic()
        source = source_of(pulsar, topic)
        (split,) = source.splits(1)
        reader = source.reader(split)
        reader.read(split.start, 1)
        writer = sink_of(pulsar, topic, options={"pulsar.producer.sendTimeoutMs": "3000"}).writer(0, 1)
        writer.write(["a"])
        writer.flush()
        pulsar.kill()
        writer.write(["b"])
        with pytest.raises(UnreachableError, match=r"writing to .* failed: TimeOut .*Connection refused"):
            writer.flush()
        writer.close()
        monkeypatch.setattr(reader_module.reconnecting, "PATIENCE_S", 0.2)
        with pytest.raises(
            UnreachableError, match=r"not connected for .*Connection refused.*Is Pulsar running"
        ):
            read_on(reader, split.start)
        reader.close()
        assert "the connection was lost" in caplog.text
