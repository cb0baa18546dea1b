"""Requests to a cluster.

Invariants:
    * Every item of a bulk response is looked at: a status of 200 says nothing about the documents.
    * What an ingest pipeline drops is told once: the cluster answers as if all were well.
    * No message has the password.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from changelog_engine.connectors.elasticsearch.documents import Action, Product
from changelog_engine.connectors.elasticsearch.options import ClusterOptions
from changelog_engine.connectors.packages import ELASTICSEARCH
from changelog_engine.errors import ConnectorError, RefusedForGoodError
from changelog_engine.graph.subtask_warnings import warn
from changelog_engine.types.typeinfo import cut

_BUSY = 429
_CONFLICT = 409
_TOO_LARGE = 413
_LOGIN = (401, 403)
_SHOWN_CHARS = 500


class MayPassError(Exception):
    """A request failed for a reason that may pass: nobody answers, or the cluster is busy."""


class TooLargeError(Exception):
    """A request is larger than the cluster takes."""


class Refusal(NamedTuple):
    """What the cluster said of an action that it did not carry out."""

    position: int
    status: int  # HTTP's
    reason: str  # the cluster's words

    @property
    def may_pass(self) -> bool:
        """Whether the same action may succeed later."""
        return self.status == _CONFLICT or _may_pass(self.status)


class Cluster:
    """A connection to a cluster, in one process.

    Raises:
        ConfigurationError: urllib3 is not installed.
    """

    def __init__(self, options: ClusterOptions) -> None:
        self._options = options
        self._http = ELASTICSEARCH.load()
        timeout = self._http.Timeout(
            connect=options.connect_timeout_ms / 1000, read=options.socket_timeout_ms / 1000
        )
        self._pools = self._http.PoolManager(
            num_pools=len(options.hosts), retries=False, timeout=timeout, maxsize=1
        )
        self._headers = {"Accept": "application/json"}
        if options.user is not None:
            login = f"{options.user}:{options.password or ''}".encode()
            self._headers["Authorization"] = "Basic " + base64.b64encode(login).decode()
        self._first = 0  # the host that answered last
        self._said_dropped = False

    def product(self) -> Product:
        """The product that answers, and its version.

        Raises:
            MayPassError: no host answers.
            ConnectorError: what answers is neither.
        """
        answer = self._request("GET", "/", None, None)
        version = answer.get("version")
        if not isinstance(version, dict) or "number" not in version:
            raise self.failure(f"what answers there is neither Elasticsearch nor OpenSearch: {_cut(answer)}")
        return Product(str(version.get("distribution", "elasticsearch")), str(version["number"]))

    def bulk(self, actions: Sequence[Action]) -> list[Refusal]:
        """Carry out actions; returns those that were not carried out, by position.

        Raises:
            MayPassError: the request failed; how much of it was carried out is not known.
            TooLargeError: nothing of it was.
            ConnectorError: it was refused for good, or the response is not that of a bulk request.
        """
        body = b"".join([action.lines for action in actions])
        answer = self._request("POST", "/_bulk", body, "application/x-ndjson")
        items = answer.get("items")
        if not isinstance(items, list) or len(items) != len(actions):
            found = f"{len(items)} results" if isinstance(items, list) else "no results"
            raise self.failure(
                f"a bulk request of {len(actions)} actions was answered with {found}: {_cut(answer)}"
            )
        refusals, dropped = [], []
        for position, item in enumerate(items):
            (result,) = item.values()
            if not 200 <= result["status"] < 300:
                refusals.append(Refusal(position, result["status"], _reason(result.get("error"))))
            elif result.get("result") == "noop" and result["_version"] < 0:  # one that is there has a version
                dropped.append(actions[position])
        if dropped and not self._said_dropped:
            self._said_dropped = True
            warn(
                f"dropped from {dropped[0].index_name!r}",
                "%s",
                self.failure(
                    f"an ingest pipeline of index {dropped[0].index_name!r} dropped {len(dropped)} of {len(actions)} "
                    "documents, and the cluster says so of none: nothing of them is stored. See the index's settings "
                    "default_pipeline and final_pipeline"
                ),
            )
        if answer.get("errors") and not refusals:
            raise self.failure(f"a bulk response says that it has errors, and shows none: {_cut(answer)}")
        return refusals

    def close(self) -> None:
        """Let go of the connections."""
        self._pools.clear()

    def failure(self, what: str) -> ConnectorError:
        """An error that names the cluster, for what may pass."""
        return ConnectorError(f"Elasticsearch ({self._options.shown}): {what}")

    def refused(self, what: str, reason: str = "") -> RefusedForGoodError:
        """An error that names the cluster, for what it would refuse again.

        Args:
            reason: see RefusedForGoodError.
        """
        return RefusedForGoodError(str(self.failure(what)), reason)

    def _request(
        self, method: str, path: str, body: bytes | None, content_type: str | None
    ) -> dict[str, Any]:
        headers = self._headers if content_type is None else {**self._headers, "Content-Type": content_type}
        hosts, troubles = self._options.hosts, []
        for step in range(len(hosts)):
            at = (self._first + step) % len(hosts)
            url = hosts[at] + self._options.path_prefix + path
            try:
                response = self._pools.request(method, url, body=body, headers=headers)
            except self._http.exceptions.HTTPError as error:
                troubles.append(f"{hosts[at]}: {error}")
                continue
            self._first = at
            return self._answer(response, method, path)
        raise MayPassError(f"no host answers ({'; '.join(troubles)})")

    def _answer(self, response: Any, method: str, path: str) -> dict[str, Any]:
        status = response.status
        if status == _TOO_LARGE:
            raise TooLargeError
        if _may_pass(status):
            raise MayPassError(f"{method} {path} was answered with status {status}: {_cut(response.data)}")
        if status in _LOGIN:
            who = "without a user" if self._options.user is None else f"as user {self._options.user!r}"
            raise self.refused(
                f"{method} {path} {who} was refused with status {status}: {_cut(response.data)}. Give a user that may "
                "write by set_connection_username() and set_connection_password()"
            )
        try:
            answer = json.loads(response.data)
        except ValueError:
            answer = None
        if status >= 400:
            raise self.refused(f"{method} {path} was answered with status {status}: {_cut(response.data)}")
        if not 200 <= status < 300 or not isinstance(answer, dict):
            raise self.failure(f"{method} {path} was answered with status {status}: {_cut(response.data)}")
        return answer


def _may_pass(status: int) -> bool:
    return status == _BUSY or status >= 500


def _reason(error: Any) -> str:
    """The cluster's words for an error, with those for its cause."""
    if not isinstance(error, dict):
        return _cut(error)
    words = f"{error.get('type')}: {error.get('reason')}"
    cause = error.get("caused_by")
    return f"{words} ({_reason(cause)})" if isinstance(cause, dict) else words


def _cut(what: Any) -> str:
    text = what.decode(errors="replace") if isinstance(what, bytes) else str(what)
    return cut(text, _SHOWN_CHARS)
