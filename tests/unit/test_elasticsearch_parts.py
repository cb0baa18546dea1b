"""The parts of the sink for Elasticsearch and OpenSearch that need no cluster."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pytest

from api.datastream.connectors import DeliveryGuarantee
from api.datastream.connectors.elasticsearch import (
    Elasticsearch6SinkBuilder,
    Elasticsearch7SinkBuilder,
    ElasticsearchEmitter,
    FlushBackoffType,
)
from changelog_engine.connectors.collecting import to_send_again
from changelog_engine.connectors.elasticsearch import documents
from changelog_engine.connectors.elasticsearch.cluster import Cluster
from changelog_engine.connectors.elasticsearch.documents import Action, Emitter, Product
from changelog_engine.connectors.elasticsearch.options import Backoff, BulkOptions
from changelog_engine.connectors.elasticsearch.sink import _document
from changelog_engine.errors import (
    ArgumentTypeError,
    ConfigurationError,
    NotSupportedError,
    TypeMismatchError,
)
from changelog_engine.types import Instant

EMITTER = ElasticsearchEmitter.static_index("i", "k")


def test_what_is_sent() -> None:
    emitter = Emitter("i", None, "k", None)
    head, body, end = emitter.action({"k": True, "v": 1}, None).lines.split(b"\n")
    assert json.loads(head) == {"update": {"_index": "i", "_id": "true", "retry_on_conflict": 3}}
    assert json.loads(body) == {"doc": {"k": True, "v": 1}, "doc_as_upsert": True}
    assert end == b""
    head, body, _ = Emitter(None, "to", None, None).action({"to": 7}, "person").lines.split(b"\n")
    assert (json.loads(head), json.loads(body)) == ({"index": {"_index": "7", "_type": "person"}}, {"to": 7})


@dataclass
class Point:
    x: float
    _hidden: float = math.nan


@dataclass(slots=True)
class Narrow:
    x: object


class Size(Enum):
    UNKNOWN = math.inf


@pytest.mark.parametrize(
    "value",
    [
        Point(math.nan),
        Narrow(-math.inf),
        Narrow([Point(math.inf)]),
        {"deep": [Narrow({"p": Point(math.nan)})]},
        Size.UNKNOWN,
        [math.nan],
        np.float32("nan"),
        np.array([1.0, math.nan]),
    ],
    ids=repr,
)
def test_a_nan_is_never_sent_as_null(value: object) -> None:
    with pytest.raises(TypeMismatchError, match="JSON has no NaN and no infinity"):
        Emitter("i", None, None, None).action({"v": value}, None)


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (np.datetime64("2024-01-31T00:00:00.123456789"), "2024-01-31T00:00:00.123456789"),
        (np.datetime64("1969-12-31T23:59:59.999999999"), "1969-12-31T23:59:59.999999999"),
        (np.datetime64("2024-01-31T00:00:00.120000000"), "2024-01-31T00:00:00.120000"),
        (np.datetime64("2024-01-31"), "2024-01-31T00:00:00"),
        (np.datetime64("9999-12-31T23:59:59.999999"), "9999-12-31T23:59:59.999999"),
        (
            np.array([["2024-01-31T00:00:00.000000001"]], "datetime64[ns]"),
            [["2024-01-31T00:00:00.000000001"]],
        ),
        (np.array([0.1, 2], "float32"), [0.1, 2]),
        (np.int8(3), 3),
        (np.bool_(True), True),
        (Instant(-1, 999_999_999), "1969-12-31T23:59:59.999999999Z"),
        ([Narrow(Instant(5, 0))], [{"x": "1970-01-01T00:00:05Z"}]),
    ],
    ids=repr,
)
def test_values_lose_nothing(value: object, sent: object) -> None:
    lines = Emitter("i", None, None, None).action({"v": value}, None).lines
    assert json.loads(lines.split(b"\n")[1]) == {"v": sent}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (np.datetime64("NaT", "ns"), "JSON has no NaT"),
        (np.array(["2024-01-31", "NaT"], "datetime64[s]"), "JSON has no NaT"),
        (np.datetime64("12024-01-31"), "not of the years 1 to 9999"),
        (np.datetime64(586_574, "Y"), "not of the years 1 to 9999"),
        (np.datetime64("1970-01-01T00:00:00.000000000001"), "finer than a nanosecond"),
    ],
    ids=repr,
)
def test_a_time_of_numpy_that_json_has_not_is_an_error(value: object, why: str) -> None:
    with pytest.raises(TypeMismatchError, match=why):
        Emitter("i", None, None, None).action({"v": value}, None)


def test_dataclasses() -> None:
    lines = Emitter("i", None, None, None).action({"p": Point(1.5), "n": Narrow(None)}, None).lines
    assert json.loads(lines.split(b"\n")[1]) == {"p": {"x": 1.5}, "n": {"x": None}}


@pytest.mark.parametrize(
    ("product", "given", "sent"),
    [
        (("elasticsearch", "6.8.23"), None, "_doc"),
        (("elasticsearch", "6.8.23"), "person", "person"),
        (("elasticsearch", "7.17.28"), None, None),
        (("elasticsearch", "7.17.28"), "person", "person"),
        (("elasticsearch", "8.15.0"), "_doc", None),
        (("opensearch", "1.3.20"), "person", "person"),
        (("opensearch", "2.19.3"), None, None),
        (("opensearch", "3.0.0"), "_doc", None),
    ],
)
def test_mapping_types(product: tuple[str, str], given: str | None, sent: str | None) -> None:
    assert Emitter("i", None, None, given).type_for(Product(*product)) == sent


@pytest.mark.parametrize("product", [("elasticsearch", "8.15.0"), ("opensearch", "2.0.0")])
def test_no_mapping_types(product: tuple[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=f"{product[0]} {product[1]} has no mapping types"):
        Emitter("i", None, None, "person").type_for(Product(*product))


def test_an_older_state_of_a_document_never_comes_last() -> None:
    actions = [
        Action("i", key, lines)
        for key, lines in [("a", b"1"), ("b", b"2"), ("a", b"3"), (None, b"4"), (None, b"5")]
    ]
    assert [action.lines for action in to_send_again(actions, {0, 3}, _document)] == [b"1", b"3", b"4"]
    assert to_send_again(actions, set(), _document) == []


def test_what_a_pipeline_drops_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The items are as OpenSearch 2.19 and Elasticsearch 7.17 answer."""
    noop = {"_index": "i", "result": "noop", "status": 200}
    unchanged = {"_id": "k", "_version": 1, "_seq_no": 0, "_primary_term": 1, **noop}
    answers = [
        [{"update": unchanged}, {"update": unchanged}],
        [{"update": unchanged}, {"index": {"_id": "auto-generated", "_version": -3, **noop}}],
        [{"update": {"_id": "k", "_version": -3, **noop}}] * 2,
    ]
    sink = Elasticsearch7SinkBuilder().set_hosts("localhost:1").set_emitter(EMITTER).build()._sink
    cluster = Cluster(sink.cluster)
    actions = [sink.emitter.action({"k": "k", "v": value}, None) for value in range(2)]
    told = []
    for items in answers:
        monkeypatch.setattr(cluster, "_request", lambda *_, items=items: {"errors": False, "items": items})
        assert cluster.bulk(actions) == []
        told.append(len(caplog.messages))
    assert told == [0, 1, 1]
    assert "an ingest pipeline of index 'i' dropped 1 of 2 documents" in caplog.text


