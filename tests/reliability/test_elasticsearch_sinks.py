"""The sink for Elasticsearch and OpenSearch on real clusters: what arrives, what is refused, and clusters that die."""

from __future__ import annotations

import datetime
import threading
import time
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from servers.process import free_port
from servers.search import SearchServer
from support.cut_connections import CutConnections
from support.graphs import GraphBuilder
from support.jobs import NO_RESTART, TestJob
from support.script import Failure, Fault, Script

from api.common import Row, Types
from api.datastream import StreamExecutionEnvironment
from api.datastream.connectors import DeliveryGuarantee
from api.datastream.connectors.elasticsearch import (
    Elasticsearch6SinkBuilder,
    Elasticsearch7SinkBuilder,
    ElasticsearchEmitter,
    ElasticsearchSink,
    FlushBackoffType,
)
from changelog_engine.connectors import Prepared, SinkContext
from changelog_engine.errors import ConfigurationError, ConnectorError, JobExecutionError, TypeMismatchError
from changelog_engine.graph.nodes import JobGraph, NodeKind

pytestmark = pytest.mark.slow

CONTEXT = SinkContext("job", "sink", 0, 1, "run", 1, True, ())
PATIENT = (FlushBackoffType.CONSTANT, 400, 50)


@pytest.fixture(params=["opensearch", "elasticsearch"])
def cluster(request: pytest.FixtureRequest) -> SearchServer:
    """Each of the two products."""
    found: SearchServer = request.getfixturevalue(request.param)
    return found


def builder(cluster: SearchServer, emitter: ElasticsearchEmitter, **more: Any) -> Elasticsearch7SinkBuilder:
    made = Elasticsearch7SinkBuilder().set_hosts(more.pop("hosts", cluster.address)).set_emitter(emitter)
    made.set_connection_username(cluster.user).set_connection_password(cluster.password)
    for name, value in more.items():
        getattr(made, f"set_{name}")(*(value if isinstance(value, tuple) else (value,)))
    return made


def sink(cluster: SearchServer, index: str, key: str | None = "id", **more: Any) -> Any:
    return builder(cluster, ElasticsearchEmitter.static_index(index, key), **more).build()._sink


def job_into(engine_sink: Any, elements: list[Any], parallelism: int = 1) -> JobGraph:
    build = GraphBuilder(f"job-{uuid.uuid4().hex[:8]}", parallelism, 16)
    build.add(NodeKind.SINK, "sink", build.source(elements, uid="elements"), function=engine_sink, uid="sink")
    return build.graph()


def test_documents_of_dicts_and_rows(cluster: SearchServer) -> None:
    index = cluster.create_index()
    writer = sink(cluster, index).committing_writer(CONTEXT)
    writer.write(
        [
            {"id": 1, "text": "ü ' \" \\ 雪\n", "n": None, "list": ["a", "b"], "real": 1.5},
            Row(id=2, inner=Row(a=1, day=datetime.date(2024, 2, 29)), exact=Decimal("0.10"), raw=b"\0\xff"),
            {"id": 3, "a": 1},
            {"id": 3, "b": 2},
        ]
    )
    writer.end_epoch()
    assert cluster.documents(index) == {}, "1,000 are collected, or what comes before a barrier"
    assert writer.prepare(False) == Prepared()
    assert cluster.documents(index) == {
        "1": {"id": 1, "text": "ü ' \" \\ 雪\n", "n": None, "list": ["a", "b"], "real": 1.5},
        "2": {"id": 2, "inner": {"a": 1, "day": "2024-02-29"}, "exact": "0.10", "raw": "AP8="},
        "3": {"id": 3, "a": 1, "b": 2},
    }
    writer.close()


def test_the_index_of_each_document(cluster: SearchServer) -> None:
    name = f"day-{uuid.uuid4().hex[:8]}"
    emitter = ElasticsearchEmitter.dynamic_index("day", "id")
    writer = builder(cluster, emitter).build()._sink.committing_writer(CONTEXT)
    writer.write([{"day": f"{name}-{number % 2}", "id": number} for number in range(4)])
    writer.prepare(True)
    assert sorted(cluster.documents(f"{name}-1")) == ["1", "3"]
    assert sorted(cluster.documents(f"{name}-0")) == ["0", "2"]
    writer.close()


