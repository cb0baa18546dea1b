"""Metrics for Prometheus: what the figures of this process's jobs look like when somebody scrapes them.

Invariants:
    * A scrape reads the newest snapshot of each job, in a thread of its own: however slow it is, no job waits for it.
    * A metric's name has one type, whatever functions call theirs.
    * No two samples have the same name and labels, and all text can be encoded: either would spoil the whole scrape.
"""

from __future__ import annotations

import contextlib
import errno
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from changelog_engine.config.observing_options import METRICS_HOST, METRICS_PORT
from changelog_engine.driver.figures import BUCKETS_MS, Histogram, JobFigures, JobMonitor
from changelog_engine.errors import ConfigurationError
from changelog_engine.event_time import moment_of
from changelog_engine.operators.metrics import MetricFigure
from changelog_engine.state.backend import TIMER_STATES

PREFIX = "changelog_engine_"
STATUSES = (
    "CREATED", "STARTING", "RESTORING", "RUNNING", "RESCALING", "RESTARTING", "FINISHED", "FAILED", "CANCELED",
)  # fmt: skip

# Name without prefix -> (type, what it says); counters and histograms get their suffixes when they are shown.
ENGINE_METRICS: dict[str, tuple[str, str]] = {
    "job_status": ("gauge", "1 for what the job does now, by status"),
    "records_in": ("counter", "Elements read, by source; again after a restart what is read again"),
    "records_out": ("counter", "Elements given to sinks"),
    "mutations": ("counter", "Rows of the changelog, by operator and state; a job without one tells none"),
    "epochs": ("gauge", "Number of the epoch in the attempt"),
    "epoch_seconds": ("counter", "Where the time of epochs went: read, process, encode, write, commit, wait"),
    "last_epoch_seconds": ("gauge", "How long the last epoch took"),
    "checkpoints": ("counter", "Checkpoints of this run"),
    "checkpoints_failed": ("counter", "Checkpoints that failed and were tolerated"),
    "checkpoint_duration_seconds": ("histogram", "From a checkpoint's barrier to the end of its commit"),
    "checkpoint_commit_seconds": ("histogram", "The commit of a checkpoint"),
    "last_checkpoint_id": ("gauge", "Number of the last checkpoint"),
    "last_checkpoint_timestamp_seconds": ("gauge", "When the barrier of the last checkpoint was"),
    "last_checkpoint_bytes": ("gauge", "Size of what the last checkpoint committed"),
    "last_checkpoint_rows": ("gauge", "Rows that the last checkpoint committed"),
    "uncovered_records": ("gauge", "Records read since the last checkpoint: a failure has them read again"),
    "restarts": ("counter", "How often the job failed and went on"),
    "materializations": ("counter", "Snapshots made beside the job"),
    "materializations_failed": (
        "counter",
        "Snapshots beside the job that failed; the next one does their work",
    ),
    "last_materialized_checkpoint_id": ("gauge", "Number of the checkpoint of the last snapshot"),
    "last_materialization_seconds": ("gauge", "How long the last snapshot took"),
    "restore_seconds": ("gauge", "Longest time in which a subtask took its state"),
    "source_records_behind": ("gauge", "Elements known to wait, by source"),
    "source_watermark_seconds": ("gauge", "Smallest watermark of a source's subtasks"),
    "stage_watermark_seconds": ("gauge", "Smallest watermark of a stage's subtasks"),
    "stage_busy_seconds": ("counter", "How long the busiest subtask of a stage worked"),
    "stage_share": ("gauge", "A stage's share of the last epoch's work; the largest is what others wait for"),
    "state_entries": ("gauge", "Keys with an entry, and timers, by operator and state"),
    "state_bytes": ("gauge", "About how large the state is, by operator and state"),
}

_servers: dict[tuple[str, int], _Endpoint] = {}
_servers_lock = threading.Lock()
_NOT_A_NAME = re.compile(r"[^a-zA-Z0-9_]")


class Reporter:
    """Shows one job's metrics. Close it when the job has ended.

    Args:
        host, port: where; one port serves all jobs of the process that name it. 0 takes any port that is free.

    Raises:
        ConfigurationError: the port cannot be had.
    """

    def __init__(self, host: str, port: int, monitor: JobMonitor) -> None:
        self._monitor = monitor
        self._place = host, port
        with _servers_lock:
            known = _servers.get(self._place)
            if known is None:
                known = _Endpoint(host, port)
                if port:
                    _servers[self._place] = known
            known.monitors.append(monitor)
        self._endpoint = known
        self.address = known.address

    def close(self) -> None:
        """Show the job no more; the last one closes the port."""
        with _servers_lock:
            self._endpoint.monitors.remove(self._monitor)
            if self._endpoint.monitors:
                return
            _servers.pop(self._place, None)
            self._endpoint.close()  # in the lock: whoever begins now would find the port taken


