"""The Kafka sink that writes exactly once: whatever dies, a read_committed consumer sees each record once."""

from __future__ import annotations

import contextlib
import gc
import random
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from servers.kafka import KafkaServer
from support.graphs import GraphBuilder
from support.jobs import NO_RESTART, TestJob
from support.rescaled import RescaledJob
from support.script import Failure, Fault, Script

from api.common.serialization import SimpleStringSchema
from changelog_engine.connectors import NumberSequenceSource, SinkContext, still_ours
from changelog_engine.connectors.kafka import ClientProperties, RecordSchema, TransactionalKafkaSink
from changelog_engine.connectors.kafka.exactly_once import TransactionalWriter, _Slot
from changelog_engine.connectors.kafka.transactions import Transaction, Transactions, TransactionState
from changelog_engine.connectors.protocols import Prepared, RestoredSink
from changelog_engine.errors import ConfigurationError, ConnectorError, FencedError, JobExecutionError
from changelog_engine.graph.nodes import JobGraph, NodeKind
from changelog_engine.testing.conformance import check_committing_sink

pytestmark = [
    pytest.mark.slow,
    # kafka-python leaves the sockets of refused connections to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed.*socket:ResourceWarning"),
]

NUMBERS = 80


def properties(kafka: KafkaServer, **more: str) -> ClientProperties:
    given = {name.replace("_", "."): value for name, value in more.items()}
    return ClientProperties({"bootstrap.servers": kafka.bootstrap_servers, **given}, "KafkaSink")


def sink_into(kafka: KafkaServer, topic: str, **more: Any) -> TransactionalKafkaSink:
    schema = RecordSchema(topic, None, SimpleStringSchema())
    settings = more.pop("settings", {})
    return TransactionalKafkaSink(schema, properties(kafka, **settings), "test", **more)


def job_into(sink: Any, parallelism: int, name: str, numbers: int = NUMBERS) -> JobGraph:
    build = GraphBuilder(name, parallelism=parallelism, max_parallelism=16)
    texts = build.add(
        NodeKind.MAP, "texts", build.source(NumberSequenceSource(1, numbers), uid="numbers"), function=Texts()
    )
    build.add(NodeKind.SINK, "sink", texts, function=sink, uid="sink")
    return build.graph()


class Texts:
    def map(self, value: int) -> str:
        return str(value)


def visible(kafka: KafkaServer, topic: str) -> Counter[str]:
    return Counter(record.value.decode() for record in kafka.consume_committed(topic) if record.value)


def exactly_once(numbers: int = NUMBERS) -> Counter[str]:
    return Counter(str(number) for number in range(1, numbers + 1))


@contextlib.contextmanager
def closed_at_the_end() -> Iterator[None]:
    """Writers of processes that were only thought dead live on until then."""
    alive: list[Any] = []
    make = TransactionalKafkaSink.committing_writer

    def made(sink: TransactionalKafkaSink, context: SinkContext) -> Any:
        alive.append(make(sink, context))
        return alive[-1]

    with mock.patch.object(TransactionalKafkaSink, "committing_writer", made):
        yield
    for writer in alive:
        writer.close()


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """What is left to the garbage collector is collected where its warnings are expected."""
    yield
    gc.collect()


@pytest.mark.parametrize("seed", range(30))
def test_each_record_once_whatever_dies(kafka: KafkaServer, tmp_path: Path, seed: int) -> None:
    """Failures at random steps, barriers at random, another parallelism after each."""
    randomly = random.Random(seed)
    steps = list(Fault)
    faults = [steps[seed % len(steps)], *(randomly.choice(steps) for _ in range(1))]
    failures = tuple(Failure(randomly.randint(1, 4), fault, 0, randomly.randint(0, 1)) for fault in faults)
    barriers = (*(randomly.random() < 0.7 for _ in range(4)), True)
    job = TestJob(tmp_path / "log", Script((randomly.randint(8, 40),), barriers, failures))
    topic, name = kafka.create_topic(partitions=2), f"job-{uuid.uuid4().hex[:8]}"
    sink = sink_into(kafka, topic)
    with closed_at_the_end(), mock.patch.object(TransactionalWriter, "close", return_value=None):
        job.run(lambda driver: job_into(sink, 1 + (seed + driver) % 2, name))
        if visible(kafka, topic) != exactly_once():  # the driver died between the last commit and the sinks'
            assert job.commits[-1].finished
            job.progress.waiting.clear()
            job.run_driver(job_into(sink, 2, name), restore="latest")
    assert visible(kafka, topic) == exactly_once()
    assert kafka.end_offsets(topic, committed=True) == kafka.end_offsets(topic), "a transaction was left open"