def test_requests_are_as_large_as_asked_for(opensearch: SearchServer) -> None:
    index = opensearch.create_index()
    writer = sink(opensearch, index, bulk_flush_max_actions=3).committing_writer(CONTEXT)
    writer.write([{"id": number} for number in range(7)])
    assert opensearch.count(index) == 6
    writer.close()
    assert opensearch.count(index) == 6, "what was not at a barrier comes again"
    by_size = sink(opensearch, index, bulk_flush_max_actions=-1, bulk_flush_max_size_mb=1)
    writer = by_size.committing_writer(CONTEXT)
    writer.write([{"id": number, "text": "x" * 100_000} for number in range(10, 22)])
    assert 16 <= opensearch.count(index) < 18
    writer.close()
    writer = sink(opensearch, index, bulk_flush_interval=20).committing_writer(CONTEXT)
    writer.write([{"id": 100}])
    time.sleep(0.03)
    writer.end_epoch()
    assert "100" in opensearch.documents(index)
    writer.close()


def test_ids_make_a_job_with_failures_exact(opensearch: SearchServer, tmp_path: Path) -> None:
    index, plain = opensearch.create_index(), opensearch.create_index()
    elements = [{"id": number % 40, "n": number} for number in range(60)]
    failures = (Failure(2, Fault.WORKER), Failure(3, Fault.PARTS), Failure(5, Fault.COMMITTED))
    script = Script((9,), (True, False), failures)
    TestJob(tmp_path / "a", script).run(job_into(sink(opensearch, index, bulk_flush_max_actions=4), elements))
    found = opensearch.documents(index)
    assert {key: found[key]["n"] for key in found} == {str(number % 40): number for number in range(60)}, (
        "the last of each id"
    )
    TestJob(tmp_path / "b", script).run(
        job_into(sink(opensearch, plain, None, bulk_flush_max_actions=4), elements)
    )
    numbers = [document["n"] for document in opensearch.documents(plain).values()]
    assert set(numbers) == set(range(60))
    assert len(numbers) > 60, "the failures repeated nothing"


def test_a_program(elasticsearch: SearchServer, tmp_path: Path) -> None:
    """As PyFlink's example has it."""
    index = elasticsearch.create_index()
    env = StreamExecutionEnvironment.get_execution_environment()
    users = [{"name": "ada", "id": "1"}, {"name": "luna", "id": "2"}]
    stream = env.from_collection(users, type_info=Types.MAP(Types.STRING(), Types.STRING()))
    emitter = ElasticsearchEmitter.static_index(index, "id")
    made = builder(elasticsearch, emitter, delivery_guarantee=DeliveryGuarantee.AT_LEAST_ONCE).build()
    assert isinstance(made, ElasticsearchSink)
    stream.sink_to(made).name("es sink")
    TestJob(tmp_path).run(env.generate_stream_graph())
    assert elasticsearch.documents(index) == {user["id"]: user for user in users}