def test_waits() -> None:
    assert BulkOptions(backoff=Backoff.NONE, max_retries=9).tries == 1
    constant = BulkOptions(backoff=Backoff.CONSTANT, max_retries=2, delay_ms=500)
    assert (constant.tries, [constant.wait_s(tried) for tried in (1, 2, 3)]) == (3, [0.5] * 3)
    growing = BulkOptions(backoff=Backoff.EXPONENTIAL, max_retries=99, delay_ms=500)
    assert [growing.wait_s(tried) for tried in (1, 2, 3, 9, 99)] == [0.5, 1, 2, 60, 60]


@pytest.mark.parametrize(
    ("hosts", "urls"),
    [
        ("localhost:9200", ("http://localhost:9200",)),
        (["https://a.example", "http://b:1/"], ("https://a.example", "http://b:1")),
        ("http://[::1]:9200", ("http://[::1]:9200",)),
    ],
)
def test_hosts(hosts: Any, urls: tuple[str, ...]) -> None:
    sink = Elasticsearch6SinkBuilder().set_hosts(hosts).set_emitter(EMITTER).build()._sink
    assert sink.cluster.hosts == urls
    assert pickle.loads(pickle.dumps(sink)).cluster == sink.cluster


@pytest.mark.parametrize(
    ("method", "arguments", "error", "says"),
    [
        ("set_hosts", ([],), ConfigurationError, "at least one host"),
        ("set_hosts", (9200,), ArgumentTypeError, "non-empty str"),
        ("set_hosts", ("ftp://a:1",), ConfigurationError, "not of the form"),
        ("set_hosts", ("http://me:secret@a:1",), ConfigurationError, "has a user in it"),
        ("set_hosts", ("http://me:12?secret@a:1",), ConfigurationError, "has a user in it"),
        ("set_hosts", ("me:secret/x@a:1",), ConfigurationError, "has a user in it"),
        ("set_hosts", ("http://me:secret#x@a:1",), ConfigurationError, "has a user in it"),
        ("set_hosts", ("a:99999",), ConfigurationError, "[Pp]ort"),
        ("set_emitter", ("i",), ArgumentTypeError, "must be an ElasticsearchEmitter"),
        (
            "set_delivery_guarantee",
            ("AT_LEAST_ONCE",),
            ArgumentTypeError,
            "must be one of DeliveryGuarantee.",
        ),
        ("set_delivery_guarantee", (DeliveryGuarantee.EXACTLY_ONCE,), NotSupportedError, "key_field"),
        ("set_bulk_flush_max_actions", (0,), ConfigurationError, "at least 1, got 0"),
        ("set_bulk_flush_max_actions", (-2,), ConfigurationError, "at least -1"),
        ("set_bulk_flush_max_size_mb", (2.5,), ArgumentTypeError, "whole number"),
        ("set_bulk_flush_max_size_mb", (4096,), ConfigurationError, "between -1 and 1024"),
        ("set_bulk_flush_interval", (-7,), ConfigurationError, "at least -1"),
        (
            "set_bulk_flush_backoff_strategy",
            ("NONE", 1, 1),
            ArgumentTypeError,
            "must be one of FlushBackoffType.",
        ),
        (
            "set_bulk_flush_backoff_strategy",
            (FlushBackoffType.CONSTANT, 0, 1),
            ConfigurationError,
            "max_retries",
        ),
        (
            "set_bulk_flush_backoff_strategy",
            (FlushBackoffType.CONSTANT, 1, -1),
            ConfigurationError,
            "delay_millis",
        ),
        ("set_connection_username", ("",), ArgumentTypeError, "username"),
        ("set_connection_password", (b"secret",), ArgumentTypeError, "password must be a str$"),
        ("set_connection_path_prefix", (None,), ArgumentTypeError, "prefix"),
        ("set_connection_timeout", (0,), ConfigurationError, "at least 1"),
        ("set_socket_timeout", ("1",), ArgumentTypeError, "whole number"),
        ("set_connection_request_timeout", (-1,), ConfigurationError, "at least 0"),
    ],
)
def test_what_builders_refuse(
    method: str, arguments: tuple[Any, ...], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says) as caught:
        getattr(Elasticsearch7SinkBuilder(), method)(*arguments)
    assert "secret" not in str(caught.value)


