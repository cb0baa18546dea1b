"""What another process asks of the driver that runs a job: a small file in the job's folder, and one with the answer.

Invariants:
    * A request is taken once, by the driver that ran when it was made, while somebody waits for the answer; else removed.
    * A requester may write into the job's folder, as the driver may; nothing of a request is executed or unpickled.
    * What is not a request, or too large for one, is left alone.
    * The driver removes requests, the requester answers; the next driver to start removes what is left.
"""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from dataclasses import dataclass
from typing import Any, NamedTuple

from changelog_engine.clock import wall_s
from changelog_engine.errors import StorageError
from changelog_engine.graph.rescaling import Parallelism
from changelog_engine.ledger.job_folder import REQUESTS, JobFolder
from changelog_engine.ledger.ownership import DriverIdentity

_REQUEST = re.compile(r"([0-9a-f]{32})\.json")
_ANSWER = re.compile(r"[0-9a-f]{32}-answer\.json")
_MOST_BYTES = 64_000
_MOST = 100  # taken in one look
_FORMAT = 1
_RESCALE = "rescale"  # all that can be asked


class RescaleRequest(NamedTuple):
    """A request for another parallelism."""

    id: str  # names its file, and that of its answer
    parallelism: Parallelism | None  # what is asked for; None where something else is, as by a newer version


@dataclass(frozen=True)
class DriverAnswer:
    """What a driver says to a request."""

    done: bool
    text: str  # what was done, or why it was not


def make_request(
    folder: JobFolder, parallelism: Parallelism, driver: DriverIdentity, timeout_s: float
) -> str:
    """Ask the driver for another parallelism; returns the request's id.

    Args:
        driver: who runs the job, as far as can be seen; if nothing is known of it, whichever driver looks first.
    """
    identity = uuid.uuid4().hex
    folder.storage.make_dirs(REQUESTS)
    until_ms = int((wall_s() + timeout_s) * 1000)
    to = {"format": _FORMAT, "driver": [driver.pid, driver.since], "until_ms": until_ms}
    data = json.dumps({"what": _RESCALE, "parallelism": parallelism, **to}).encode()
    folder.storage.put_if_absent(f"{REQUESTS}/{identity}.json", data)
    return identity


def withdraw_request(folder: JobFolder, identity: str) -> bool:
    """Take a request back; returns whether no driver had taken it."""
    path = f"{REQUESTS}/{identity}.json"
    there = folder.storage.exists(path)
    folder.storage.delete(path)
    return there


def answer_to(folder: JobFolder, identity: str) -> DriverAnswer | None:
    """The answer to a request, which is removed; None while there is none."""
    path = _answer_path(identity)
    document = folder.storage.read_document(path)
    done, text = document.get("done"), document.get("text")
    if not isinstance(done, bool) or not isinstance(text, str):
        return None
    with contextlib.suppress(StorageError):  # the driver removes it in the end
        folder.storage.delete(path)
    return DriverAnswer(done, text)


def take_requests(folder: JobFolder, me: DriverIdentity, taken: set[str]) -> list[RescaleRequest]:
    """The requests that are there; they are removed.

    Args:
        me: this driver, as others see it.
        taken: ids of requests that were taken, and could not be removed; those of these are added.

    Returns:
        What each asks; requests to other drivers, and those for which nobody waits any more, are removed only.

    Raises:
        StorageError: the folder, or what is in it, cannot be read; what was taken is returned first.
    """
    unread: StorageError | None = None
    found: list[RescaleRequest] = []
    matches = [_REQUEST.fullmatch(entry.name) for entry in folder.storage.list(REQUESTS)]
    waiting = [match[1] for match in matches if match is not None and match[1] not in taken]
    for identity in waiting[:_MOST]:
        path = f"{REQUESTS}/{identity}.json"
        try:
            if not folder.storage.is_file(path) or (folder.storage.size(path) or 0) > _MOST_BYTES:
                continue
            document = folder.storage.read_document(path)
        except StorageError as error:
            unread = error
            continue
        taken.add(identity)
        with contextlib.suppress(StorageError):
            folder.storage.delete(path)
        if _for_me(document, me):
            wanted = document.get("parallelism")
            known = document.get("what") == _RESCALE and isinstance(wanted, int | dict)
            found.append(RescaleRequest(identity, wanted if known else None))
    if unread is not None and not found:
        raise unread
    return found


def _for_me(document: dict[str, Any], me: DriverIdentity) -> bool:
    """Whether a request is to this driver, and somebody waits for it."""
    until_ms, driver = document.get("until_ms"), document.get("driver")
    waits = isinstance(until_ms, int) and until_ms >= wall_s() * 1000
    return document.get("format") == _FORMAT and waits and driver in ([me.pid, me.since], [None, None])


def give_answer(folder: JobFolder, identity: str, answer: DriverAnswer) -> None:
    """Answer a request."""
    data = json.dumps({"done": answer.done, "text": answer.text[:_MOST_BYTES]}).encode()
    folder.storage.write_durable(_answer_path(identity), data)


def clear_requests(folder: JobFolder) -> None:
    """Remove requests to earlier drivers, and their answers: a waiting requester sees that the driver ended.

    Where nobody's sign of life was there, a request does not say which driver it is for: none may be left when the next one
    starts.
    """
    for entry in folder.storage.list(REQUESTS):
        if not entry.is_folder and (_ANSWER.fullmatch(entry.name) or _REQUEST.fullmatch(entry.name)):
            folder.storage.delete(f"{REQUESTS}/{entry.name}")


def _answer_path(identity: str) -> str:
    return f"{REQUESTS}/{identity}-answer.json"
