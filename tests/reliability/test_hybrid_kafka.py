"""Files and then a topic of a real Kafka: exact over the switch, also where the topic begins at its end."""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from servers.kafka import KafkaServer
from support.epochs import EpochStats
from support.graphs import GraphBuilder
from support.jobs import TestJob
from support.script import Failure, Fault, Script
from support.scripts import EXACT

from api.common.serialization import SimpleStringSchema
from api.datastream.connectors import FileSource, StreamFormat
from api.datastream.connectors.hybrid_source import HybridSource
from api.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from changelog_engine.graph.nodes import JobGraph

pytestmark = pytest.mark.slow

LINES = [f"line {number}" for number in range(12)]


def graph_of(
    folder: Path, kafka: KafkaServer, topic: str, start: Any, parallelism: int, group: str
) -> JobGraph:
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder)).build()
    made = KafkaSource.builder().set_bootstrap_servers(kafka.bootstrap_servers).set_topics(topic)
    made.set_value_only_deserializer(SimpleStringSchema()).set_starting_offsets(start).set_group_id(group)
    source = HybridSource.builder(files).add_source(made.build()).build()
    build = GraphBuilder(f"job-{topic}", parallelism, 16)
    build.collect(build.source(source._source, uid="hybrid"))
    return build.graph()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "in"
    made.mkdir()
    for name, lines in (("a", LINES[:7]), ("b", LINES[7:11]), ("c", LINES[11:])):
        (made / name).write_text("".join(f"{line}\n" for line in lines))
    return made


class Feeding(TestJob):
    """Produces records when the checkpoint of the switch is there, and ends when they were given."""

    def __init__(self, base: Path, script: Script, kafka: KafkaServer, topic: str, wanted: int) -> None:
        super().__init__(base, script)
        self.kafka, self.topic, self.wanted = kafka, topic, wanted
        self.begun: list[dict[str, Any]] = []

    def on_commit(self, checkpoint: Any) -> None:
        known = checkpoint.sources["hybrid"]
        begun = {split: state[0] for split, state in known.items() if split.startswith("1:")}
        if begun and not self.begun:
            for partition in range(2):
                self.kafka.produce(
                    self.topic, [f"after {partition} {n}" for n in range(10)], partition=partition
                )
        if begun:
            self.begun.append(begun)

    def _observe(self, stats: EpochStats) -> None:
        if len(self.output) >= self.wanted:
            assert self.progress is not None
            self.progress.waiting.clear()  # what fails while a job stops is not repeated
            self.coordinator.control.stop()
        super()._observe(stats)


# A lost subtask closes no files
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("fault", "latest"), [*((fault, True) for fault in EXACT), (Fault.PARTS, False)])
def test_each_record_once_whatever_fails(
    kafka: KafkaServer, tmp_path: Path, folder: Path, fault: Fault, latest: bool
) -> None:
    topic, group = kafka.create_topic(partitions=2), f"group-{uuid.uuid4().hex}"
    before = [f"before {n}" for n in range(8)]
    kafka.produce(topic, before, partition=0)
    start = KafkaOffsetsInitializer.latest() if latest else KafkaOffsetsInitializer.earliest()
    expected = [*LINES, *([] if latest else before), *(f"after {p} {n}" for p in range(2) for n in range(10))]
    failures = tuple(Failure(epoch, fault, 0, epoch % 2) for epoch in range(2, 16, 2))
    script = Script((3,), (False, True), failures)
    job = Feeding(tmp_path / "log", script, kafka, topic, len(expected))
    job.run(lambda driver: graph_of(folder, kafka, topic, start, 1 + driver % 3, group))
    assert Counter(job.output) == Counter(expected)
    switched = next(index for index, line in enumerate(job.output) if not line.startswith("line"))
    assert Counter(job.output[:switched]) == Counter(LINES), "the topic comes after all files"
    assert job.begun[0] == {f"1:{topic}-0": 8 if latest else 0, f"1:{topic}-1": 0}
    if (
        fault is Fault.PARTS
    ):  # a process that is lost at the end takes what it would have told monitors with it
        assert sum(kafka.group_offsets(group, topic).values()) == 28