@pytest.mark.parametrize("seed", range(2))
def test_each_record_once_while_it_is_rescaled(kafka: KafkaServer, tmp_path: Path, seed: int) -> None:
    """Up and down while it runs, and a failure at a random step beside it."""
    randomly = random.Random(seed)
    steps = list(Fault)
    failures = (Failure(randomly.randint(2, 6), randomly.choice(steps), 0, 0),) if seed % 2 else ()
    barriers = (*(randomly.random() < 0.7 for _ in range(4)), True)
    wanted = {1: 3, 3: {"sink": 1}, 5: randomly.randint(2, 4), 7: 1}
    job = RescaledJob(tmp_path / "log", Script((5,), barriers, failures), wanted=wanted)
    topic, name = kafka.create_topic(partitions=2), f"job-{uuid.uuid4().hex[:8]}"
    sink = sink_into(kafka, topic)
    with closed_at_the_end(), mock.patch.object(TransactionalWriter, "close", return_value=None):
        job.run(job_into(sink, 2, name))
        if visible(kafka, topic) != exactly_once():  # the driver died between the last commit and the sinks'
            assert failures
            assert job.commits[-1].finished
            job.run_driver(job_into(sink, 2, name), restore="latest")
    made = job.answered()
    assert made
    assert failures or len(made) == len(wanted)
    assert visible(kafka, topic) == exactly_once()
    assert kafka.end_offsets(topic, committed=True) == kafka.end_offsets(topic), "a transaction was left open"


def test_conformance(kafka: KafkaServer) -> None:
    topic = kafka.create_topic(partitions=2)
    sink = sink_into(kafka, topic)
    with closed_at_the_end():
        check_committing_sink(sink, lambda: visible(kafka, topic).elements(), runs=2, seed=7)


class OneWriter:
    """Drives the writers of one subtask by hand."""

    def __init__(self, sink: TransactionalKafkaSink) -> None:
        self.sink = sink
        self.job = f"job-{uuid.uuid4().hex[:8]}"
        self.writers: list[Any] = []

    def start(self, *restored: Prepared, parallelism: int = 1, subtask: int = 0) -> Any:
        kept = [RestoredSink(number, prepared) for number, prepared in enumerate(restored)]
        mine = [each for each in kept if each.subtask % parallelism == subtask]
        context = SinkContext(self.job, "uid", subtask, parallelism, "run", len(self.writers), True, mine)
        self.writers.append(self.sink.committing_writer(context))
        return self.writers[-1]

    def close(self) -> None:
        for writer in self.writers:
            writer.close()


@contextlib.contextmanager
def driven(sink: TransactionalKafkaSink) -> Iterator[OneWriter]:
    one = OneWriter(sink)
    try:
        yield one
    finally:
        one.close()


def test_a_zombie_is_fenced(kafka: KafkaServer) -> None:
    """The old writer wakes up at every step after its successor took over, and changes nothing."""
    topic = kafka.create_topic()
    with driven(sink_into(kafka, topic)) as one:
        zombie = one.start()
        zombie.write(["1"])
        kept = zombie.prepare(False)
        zombie.write(["lost"])
        successor = one.start(kept)
        assert visible(kafka, topic) == Counter(["1"])
        with pytest.raises(ConnectorError, match="fenced by a newer instance"):
            zombie.commit(kept.committables)

        def goes_on() -> None:
            # confluent-kafka 2.8 may say here already what newer ones say at the flush
            zombie.write(["too late"])
            zombie.prepare(False)

        with pytest.raises(ConnectorError, match=r"fenced|has ended"):
            goes_on()
        successor.write(["2"])
        successor.commit(successor.prepare(True).committables)
    assert visible(kafka, topic) == Counter(["1", "2"])


def test_a_zombie_takes_no_id_after_it_was_replaced(kafka: KafkaServer) -> None:
    """Its successor has ended when it wakes: nobody would end what it begins, and all would wait behind that."""
    topic = kafka.create_topic()
    with driven(sink_into(kafka, topic)) as one:
        first = one.start()
        first.write(["1"])
        zombie = one.start(first.prepare(False))
        zombie.write(["2"])
        kept = zombie.prepare(False)
        zombie.commit(kept.committables)
        successor = one.start(kept)
        successor.write(["3"])
        successor.commit(successor.prepare(True).committables)

        def goes_on() -> None:
            zombie.write(["too late"])
            zombie.prepare(False)

        with pytest.raises(ConnectorError, match=r"fenced|has ended"):
            goes_on()
        assert visible(kafka, topic) == Counter(["1", "2", "3"])
        assert kafka.end_offsets(topic, committed=True) == kafka.end_offsets(topic), "an open transaction"


