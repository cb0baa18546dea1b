"""The file of a commit to a Delta table: a line of JSON for each action, and in the engine's own commits their checksum.

Invariant: a commit of this engine with other actions than it wrote is an error of ``actions_of``. What the checksum is of is
in docs/table-format.md.
"""

from __future__ import annotations

import json
import uuid
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from changelog_engine.clock import wall_ms

CHECKSUM = "checksum"  # of a commit, among its operation's parameters
_ENGINE_INFO = "changelog-engine"

Action = dict[str, Any]
"""By its kind (``add``, ``remove``, ``commitInfo``, ...), what it says; see Delta's protocol."""


class FileStats(TypedDict, total=False):
    """Delta's statistics of a data file; of columns, by name."""

    numRecords: int
    minValues: dict[str, Any]
    maxValues: dict[str, Any]
    nullCount: dict[str, int]


@dataclass(frozen=True)
class AddFile:
    """A data file to add."""

    path: str  # relative to the table
    size: int  # bytes
    modification_time: int  # epoch milliseconds
    stats: FileStats = field(default_factory=FileStats)  # what Delta's readers choose files by


def commit_document(
    adds: Sequence[AddFile], removes: Sequence[str], metadata: dict[str, Any] | None
) -> bytes:
    """The bytes of a commit; no two are the same."""
    now_ms = wall_ms()
    actions: list[Action] = []
    for add in adds:
        actions.append(
            {
                "add": {
                    "path": add.path,
                    "partitionValues": {},
                    "size": add.size,
                    "modificationTime": add.modification_time,
                    "dataChange": True,
                    "stats": json.dumps(add.stats, separators=(",", ":")),
                }
            }
        )
    for path in removes:
        actions.append({"remove": {"path": path, "deletionTimestamp": now_ms, "dataChange": True}})
    lines = [json.dumps(action, separators=(",", ":")).encode() for action in actions]
    said = json.dumps(metadata or {})
    info = {
        "commitInfo": {
            "timestamp": now_ms,
            "operation": "WRITE",
            "operationParameters": {"mode": "Append", CHECKSUM: _checksum_of(lines, said)},
            "isBlindAppend": not removes,
            "engineInfo": _ENGINE_INFO,
            "txnId": str(uuid.uuid4()),  # no two commits are the same bytes: a writer knows its own
            "userMetadata": said,
        }
    }
    return b"\n".join([json.dumps(info, separators=(",", ":")).encode(), *lines])


def _checksum_of(lines: Iterable[bytes], metadata: str) -> str:
    """CRC-32, in hexadecimal, of a commit's lines in their order, but ``commitInfo``'s, and its ``userMetadata``."""
    found = zlib.crc32(metadata.encode())
    for line in lines:
        found = zlib.crc32(line, found)
    return f"{found:08x}"


def _lines(commit: bytes) -> list[bytes]:
    return [line for line in commit.splitlines() if line.strip()]


def is_of_this_engine(commit: bytes) -> bool:
    """Whether this engine wrote a commit, going by its first line, where it says so; see ``actions_of`` for the rest."""
    try:
        first = json.loads(commit.partition(b"\n")[0])
        return bool(first["commitInfo"]["engineInfo"] == _ENGINE_INFO)
    except (ValueError, KeyError, TypeError):
        return False


def actions_of(commit: bytes) -> list[Action]:
    """What a commit does.

    Args:
        commit: the bytes of its file.

    Raises:
        ValueError: they are not what its writer wrote; the message follows the file's name.
    """
    lines = _lines(commit)
    if not lines:
        raise ValueError("is empty")
    try:
        actions = [json.loads(line.decode()) for line in lines]  # of bytes it would take UTF-16, too
        intact = _is_intact(lines, actions)
    except ValueError as error:
        raise ValueError(f"is not JSON ({error})") from error
    except (AttributeError, TypeError) as error:
        raise ValueError("does not hold actions of a Delta table") from error
    if not intact:
        raise ValueError("has another checksum than its actions")
    return actions


def info_of(actions: Sequence[Action]) -> Action:
    """What a commit says of itself; empty where it says nothing."""
    return next((action["commitInfo"] for action in actions if "commitInfo" in action), {})


def metadata_of(actions: Sequence[Action]) -> dict[str, Any]:
    """The metadata that this engine gave a commit; empty where it gave none."""
    text = info_of(actions).get("userMetadata")
    said = json.loads(text) if isinstance(text, str) and text else {}
    return said if isinstance(said, dict) else {}


def _is_intact(lines: Sequence[bytes], actions: Sequence[Action]) -> bool:
    """Whether the actions are those that the writer took the checksum of; true for writers that took none."""
    for action in actions:
        info = action.get("commitInfo", {})
        wanted = (info.get("operationParameters") or {}).get(CHECKSUM)
        if wanted is not None:
            others = (line for line, other in zip(lines, actions, strict=True) if other is not action)
            return bool(wanted == _checksum_of(others, info.get("userMetadata", "")))
    return True