def test_what_is_missing() -> None:
    with pytest.raises(ConfigurationError, match="set_hosts"):
        Elasticsearch7SinkBuilder().set_emitter(EMITTER).build()
    with pytest.raises(ConfigurationError, match="set_emitter"):
        Elasticsearch7SinkBuilder().set_hosts("a:1").build()
    with pytest.raises(ConfigurationError, match="set_connection_username"):
        Elasticsearch7SinkBuilder().set_hosts("a:1").set_emitter(EMITTER).set_connection_password("p").build()
    with pytest.raises(NotSupportedError, match="Java class"):
        Elasticsearch7SinkBuilder().get_http_host_class()
    with pytest.raises(ArgumentTypeError, match="static_index"):
        ElasticsearchEmitter("i")  # type: ignore[arg-type]
    prefixed = (
        Elasticsearch7SinkBuilder().set_hosts("a:1").set_emitter(EMITTER).set_connection_path_prefix("/x/")
    )
    assert prefixed.build()._sink.cluster.path_prefix == "/x"


def test_what_is_the_same_for_all_documents_is_written_once() -> None:
    documents._index_head.cache_clear()
    emitter = Emitter("i", None, None, None)
    lines = {emitter.action({"a": 1}, doc_type).lines for doc_type in (None, "t") for _ in range(50)}
    assert lines == {
        b'{"index":{"_index":"i"}}\n{"a":1}\n',
        b'{"index":{"_index":"i","_type":"t"}}\n{"a":1}\n',
    }
    assert documents._index_head.cache_info().misses == 2


def test_an_index_that_cannot_be_written() -> None:
    for _ in range(2):
        with pytest.raises(TypeMismatchError, match="surrogates not allowed"):
            Emitter(None, "i", None, None).action({"i": "\ud800", "k": 1}, None)


class Unshowable:
    def __repr__(self) -> str:
        raise ValueError("no repr")


def test_an_element_whose_repr_fails() -> None:
    with pytest.raises(TypeMismatchError, match=r"repr failed.* of type Unshowable"):
        Emitter("i", None, None, None).action(Unshowable(), None)
    with pytest.raises(TypeMismatchError, match="whose repr failed: ValueError"):
        Emitter("i", None, None, None).action({"a": Unshowable()}, None)
