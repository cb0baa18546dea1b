"""Commits of others to the engine's own Delta tables: which of them may stand.

The rule: since the newest commit of this engine, the rows of a table are the same. What others commit may put them into
other files (OPTIMIZE) where those are not found by their names, change properties, or be undone again by a RESTORE; an
UPDATE, a DELETE, an INSERT or a RESTORE to an older version is refused: when the list of files is read, and before a commit.

Invariants:
    * No commit of this engine follows a foreign one that was not looked at, so nobody looks further back than to the newest
      of its own: mostly that is the newest of all.
    * An error names the commit, what it was and who made it, and how to undo it.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator
from typing import NamedTuple

from changelog_engine.errors import CorruptChangelogError
from changelog_engine.readable import counted, iso
from changelog_engine.storage.delta_actions import Action, actions_of, info_of, is_of_this_engine
from changelog_engine.storage.delta_damage import damaged
from changelog_engine.storage.delta_names import SNAPSHOTS, commit_path
from changelog_engine.storage.protocol import Storage

_LOG = logging.getLogger("changelog_engine")
_GONE = "gone"


class _Commit(NamedTuple):
    version: int
    actions: list[Action]


def refuse_changed_rows(storage: Storage, version: int) -> None:
    """Refuse a table to which somebody else gave other rows than this engine's newest commit left.

    Raises:
        CorruptChangelogError: names the first commit that did, or one that is damaged.
    """
    commits = list(_since_our_own(storage, version))[::-1]
    files = _Files(by_name=storage.root.endswith(f"/{SNAPSHOTS}"))
    same, first = version - len(commits), None  # the newest version with the rows of our own commit
    for commit in commits:
        if files.take(commit.actions):
            same, first = commit.version, None
        elif first is None:
            first = commit
    if first is not None:
        raise _refusal(storage, first, same)


def has_own_commit(storage: Storage, version: int) -> bool:
    """Whether this engine committed to a table, going by the commits that are there."""
    commits = list(_since_our_own(storage, version))
    return len(commits) <= version and storage.exists(commit_path(version - len(commits)))


def _since_our_own(storage: Storage, version: int) -> Iterator[_Commit]:
    """The commits since the newest of this engine, the newest first."""
    for number in range(version, -1, -1):
        path = commit_path(number)
        try:
            data = storage.read(path).to_pybytes()
        except FileNotFoundError:
            if number < version:  # behind the newest Delta checkpoint, which somebody made of theirs
                _LOG.warning(
                    "%s is gone, and others committed after it: what they did to %s before that cannot be looked at",
                    storage.join(path), storage.root,
                )  # fmt: skip
            return
        if is_of_this_engine(data):
            return
        try:
            actions = actions_of(data)
        except ValueError as error:
            raise damaged(storage, storage.join(path), str(error)) from error
        if number == 0 and not any("add" in action for action in actions):
            return  # as delta-rs makes an empty table for this engine
        yield _Commit(number, actions)


class _Files:
    """How the files of a table differ from those of a version whose rows are known to be right.

    Args:
        by_name: rows are found by the names of their files, so other files cannot hold them.
    """

    def __init__(self, by_name: bool) -> None:
        self._by_name = by_name
        self._changed: dict[str, str] = {}  # path -> _GONE, or of a new one its deletion vector
        self._same = {frozenset(self._changed.items())}  # differences that leave the rows what they were

    def take(self, actions: list[Action]) -> bool:
        """Go on to the next version, and tell whether it has the rows of the first one."""
        before = self._difference()
        for path in [action["remove"]["path"] for action in actions if "remove" in action]:
            if self._changed.pop(path, _GONE) == _GONE:
                self._changed[path] = _GONE
        for add in [action["add"] for action in actions if "add" in action]:
            vector = str(add.get("deletionVector") or "")
            if self._changed.pop(add["path"], None) != _GONE or vector:
                self._changed[add["path"]] = vector
        changes = [action[kind] for action in actions for kind in ("add", "remove") if kind in action]
        others = any(self._by_name or change.get("dataChange", True) for change in changes)
        if before in self._same and not others:
            self._same.add(self._difference())
        return self._difference() in self._same

    def _difference(self) -> frozenset[tuple[str, str]]:
        return frozenset(self._changed.items())


def _refusal(storage: Storage, commit: _Commit, same: int) -> CorruptChangelogError:
    info = info_of(commit.actions)
    removed, added = (sum(kind in action for action in commit.actions) for kind in ("remove", "add"))
    when = f" at {iso(info['timestamp'])}" if isinstance(info.get("timestamp"), int) else ""
    by = f" by {info['engineInfo']}" if info.get("engineInfo") else ""
    folder = shlex.quote(storage.root.rpartition("/")[0])
    return CorruptChangelogError(
        f"was committed by somebody else: {info.get('operation', 'an unnamed operation')}{by}{when}. It takes "
        f"{counted(removed, 'file')} from {storage.root} and adds {counted(added, 'file')}, and what this engine wrote "
        "is not to be found there any more. Nothing was changed since. Stop the job if it runs, then undo it: in Spark SQL "
        f"by RESTORE TABLE delta.`{storage.root}` TO VERSION AS OF {same}, or, if files were vacuumed or Spark is not at "
        f"hand, by `changelog-engine verify {folder} --repair`, which says from which checkpoint the job can go on. To "
        "have an earlier state, undo it likewise and set changelog.restore",
        storage.join(commit_path(commit.version)),
    )
