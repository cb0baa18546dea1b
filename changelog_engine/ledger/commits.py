"""Whether the commits of a table are what somebody wrote: an empty or cut one would pass for one commit less."""

from __future__ import annotations

import hashlib

from changelog_engine.changelog.log_files import SNAPSHOT
from changelog_engine.changelog.rows import ATTEMPT, CHECKPOINT
from changelog_engine.config.names import names_of
from changelog_engine.errors import CorruptChangelogError
from changelog_engine.storage.delta_actions import Action, actions_of, metadata_of
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.delta_names import commit_path

_ACTIONS = names_of(
    "add remove commitInfo metaData protocol txn cdc domainMetadata checkpointMetadata sidecar"
)

# Hashes of commits that were found good, and the beginning of the name of the row that each adds: a start looks at each of
# them several times.
_PASSED: dict[bytes, str] = {}
_MOST_PASSED = 10_000


def check_commits(log: DeltaLog) -> dict[str, tuple[str, str]]:
    """Look at a table's commits: every line is an action, what one says is in it, and no two are the same.

    Behind the newest on local disks only: object stores keep checksums of their own, and reading each commit from there
    would take long.

    Returns:
        Of each kind of row the newest commit that adds one, and the beginning of that row's name, as far as it was looked.

    Raises:
        CorruptChangelogError: one isn't what somebody wrote; names the commit's file.
    """
    newest: dict[str, tuple[str, str]] = {}
    oldest = (
        log.version if log.storage.keeps_checksums else min(log.version, log.last_checkpoint_version() + 1)
    )
    seen: dict[bytes, str] = {}  # by hash: commits of wide jobs are large
    for version in range(log.version, oldest - 1, -1):
        path = commit_path(version)
        try:
            data = log.storage.read(path).to_pybytes()
        except FileNotFoundError:
            return newest  # cleaned up behind a Delta checkpoint
        identity = hashlib.sha256(data).digest()
        if identity not in _PASSED:
            said = _check(log.storage.join(path), data)
            if len(_PASSED) >= _MOST_PASSED:
                _PASSED.clear()
            _PASSED[identity] = said
        newest.setdefault(_PASSED[identity].partition("-")[0], (log.storage.join(path), _PASSED[identity]))
        copy = seen.setdefault(identity, path)
        if copy is not path:  # each has an id of its own
            raise CorruptChangelogError(
                f"is the same as {path}: one of them was damaged, and what it added is not in the table's list of files. "
                "Put the file back from a copy",
                log.storage.join(copy),
            )
    return newest


def _check(full: str, data: bytes) -> str:
    try:
        actions = actions_of(data)
    except ValueError as error:
        raise CorruptChangelogError(
            f"{error}: this commit was damaged, and with it what it added", full
        ) from error
    try:
        unknown = [name for action in actions for name in action if name not in _ACTIONS]
        added = [action["add"]["path"] for action in actions if "add" in action]
        said = _said(actions)
        missing = [prefix for prefix in said if not any(path.startswith(prefix) for path in added)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptChangelogError(f"is not a commit: it was damaged ({error!r})", full) from error
    if unknown:  # Delta's readers pass over actions that they don't know
        raise CorruptChangelogError(f"was damaged: {unknown[0]!r} is not an action of a Delta table", full)
    if missing:
        raise CorruptChangelogError(f"was damaged: it says that it adds {missing[0]}..., and does not", full)
    return said[0] if said else ""


def _said(actions: list[Action]) -> list[str]:
    """Beginnings of the names of rows that a commit says to add, when this engine wrote it."""
    said = metadata_of(actions)
    for operation in (CHECKPOINT, SNAPSHOT):
        if operation in said and ATTEMPT in said:
            return [f"{operation}-{said[operation]}-{said[ATTEMPT]}-"]
    return [f"{ATTEMPT}-{said[ATTEMPT]}-"] if ATTEMPT in said else []