class TestRefusals:
    def test_of_one_document_of_many(self, cluster: SearchServer) -> None:
        """The response's status is 200; nothing of it says failure but the item."""
        index = cluster.create_index(n="long")
        writer = sink(cluster, index, bulk_flush_backoff_strategy=PATIENT).committing_writer(CONTEXT)
        writer.write([{"id": number, "n": number if number != 3 else "three"} for number in range(6)])
        with pytest.raises(ConnectorError) as caught:
            writer.prepare(False)
        message = str(caught.value)
        for part in (
            "document '3'",
            f"index {index!r}",
            "status 400",
            "mapper_parsing_exception",
            '"n":"three"',
            cluster.url,
        ):
            assert part in message, part
        assert cluster.password not in message
        writer.close()

    def test_a_busy_cluster_is_asked_again(self, opensearch: SearchServer) -> None:
        index, other = opensearch.create_index(), opensearch.create_index()
        block = {"index.blocks.read_only_allow_delete": True}
        opensearch.request("PUT", f"/{index}/_settings", block)
        emitter = ElasticsearchEmitter.dynamic_index("to", "id")
        elements = [{"to": index if number % 2 else other, "id": number} for number in range(6)]
        impatient = builder(opensearch, emitter).build()._sink.committing_writer(CONTEXT)
        impatient.write(elements)
        with pytest.raises(ConnectorError, match=r"status 429.*set_bulk_flush_backoff_strategy"):
            impatient.prepare(False)
        impatient.close()
        twice = (FlushBackoffType.EXPONENTIAL, 2, 1)
        bounded = builder(opensearch, emitter, bulk_flush_backoff_strategy=twice).build()._sink
        writer = bounded.committing_writer(CONTEXT)
        writer.write(elements)
        with pytest.raises(ConnectorError, match=r"document '1' for index .* status 429: .*\(3 times\)"):
            writer.prepare(False)
        writer.close()
        patient = builder(opensearch, emitter, bulk_flush_backoff_strategy=PATIENT).build()._sink
        writer = patient.committing_writer(CONTEXT)
        writer.write(elements)
        free = {"index.blocks.read_only_allow_delete": None}
        timer = threading.Timer(0.4, opensearch.request, ("PUT", f"/{index}/_settings", free))
        timer.start()
        writer.prepare(False)
        timer.join()
        assert sorted(opensearch.documents(index)) == ["1", "3", "5"]
        assert opensearch.documents(other).keys() == {"0", "2", "4"}
        writer.close()

    def test_an_index_that_is_not_there(self, opensearch: SearchServer) -> None:
        automatic = {"persistent": {"action.auto_create_index": "false"}}
        opensearch.request("PUT", "/_cluster/settings", automatic)
        try:
            writer = sink(opensearch, "nowhere").committing_writer(CONTEXT)
            writer.write([{"id": 1}])
            with pytest.raises(
                ConnectorError, match=r"document '1' for index 'nowhere' .* status 404: index_not_found"
            ):
                writer.prepare(False)
            writer.close()
        finally:
            opensearch.request(
                "PUT", "/_cluster/settings", {"persistent": {"action.auto_create_index": None}}
            )

    def test_a_request_that_is_too_large_is_cut(self, opensearch: SearchServer) -> None:
        index = opensearch.create_index()
        writer = sink(opensearch, index).committing_writer(CONTEXT)
        writer.write([{"id": number, "text": "x" * 300_000} for number in range(9)])
        writer.prepare(False)
        assert opensearch.count(index) == 9, "a megabyte is the most that the cluster takes"
        writer.write([{"id": 10}, {"id": 666, "text": "x" * 2_000_000}])
        with pytest.raises(ConnectorError, match=r"document '666' .* is too large: 2000\d+ bytes"):
            writer.prepare(False)
        writer.close()

    @pytest.mark.parametrize(
        ("element", "says"),
        [
            ({"n": 1}, "field 'id', which is missing, None"),
            ({"id": ""}, "field 'id', which is empty"),
            ({"id": 1, "x": float("nan")}, "no NaN"),
            ({"id": 1, "x": [{"y": float("inf")}]}, "no NaN and no infinity"),
            ({"id": 1, "x": {1, 2}}, "set is not JSON"),
            ({"id": 1, "x": "\ud800"}, "surrogates"),
            ({"id": 1, 2: 3}, "key must be str"),
            ({"id": 1, "x": 2**64}, "64-bit"),
            (Row(1, 2), "named fields"),
            ("text", "make a dict of it"),
        ],
    )
    def test_what_is_not_a_document(self, opensearch: SearchServer, element: Any, says: str) -> None:
        writer = sink(opensearch, "any").committing_writer(CONTEXT)
        with pytest.raises(TypeMismatchError, match=says):
            writer.write([element])
        writer.close()