class _Endpoint:
    """An HTTP server and the jobs that it shows."""

    def __init__(self, host: str, port: int) -> None:
        self.monitors: list[JobMonitor] = []
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_JobsCollector(self.monitors))
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except (OSError, OverflowError) as error:
            taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
            why = "another program listens there" if taken else str(error)
            raise ConfigurationError(
                f"metrics can't be shown at {host}:{port}: {why.rstrip('.')}. Give {METRICS_PORT.key} another port, or "
                f"{METRICS_HOST.key} another address, or leave {METRICS_PORT.key} out to have no metrics"
            ) from error
        self.address = f"{host}:{self._server.server_port}"

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _JobsCollector(Collector):
    def __init__(self, monitors: list[JobMonitor]) -> None:
        self._monitors = monitors

    def collect(self) -> Iterable[Metric]:
        return families([monitor.latest for monitor in list(self._monitors)])


def families(jobs: Iterable[JobFigures]) -> list[Metric]:
    """All metrics of some jobs."""
    found = {name: Metric(PREFIX + name, doc, kind) for name, (kind, doc) in ENGINE_METRICS.items()}
    users: dict[str, Metric] = {}
    for figures in jobs:
        for name, labels, value in _samples(figures):
            suffix = "_total" if ENGINE_METRICS[name][0] == "counter" else ""
            found[name].add_sample(PREFIX + name + suffix, {"job": figures.job, **labels}, value)
        for name, histogram in (
            ("checkpoint_duration_seconds", figures.acknowledgements),
            ("checkpoint_commit_seconds", figures.commits),
        ):
            _add_histogram(found[name], {"job": figures.job}, histogram)
        for metric in figures.metrics:
            with contextlib.suppress(ArithmeticError, TypeError):  # no float, or a figure that failed
                _add_user_metric(users, figures.job, metric)
    shown = [*(family for family in found.values() if family.samples), *users.values()]
    return [_scrapable(family) for family in shown]


def _scrapable(family: Metric) -> Metric:
    """The family with text that can be encoded, and no two samples with the same name and labels."""
    made = Metric(family.name, _encodable(family.documentation), family.type)
    seen: dict[tuple[str, frozenset[tuple[str, str]]], int] = {}
    for sample in family.samples:
        labels = {name: _encodable(value) for name, value in sample.labels.items()}
        same = sample.name, frozenset(labels.items())
        seen[same] = seen.get(same, 0) + 1
        if seen[same] > 1:  # names of a function's metrics that differ in characters that Prometheus has not
            labels["same_name"] = str(seen[same])
        made.add_sample(sample.name, labels, sample.value)
    return made