def test_who_was_replaced_while_it_opened_the_sink_aborts_nothing(kafka: KafkaServer) -> None:
    """Its successor has prepared a transaction when it wakes, before it has taken the ids."""
    topic = kafka.create_topic()

    def replaced() -> None:
        raise FencedError("another driver took the job over")

    with driven(sink_into(kafka, topic)) as one:
        successor = one.start()
        successor.write(["1"])
        kept = successor.prepare(False)
        token = still_ours._check.set(replaced)
        with pytest.raises(FencedError):
            one.start()
        still_ours._check.reset(token)
        successor.commit(kept.committables)
    assert visible(kafka, topic) == Counter(["1"])


def test_a_commit_that_outlives_its_job(kafka: KafkaServer) -> None:
    """While the old writer commits, its successor takes over and commits the same: the old one may fail, it does not."""
    topic = kafka.create_topic()
    with driven(sink_into(kafka, topic)) as one, ThreadPoolExecutor(1) as pool:
        writer = one.start()
        for number in range(2):
            writer.write([str(number)])
            kept = writer.prepare(False)
            late = pool.submit(writer.commit, kept.committables)
            writer = one.start(kept)
            failed = late.exception()
            assert failed is None or isinstance(failed, ConnectorError)
            assert visible(kafka, topic) == Counter(str(each) for each in range(number + 1))


def test_what_follows_a_barrier_is_in_another_transaction(kafka: KafkaServer) -> None:
    """The checkpoint's commit seems to fail, the writer goes on and dies: the checkpoint has its own records only."""
    topic = kafka.create_topic()
    with driven(sink_into(kafka, topic)) as one:
        writer = one.start()
        writer.write(["1"])
        first = writer.prepare(False)
        writer.write(["2"])
        second = writer.prepare(False)
        assert first.committables[0]["id"] != second.committables[0]["id"]
        one.start(first)
        assert visible(kafka, topic) == Counter(["1"])
        assert kafka.end_offsets(topic, committed=True) == kafka.end_offsets(topic)