class TestClusters:
    def test_nobody_there(self, tmp_path: Path) -> None:
        port = free_port()
        emitter = ElasticsearchEmitter.static_index("any")
        made = Elasticsearch7SinkBuilder().set_hosts(f"127.0.0.1:{port}").set_emitter(emitter).build()
        with pytest.raises(
            ConnectorError, match=rf"127\.0\.0\.1:{port}\).* no host answers .*refused.*set_hosts"
        ):
            made._sink.check_before_start()
        with pytest.raises(ConnectorError, match="no host answers"):
            made._sink.committing_writer(CONTEXT)

    def test_somebody_else(self, s3: Any) -> None:
        emitter = ElasticsearchEmitter.static_index("any")
        made = Elasticsearch7SinkBuilder().set_hosts(s3.endpoint).set_emitter(emitter).build()
        with pytest.raises(ConnectorError, match=s3.endpoint):
            made._sink.check_before_start()

    def test_a_wrong_password(self, cluster: SearchServer) -> None:
        made = sink(cluster, "any", connection_password="wrong!pass")
        with pytest.raises(ConnectorError, match="as user 'tester' was refused with status 401") as caught:
            made.check_before_start()
        assert "wrong!pass" not in str(caught.value) + repr(made.cluster)
        emitter = ElasticsearchEmitter.static_index("any")
        nobody = Elasticsearch7SinkBuilder().set_hosts(cluster.url).set_emitter(emitter).build()._sink
        with pytest.raises(ConnectorError, match="without a user was refused"):
            nobody.check_before_start()

    def test_the_next_host(self, opensearch: SearchServer) -> None:
        index = opensearch.create_index()
        hosts = [f"127.0.0.1:{free_port()}", opensearch.url]
        made = sink(opensearch, index, hosts=hosts)
        made.check_before_start()
        writer = made.committing_writer(CONTEXT)
        writer.write([{"id": 1}])
        writer.prepare(True)
        assert opensearch.count(index) == 1
        writer.close()

    def test_mapping_types(self, opensearch: SearchServer, elasticsearch: SearchServer) -> None:
        emitter = ElasticsearchEmitter.static_index("typed", "id", "person")
        with pytest.raises(
            ConfigurationError, match=r"doc_type 'person': opensearch 2\.19\.3 has no mapping types"
        ):
            builder(opensearch, emitter).build()._sink.check_before_start()
        for number, kind in enumerate((Elasticsearch6SinkBuilder, Elasticsearch7SinkBuilder)):
            made = kind().set_hosts(elasticsearch.url).set_emitter(emitter)
            made.set_connection_username(elasticsearch.user).set_connection_password(elasticsearch.password)
            writer = made.build()._sink.committing_writer(CONTEXT)
            writer.write([{"id": number}])
            writer.prepare(True)
            writer.close()
        assert sorted(elasticsearch.documents("typed")) == ["0", "1"]
        assert list(
            elasticsearch.request("GET", "/typed/_mapping?include_type_name=true")["typed"]["mappings"]
        ) == ["person"]

    def test_a_connection_that_is_cut(self, opensearch: SearchServer) -> None:
        index = opensearch.create_index()
        elements = [{"id": number, "text": "x" * 1_000} for number in range(300)]
        with CutConnections(opensearch.port) as way:
            hosts = f"127.0.0.1:{way.port}"
            patient = sink(opensearch, index, hosts=hosts, bulk_flush_backoff_strategy=PATIENT)
            writer = patient.committing_writer(CONTEXT)
            way.cut_after(100_000)
            writer.write(elements)
            writer.prepare(False)
            way.lose_an_answer()
            writer.write([{"id": 1000}])
            writer.prepare(False)
            assert way.cuts == 2
            writer.close()
            impatient = sink(opensearch, index, hosts=hosts).committing_writer(CONTEXT)
            way.lose_an_answer()
            impatient.write([{"id": 1001}])
            with pytest.raises(ConnectorError, match=r"no host answers .*set_bulk_flush_backoff_strategy"):
                impatient.prepare(False)
            impatient.close()
        assert opensearch.count(index) in (301, 302)

    def test_a_killed_cluster(self, opensearch: SearchServer, tmp_path: Path) -> None:
        index = opensearch.create_index()
        elements = [{"id": number} for number in range(400)]
        patient = sink(
            opensearch,
            index,
            bulk_flush_max_actions=10,
            bulk_flush_backoff_strategy=(FlushBackoffType.CONSTANT, 1_200, 100),
        )
        job = TestJob(tmp_path, Script((10,)))
        run = threading.Thread(target=job.run, args=(job_into(patient, elements),))
        run.start()
        while opensearch.count(index) < 50:
            time.sleep(0.01)
        opensearch.kill()
        time.sleep(0.3)
        opensearch.start()
        run.join(120)
        assert not run.is_alive()
        assert sorted(int(key) for key in opensearch.documents(index)) == list(range(400))

    def test_a_job_without_retries_goes_on_after_its_restart(
        self, opensearch: SearchServer, tmp_path: Path
    ) -> None:
        index = opensearch.create_index()
        elements = [{"id": number} for number in range(100)]
        with CutConnections(opensearch.port) as way:
            made = sink(opensearch, index, hosts=f"127.0.0.1:{way.port}", bulk_flush_max_actions=10)
            way.cut_after(2_000)
            with pytest.raises(JobExecutionError, match="no host answers"):
                TestJob(tmp_path / "a", Script((10,)), restart=NO_RESTART).run(job_into(made, elements))
            way.cut_after(2_000)
            TestJob(tmp_path / "b", Script((10,))).run(job_into(made, elements))
            assert way.cuts == 2
        assert opensearch.count(index) == 100