def _encodable(text: str) -> str:
    """Text as it is; a lone surrogate as Python writes it."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _samples(now: JobFigures) -> Iterator[tuple[str, dict[str, str], float]]:
    """(name, labels without the job, value) of all but histograms; what is not known is left out."""
    yield from (("job_status", {"status": status}, float(status == now.status)) for status in STATUSES)
    for uid, source in now.sources.items():
        labels = {"source": source.name, "uid": uid}
        yield "records_in", labels, source.records
        yield from _known("source_records_behind", labels, source.behind)
        yield from _known("source_watermark_seconds", labels, _seconds(source.watermark))
    yield "records_out", {}, now.records_out
    yield from _by_state("mutations", now.mutations or {})
    yield "epochs", {}, now.epoch
    yield from (("epoch_seconds", {"part": part}, ms / 1000) for part, ms in now.times_ms.items())
    yield "last_epoch_seconds", {}, now.epoch_ms / 1000
    yield "checkpoints", {}, now.checkpoints
    yield "checkpoints_failed", {}, now.failed_checkpoints
    if now.checkpoint is not None:
        yield "last_checkpoint_id", {}, now.checkpoint.id
        yield "last_checkpoint_timestamp_seconds", {}, now.checkpoint.time_ms / 1000
        yield "last_checkpoint_bytes", {}, now.checkpoint.bytes
        yield "last_checkpoint_rows", {}, now.checkpoint.rows
    yield "uncovered_records", {}, now.uncovered
    yield "restarts", {}, now.restarts
    yield "materializations", {}, now.upkeep.done
    yield "materializations_failed", {}, now.upkeep.failed
    yield from _known("last_materialized_checkpoint_id", {}, now.upkeep.checkpoint)
    yield from _known("last_materialization_seconds", {}, now.upkeep.seconds)
    yield from _known("restore_seconds", {}, None if now.restored_ms is None else now.restored_ms / 1000)
    for uid, stage in now.stages.items():
        labels = {"stage": uid, "operators": ", ".join(stage.operators)}
        yield "stage_busy_seconds", labels, stage.busy_ms / 1000
        yield "stage_share", labels, stage.share
        yield from _known("stage_watermark_seconds", labels, _seconds(stage.watermark))
    for uid, states in now.sizes.items():
        for state, size in states.items():
            labels = {"operator": uid, "state": TIMER_STATES.get(state, state)}
            yield from _known("state_entries", labels, size.entries)
            yield from _known("state_bytes", labels, size.bytes)


def _known(
    name: str, labels: dict[str, str], value: float | None
) -> Iterator[tuple[str, dict[str, str], float]]:
    if value is not None:
        yield name, labels, value


def _by_state(
    name: str, counts: Mapping[str, Mapping[str, int]]
) -> Iterator[tuple[str, dict[str, str], float]]:
    for uid, states in counts.items():
        for state, count in states.items():
            yield name, {"operator": uid, "state": TIMER_STATES.get(state, state)}, count


def _seconds(watermark: int | None) -> float | None:
    """A watermark as Prometheus has moments; None where it shows none."""
    moment = moment_of(watermark)
    return None if moment is None else moment / 1000


def _add_histogram(family: Metric, labels: dict[str, str], histogram: Histogram) -> None:
    if not histogram.count:
        return
    bounds = [*(str(bound / 1000) for bound in BUCKETS_MS), "+Inf"]
    for bound, count in zip(bounds, histogram.counts, strict=True):
        family.add_sample(f"{family.name}_bucket", {**labels, "le": bound}, count)
    family.add_sample(f"{family.name}_count", labels, histogram.count)
    family.add_sample(f"{family.name}_sum", labels, histogram.sum_ms / 1000)


def _add_user_metric(families: dict[str, Metric], job: str, metric: MetricFigure) -> None:
    """One of a function's. Its counters may fall, so that they are gauges, as Flink reports them."""
    name = PREFIX + "user_" + "_".join(_plain(part) for part in _own_names(metric))
    labels = {"job": job, "operator": metric.operator, "uid": metric.uid, "subtask": str(metric.subtask)}
    for key, value in metric.variables.items():
        plain = _plain(key)
        # Names that begin with __ are Prometheus's own: a second __name__ spoils the whole scrape.
        taken = plain in labels or plain[:1].isdigit() or plain.startswith("__")
        labels[f"group_{plain}" if taken else plain] = value
    doc = f"{metric.kind} {'.'.join(metric.names)} of user functions"
    figure = metric.figure
    if metric.kind == "meter":
        for part in ("rate", "count"):
            _add(families, f"{name}_{part}", "gauge", doc, labels, figure[part])
    elif metric.kind == "distribution":
        family = _family(families, name, "summary", doc)
        family.add_sample(f"{family.name}_count", labels, figure["count"])
        family.add_sample(f"{family.name}_sum", labels, figure["sum"])
        for part in ("min", "max"):
            _add(families, f"{family.name}_{part}", "gauge", doc, labels, figure[part])
    else:
        _add(families, name, "gauge", doc, labels, figure)


def _add(
    families: dict[str, Metric], name: str, kind: str, doc: str, labels: dict[str, str], value: Any
) -> None:
    # Of a gauge that failed, or that shows words, there is nothing to see.
    if isinstance(value, (int, float)):
        family = _family(families, name, kind, doc)
        family.add_sample(family.name, labels, float(value))


def _family(families: dict[str, Metric], name: str, kind: str, doc: str) -> Metric:
    known = families.setdefault(name, Metric(name, doc, kind))
    return known if known.type == kind else _family(families, f"{name}_{kind}", kind, doc)


def _own_names(metric: MetricFigure) -> list[str]:
    """The names without the pairs of key-value groups, which are labels."""
    names, own = list(metric.names), []
    while names:
        first = names.pop(0)
        if len(names) > 1 and metric.variables.get(first) == names[0]:
            names.pop(0)
        else:
            own.append(first)
    return own


def _plain(name: str) -> str:
    return _NOT_A_NAME.sub("_", name)
