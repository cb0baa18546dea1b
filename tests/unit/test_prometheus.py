"""Metrics as Prometheus sees them, and what is made of their names."""

from __future__ import annotations

import json
import re
import socket
import threading
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from support.graphs import GraphBuilder
from support.jobs import TestJob
from support.script import Script

from api.common import Types
from api.datastream.functions import KeyedProcessFunction
from api.datastream.state import ValueStateDescriptor
from changelog_engine.driver.figures import Histogram, JobFigures, JobMonitor, UpkeepFigures
from changelog_engine.errors import ConfigurationError
from changelog_engine.observing import prometheus
from changelog_engine.observing.prometheus import ENGINE_METRICS, PREFIX, Reporter, families
from changelog_engine.operators.metrics import MetricFigure
from changelog_engine.state.backend import EVENT_TIMERS, TableSize

DOCS = Path(__file__).resolve().parents[2] / "docs"
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum"), "gauge": ("",)}


class Measured(KeyedProcessFunction):
    """Has one metric of each kind."""

    def open(self, runtime_context):
        group = runtime_context.get_metrics_group()
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.seen = group.add_group("kind", "odd-or-even").counter("seen")
        self.size = group.add_group("inner").distribution("size")
        self.pace = group.meter("pace")
        group.gauge("level", lambda: 7)
        group.gauge("words", lambda: "high")

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        self.seen.inc()
        self.size.update(value)
        self.pace.mark_event()
        yield value


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> JobFigures:
    """Those of a job that has run."""
    build = GraphBuilder(parallelism=2)
    keyed = build.key_by(build.source(range(20)), lambda value: value % 4)
    build.collect(build.process(keyed, Measured(), name="measured", uid="measured"))
    job = TestJob(tmp_path_factory.mktemp("job"), Script(sizes=(3,)))
    job.run(build.graph())
    return job.coordinator._job.monitor.latest


def scraped(address: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_a_scrape_shows_what_the_job_did(figures: JobFigures) -> None:
    monitor = JobMonitor()
    sizes = {**figures.sizes, "timed": {EVENT_TIMERS: TableSize(1, 8)}}
    monitor.latest = replace(figures, upkeep=UpkeepFigures(2, 1, 1, 7, 0.5), sizes=sizes)
    reporter = Reporter("127.0.0.1", 0, monitor)
    try:
        found = scraped(reporter.address)
    finally:
        reporter.close()
    assert sum(value for _, value in found[PREFIX + "records_in_total"]) == 20
    assert found[PREFIX + "records_out_total"][0][1] == 20
    assert ({"job": "", "operator": "measured", "state": "count"}, 20) in [
        ({**labels, "job": ""}, value) for labels, value in found[PREFIX + "mutations_total"]
    ]
    assert sum(value for labels, value in found[PREFIX + "state_entries"] if labels["state"] == "count") == 4
    timers = [labels for labels, _ in found[PREFIX + "state_entries"] if labels["operator"] == "timed"]
    assert [labels["state"] for labels in timers] == ["(event time timers)"]
    assert found[PREFIX + "checkpoint_duration_seconds_count"][0][1] == figures.checkpoints > 0
    assert found[PREFIX + "materializations_failed_total"][0][1] == 1
    seen = found[PREFIX + "user_seen"]
    assert {labels["subtask"] for labels, _ in seen} == {"0", "1"}
    assert all((labels["operator"], labels["kind"]) == ("measured", "odd-or-even") for labels, _ in seen)
    assert sum(value for _, value in seen) == 20
    assert sum(value for _, value in found[PREFIX + "user_inner_size_sum"]) == sum(range(20))
    assert sum(value for _, value in found[PREFIX + "user_pace_count"]) == 20
    assert {value for _, value in found[PREFIX + "user_level"]} == {7}
    assert PREFIX + "user_words" not in found
    told = {name for name in found if not name.startswith(PREFIX + "user_")}
    missing = {name for name in engine_names() if name not in told}
    assert missing <= {PREFIX + "source_watermark_seconds", PREFIX + "stage_watermark_seconds"}, "at the end"


def engine_names() -> set[str]:
    return {PREFIX + name + suffix for name, (kind, _) in ENGINE_METRICS.items() for suffix in SUFFIXES[kind]}


def test_a_port_that_is_taken_is_named_with_the_option() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            ConfigurationError, match=r"another program listens there.*metrics\.reporter\.prometheus\.port"
        ):
            Reporter("127.0.0.1", port, JobMonitor())
    with pytest.raises(ConfigurationError, match=r"metrics can't be shown at 127\.0\.0\.1:70000"):
        Reporter("127.0.0.1", 70_000, JobMonitor())


def test_jobs_of_a_process_share_a_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    first, second = (Reporter("127.0.0.1", port, JobMonitor(name)) for name in ("a", "b"))
    assert {labels["job"] for labels, _ in scraped(first.address)[PREFIX + "restarts_total"]} == {"a", "b"}
    first.close()
    assert {labels["job"] for labels, _ in scraped(second.address)[PREFIX + "restarts_total"]} == {"b"}
    second.close()
    assert not prometheus._servers