def test_rewinding_to_an_older_checkpoint_commits_nothing_of_later_ones(
    kafka: KafkaServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Its transaction was committed, and its id is in use again with the same producer."""
    topic = kafka.create_topic()
    with driven(sink_into(kafka, topic)) as one:
        writer = one.start()
        prepared = []
        for number in range(1, 4):
            writer.write([str(number)])
            prepared.append(writer.prepare(False))
            if number < 3:
                writer.commit(prepared[-1].committables)
        assert prepared[0].committables[0]["id"] == prepared[2].committables[0]["id"]
        assert prepared[0].committables[0]["epoch"] == prepared[2].committables[0]["epoch"]
        assert "is aborted" not in caplog.text
        context = SinkContext(one.job, "uid", 0, 1, "run", 1, True, [RestoredSink(0, prepared[0])])
        one.writers.append(one.sink.committing_writer(context._replace(branches=frozenset({0}))))
        assert visible(kafka, topic) == Counter(["1", "2"])
        assert caplog.text.count("is aborted, as the job goes back to a checkpoint before it") == 1
        with pytest.raises(ConnectorError, match=r"was aborted when the job went back .* Restore an older"):
            one.start(prepared[2])
        one.start(prepared[1])


def test_ids_of_subtasks_that_are_no_more(kafka: KafkaServer) -> None:
    """Fewer subtasks commit, and abort, what the others left."""
    topic = kafka.create_topic()
    with driven(sink_into(kafka, topic)) as one:
        kept = []
        for subtask in range(3):
            writer = one.start(parallelism=3, subtask=subtask)
            writer.write([f"kept {subtask}"])
            kept.append(writer.prepare(False))
            writer.write([f"open {subtask}"])
            writer.end_epoch()
            writer._slots[writer._open].producer.flush()
        assert not visible(kafka, topic)
        one.start(*kept)
        assert visible(kafka, topic) == Counter(f"kept {subtask}" for subtask in range(3))
        assert kafka.end_offsets(topic, committed=True) == kafka.end_offsets(topic)


def test_a_transaction_that_the_brokers_aborted(kafka: KafkaServer, caplog: pytest.LogCaptureFixture) -> None:
    topic = kafka.create_topic()
    sink = sink_into(kafka, topic, settings={"transaction_timeout_ms": "1000"})
    with driven(sink) as one:
        writer = one.start()
        writer.write(["1"])
        kept = writer.prepare(False)
        transactions = Transactions(sink.properties)
        transaction = Transaction(**kept.committables[0])
        while transactions.state(transaction) is not TransactionState.ABORTED:
            assert transactions.state(transaction) in (TransactionState.OPEN, TransactionState.ABORTED)
        transactions.close()
        with pytest.raises(ConnectorError, match=r"was aborted: it was not committed within .* \(1000\)"):
            one.start(kept)
        one.sink = sink_into(kafka, topic, settings={"transaction_timeout_ms": "1000"}, only_log_lost=True)
        one.start(kept)
        assert "Its records are lost to readers" in caplog.text
    assert not visible(kafka, topic)


def test_brokers_that_lost_their_storage(kafka: KafkaServer, caplog: pytest.LogCaptureFixture) -> None:
    """They know nothing of a transaction that began a moment ago. Ids that were not used for long are forgotten anyway."""
    with driven(sink_into(kafka, kafka.create_topic())) as one:
        now_ms = time.time_ns() // 1_000_000
        young, old = (
            Prepared([Transaction(f"gone-{uuid.uuid4().hex}-0-0", 5, 0, now_ms - age_s * 1000)._asdict()])
            for age_s in (60, 8 * 86_400)
        )
        with pytest.raises(ConnectorError, match=r"began 6\d s ago, and is not known .* lost their storage"):
            one.start(young)
        one.start(old)
        assert "is not known to the brokers any more; it was committed long ago" in caplog.text


def test_a_timeout_longer_than_the_brokers_allow(kafka: KafkaServer) -> None:
    sink = sink_into(kafka, kafka.create_topic(), settings={"transaction_timeout_ms": "3600000"})
    with (
        driven(sink) as one,
        pytest.raises(ConfigurationError, match=r"'transaction.timeout.ms' is larger .* than 3600000"),
    ):
        one.start()


def test_a_topic_that_is_missing_fails_the_job(kafka: KafkaServer, tmp_path: Path) -> None:
    sink = sink_into(kafka, "nowhere", settings={"topic_metadata_propagation_max_ms": "500"})
    job = TestJob(tmp_path / "log", Script((50,)), restart=NO_RESTART)
    with pytest.raises(JobExecutionError, match=r"writing to topic 'nowhere' failed: .*[Uu]nknown"):
        job.run(job_into(sink, 1, f"job-{uuid.uuid4().hex[:8]}"))


def test_without_checkpoints_all_is_committed_at_the_end(kafka: KafkaServer, tmp_path: Path) -> None:
    topic = kafka.create_topic()
    job = TestJob(tmp_path / "log", Script((30,)), checkpoint_interval_ms=None, changelog=False)
    job.run(job_into(sink_into(kafka, topic), 1, f"job-{uuid.uuid4().hex[:8]}"))
    assert visible(kafka, topic) == exactly_once()


def test_a_last_commit_that_fails_fails_the_job_and_is_made_by_the_next_run(
    kafka: KafkaServer, tmp_path: Path
) -> None:
    topic = kafka.create_topic()
    graph = job_into(sink_into(kafka, topic), 1, f"job-{uuid.uuid4().hex[:8]}")
    job = TestJob(tmp_path / "log", Script((NUMBERS,), (False,)), restart=NO_RESTART)
    with (
        mock.patch.object(_Slot, "commit", side_effect=ConnectorError("the brokers are away")),
        pytest.raises(
            JobExecutionError, match=r"the brokers are away(?s:.*) the next run only completes this one"
        ),
    ):
        job.run_driver(graph)
    assert not visible(kafka, topic)
    job.run_driver(graph)
    assert visible(kafka, topic) == exactly_once()


def test_the_broker_dies_in_the_middle(kafka: KafkaServer, tmp_path: Path) -> None:
    """kill -9 between a checkpoint and the commit of its transaction; it comes back, and each record is there once."""
    topic = kafka.create_topic(partitions=2)
    job = TestJob(tmp_path / "log", Script((20,), (True,)))
    killed = []

    def die(checkpoint: Any) -> None:
        if checkpoint.id == 2 and not killed:
            killed.append(checkpoint.id)
            kafka.kill()
            kafka.start()

    job.on_commit = die  # type: ignore[method-assign]
    job.run(job_into(sink_into(kafka, topic), 1, f"job-{uuid.uuid4().hex[:8]}"))
    assert killed == [2]
    assert visible(kafka, topic) == exactly_once()
