"""A sink that writes documents by bulk requests: at least once.

Invariants:
    * What came before a barrier is in the cluster when the checkpoint is made.
    * An action that was refused is sent again, together with the later ones of the same document, or fails the job.
    * What waits to be sent is bounded.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from changelog_engine.clock import monotonic_s
from changelog_engine.connectors.collecting import CollectingWriter, to_send_again
from changelog_engine.connectors.elasticsearch.cluster import Cluster, MayPassError, Refusal, TooLargeError
from changelog_engine.connectors.elasticsearch.documents import Action, Emitter
from changelog_engine.connectors.elasticsearch.options import BulkOptions, ClusterOptions
from changelog_engine.connectors.packages import ELASTICSEARCH
from changelog_engine.connectors.protocols import CommittingSink, SinkContext
from changelog_engine.connectors.reconnecting import Trouble
from changelog_engine.connectors.still_ours import check_still_ours
from changelog_engine.types.typeinfo import cut

LARGEST_REQUEST = 50_000  # actions, where no bound is asked for
LARGEST_REQUEST_BYTES = 32 << 20
_SHOWN_CHARS = 300


@dataclass(eq=False, repr=False)
class ElasticsearchSink(CommittingSink):
    """Writes elements as documents.

    Raises:
        ConfigurationError: urllib3 is not installed.
    """

    emitter: Emitter
    cluster: ClusterOptions
    bulk: BulkOptions

    def __post_init__(self) -> None:
        ELASTICSEARCH.load()

    def check_before_start(self) -> None:
        """Raise when the cluster does not answer or refuses the login, or a mapping type is asked for that it has not."""
        with contextlib.closing(Cluster(self.cluster)) as cluster:
            try:
                self.emitter.type_for(cluster.product())
            except MayPassError as error:
                advice = "start the cluster, or give its address by set_hosts()"
                raise cluster.failure(f"{error}; {advice}") from None

    def committing_writer(self, context: SinkContext) -> ElasticsearchWriter:
        return ElasticsearchWriter(self)


class ElasticsearchWriter(CollectingWriter):
    """Collects documents, and sends them when they are enough, old enough, or a barrier comes."""

    def __init__(
        self,
        sink: ElasticsearchSink,
        clock: Callable[[], float] = monotonic_s,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        bulk = sink.bulk
        super().__init__(None if bulk.interval_ms < 0 else bulk.interval_ms / 1000, clock)
        self._emitter = sink.emitter
        self._bulk = bulk
        self._most = LARGEST_REQUEST if bulk.max_actions < 0 else bulk.max_actions
        self._most_bytes = LARGEST_REQUEST_BYTES if bulk.max_size_bytes < 0 else bulk.max_size_bytes
        self._sleep = sleep
        self._cluster = Cluster(sink.cluster)
        self._trouble = Trouble(f"Elasticsearch ({sink.cluster.shown})", clock)
        self._doc_type = self._retried(lambda: self._emitter.type_for(self._cluster.product()))

    def write(self, values: Sequence[Any]) -> None:
        emit, doc_type = self._emitter.action, self._doc_type
        for value in values:
            action = emit(value, doc_type)
            if not self._waiting:
                self._oldest_s = self._clock()
            self._waiting.append(action)
            self._size_bytes += len(action.lines)
            if len(self._waiting) >= self._most or self._size_bytes >= self._most_bytes:
                self._flush()
        self.end_epoch()

    def close(self) -> None:
        super().close()
        self._cluster.close()

    def _send(self, actions: Sequence[Action]) -> None:
        """Send actions until all are carried out.

        Raises:
            ConnectorError: one is refused for good, or too often.
        """
        tried = 0
        while actions:
            check_still_ours()
            try:
                refusals = self._cluster.bulk(actions)
                trouble = self._checked(actions, refusals)
                actions = to_send_again(actions, {each.position for each in refusals}, _document)
            except TooLargeError:
                self._send_halves(actions)
                return
            except MayPassError as error:
                trouble = f"a bulk request of {len(actions)} actions failed: {error}"
            tried += 1
            if actions:
                self._wait(tried, trouble)
        self._trouble.over()

    def _send_halves(self, actions: Sequence[Action]) -> None:
        if len(actions) == 1:
            raise self._cluster.refused(
                f"{_named(actions[0])} is too large: {len(actions[0].lines)} bytes are more than the cluster takes in one "
                "request (http.max_content_length)"
            )
        half = len(actions) // 2
        self._send(actions[:half])
        self._send(actions[half:])

    def _checked(self, actions: Sequence[Action], refusals: Sequence[Refusal]) -> str:
        """What to say of refusals that may pass.

        Raises:
            ConnectorError: one that will not.
        """
        for refusal in refusals:
            if not refusal.may_pass:
                raise self._cluster.refused(
                    _refused(actions, refusal, refusals), f"status {refusal.status}: {refusal.reason}"
                )
        return _refused(actions, refusals[0], refusals) if refusals else ""

    def _retried(self, ask: Callable[[], str | None]) -> str | None:
        tried = 0
        while True:
            try:
                found = ask()
                self._trouble.over()
                return found
            except MayPassError as error:
                tried += 1
                self._wait(tried, str(error))

    def _wait(self, tried: int, trouble: str) -> None:
        if tried >= self._bulk.tries:
            often = f" ({tried} times)" if tried > 1 else ""
            advice = "" if tried > 1 else "; set_bulk_flush_backoff_strategy() lets it be tried again"
            raise self._cluster.failure(f"{trouble}{often}{advice}")
        self._trouble.again(str(self._cluster.failure(trouble)))
        self._sleep(self._bulk.wait_s(tried))


def _refused(actions: Sequence[Action], refusal: Refusal, refusals: Sequence[Refusal]) -> str:
    """Which action was refused, and why."""
    action = actions[refusal.position]
    others = f"; so were {len(refusals) - 1} more of {len(actions)}" if len(refusals) > 1 else ""
    return f"{_named(action)} was refused with status {refusal.status}: {refusal.reason}{others}. It is {_shown(action)}"


def _document(action: Action) -> tuple[str, str] | None:
    return None if action.id is None else (action.index_name, action.id)


def _named(action: Action) -> str:
    which = "a document without an id" if action.id is None else f"document {action.id!r}"
    return f"{which} for index {action.index_name!r}"


def _shown(action: Action) -> str:
    text = action.lines.split(b"\n", 2)[1][: 4 * _SHOWN_CHARS].decode(errors="replace")
    return cut(text, _SHOWN_CHARS)