def test_a_name_has_one_type() -> None:
    both = tuple(
        MetricFigure("op", subtask, kind, ("x",), {}, figure)
        for subtask, (kind, figure) in enumerate(
            [("counter", 1), ("distribution", {"sum": 1, "count": 1, "min": 1, "max": 1, "mean": 1.0})]
        )
    )
    found = {each.name: each.type for each in families([JobFigures(job="a", metrics=both)])}
    assert found[PREFIX + "user_x"] == "gauge"
    assert found[PREFIX + "user_x_summary"] == "summary"


def test_a_histogram_is_cumulative() -> None:
    histogram = Histogram().observed(30).observed(99_000_000)
    assert (histogram.counts[0], histogram.counts[3], histogram.count) == (0, 1, 2)


def names_in(text: str) -> set[str]:
    return set(re.findall(rf"\b{PREFIX}[a-z_]+\b", text))


def test_the_dashboard_and_the_alerts_ask_for_metrics_that_there_are() -> None:
    dashboard = json.loads((DOCS / "observing" / "dashboard.json").read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    assert len(asked) > 10
    assert names_in(" ".join(asked)) <= engine_names()
    page = (DOCS / "observing.md").read_text(encoding="utf-8")
    alerts = page.partition("### Alerts")[2].partition("## Later")[0]
    assert names_in(alerts) <= engine_names()
    assert len(names_in(alerts)) > 4


def test_the_scrape_that_the_page_shows_keeps_the_label_job() -> None:
    """Prometheus has a label of this name itself, and the dashboard and the alerts ask for the engine's."""
    page = (DOCS / "observing.md").read_text(encoding="utf-8")
    shown = re.search(r"^```yaml\n(scrape_configs:.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert shown is not None
    [scrape] = yaml.safe_load(shown[1])["scrape_configs"]
    assert scrape["honor_labels"] is True


@pytest.mark.parametrize(("kind", "figure"), [("gauge", 10**400), ("meter", None), ("distribution", None)])
def test_a_figure_of_a_functions_that_cannot_be_shown_hides_no_other(kind: str, figure: Any) -> None:
    bad = MetricFigure("op", 0, kind, ("bad",), {}, figure)
    good = MetricFigure("op", 0, "gauge", ("good",), {}, 1)
    shown = {
        sample.name
        for family in families([JobFigures(job="j", metrics=(bad, good))])
        for sample in family.samples
    }
    assert any("good" in name for name in shown)
    assert not any("bad" in name for name in shown)


def test_a_group_takes_no_label_that_is_prometheus_own():
    """Of a sample with two names Prometheus refuses the whole scrape."""
    named = MetricFigure("op", 0, "gauge", ("__name__", "mine", "level"), {"__name__": "mine"}, 1)
    [shown] = [each for each in families([JobFigures(job="j", metrics=(named,))]) if "level" in each.name]
    [sample] = shown.samples
    assert (sample.labels.get("__name__"), sample.labels["group___name__"]) == (None, "mine")


def test_operators_of_one_name_and_names_that_cannot_be_encoded_spoil_no_scrape(tmp_path: Path) -> None:
    name = "same \ud800"
    build = GraphBuilder(parallelism=1)
    keyed = [build.key_by(build.source(range(6), name=name), lambda value: value % 2) for _ in range(2)]
    for number, stream in enumerate(keyed):
        build.collect(build.process(stream, Measured(), name=name, uid=f"measured-{number}"))
    job = TestJob(tmp_path, Script(sizes=(3,)))
    job.run(build.graph())
    monitor = JobMonitor()
    twins = tuple(MetricFigure("op", 0, "gauge", (each,), {}, 1) for each in ("a.b", "a_b"))
    latest = job.coordinator._job.monitor.latest
    monitor.latest = replace(latest, metrics=(*latest.metrics, *twins))
    reporter = Reporter("127.0.0.1", 0, monitor)
    try:
        found = scraped(reporter.address)
    finally:
        reporter.close()
    for samples in found.values():
        assert len({frozenset(labels.items()) for labels, _ in samples}) == len(samples)
    read = found[PREFIX + "records_in_total"]
    assert [(labels["source"], value) for labels, value in read] == [("same \\ud800", 6)] * 2
    assert {labels["uid"] for labels, _ in found[PREFIX + "user_level"]} == {"measured-0", "measured-1"}
    assert len(found[PREFIX + "user_a_b"]) == 2


def test_a_port_that_is_being_closed_by_this_process_is_not_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    first = Reporter("127.0.0.1", port, JobMonitor("first"))
    closing = threading.Thread(target=first.close)
    closing.start()
    Reporter("127.0.0.1", port, JobMonitor("second")).close()
    closing.join()
