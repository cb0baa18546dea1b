"""The keys that somebody asks about, and what the log has of them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from changelog_engine.changelog.model import Checkpoint
from changelog_engine.changelog.row_filter import OfKeys
from changelog_engine.changelog.segments import ids_after
from changelog_engine.codec.keys import KeyIdentity, key_codec_for
from changelog_engine.errors import ChangelogEngineError, RestoreError
from changelog_engine.graph.descriptions import key_type_of, keyed_operators
from changelog_engine.graph.key_groups import key_group
from changelog_engine.inspection.states import no_such_key
from changelog_engine.inspection.values import key_identities
from changelog_engine.ledger.described import described_operator
from changelog_engine.ledger.job_folder import JobFolder
from changelog_engine.ledger.ledger import Ledger, plan_restore
from changelog_engine.ledger.reading import read_suffix
from changelog_engine.replay.recorded import RecordedRange
from changelog_engine.state.backend import logged_name
from changelog_engine.types import TypeInformation

_WINDOWS = (1, 8, 64)  # checkpoints that are looked through for the key's last change; then all


class WantedKey(NamedTuple):
    """A key of one operator."""

    operator: str  # uid
    identity: Any
    text: str  # as the log has it
    group: int


class ComparedRows(NamedTuple):
    """The rows of the log that a replay must have alike."""

    whole: frozenset[str]
    narrow: dict[str, WantedKey]  # wanted keys of other operators, by operator

    def recorded(self, history: RecordedRange) -> dict[int, list[pa.Table]]:
        """Those of the log, by checkpoint."""
        found: dict[int, list[pa.Table]] = {row.id: [] for row in history.checkpoints}
        whole = self.whole & {each.uid for each in keyed_operators(history.end.operators)}
        if whole:
            for number, tables in history.mutations(operators=whole).items():
                found[number] += tables
        for wanted in self.narrow.values():
            groups = range(wanted.group, wanted.group + 1)
            for number, tables in history.mutations(groups, frozenset((wanted.operator,))).items():
                found[number] += [_of_key(table, wanted) for table in tables]
        return found

    def among(self, table: pa.Table) -> pa.Table:
        """Those of a table."""
        mask = pc.is_in(table["operator"].cast(pa.string()), pa.array(sorted(self.whole), pa.string()))
        for wanted in self.narrow.values():
            mask = pc.or_(mask, _is_of_key(table, wanted))
        return table.filter(mask)


def _of_key(table: pa.Table, wanted: WantedKey) -> pa.Table:
    return table.filter(_is_of_key(table, wanted))


def _is_of_key(table: pa.Table, wanted: WantedKey) -> pa.ChunkedArray:
    return pc.and_(
        pc.equal(table["operator"].cast(pa.string()), wanted.operator),
        pc.equal(table["key"].cast(pa.string()), wanted.text),
    )


class KeyRows:
    """The log's rows of wanted keys, up to the last checkpoint that matters."""

    def __init__(self, folder: JobFolder, end: Checkpoint) -> None:
        self._folder = folder
        self._end = end

    def last_change(self, wanted: list[WantedKey], state: str | None) -> int:
        """The newest checkpoint that changed one of the keys."""
        ledger = Ledger(self._folder.open_changelog())
        begin = ledger.oldest(self._end).checkpoint  # what was before is not there any more
        ids = list(ids_after(self._end.lineage, begin or 0))
        looked = 0
        for size in (*_WINDOWS, len(ids)):
            if looked >= len(ids):
                break
            after = begin if size >= len(ids) else ids[-size - 1]
            looked = size
            found = [
                pc.max(table["checkpoint_id"]).as_py()
                for each in wanted
                for table in self._tables(each, self._end, after, state)
                if table.num_rows
            ]
            if found:
                return int(max(found))
        where = "" if state is None else f" in state {state!r}"
        since = "" if begin is None else f" after checkpoint {begin}, with whose snapshot it begins, and"
        raise RestoreError(
            f"the log has no mutation of the key {wanted[0].text}{where}{since} up to checkpoint {self._end.id}; "
            "changelog-engine state PATH shows which keys there are"
        )

    def of(self, wanted: list[WantedKey], history: RecordedRange) -> set[WantedKey]:
        """Which of the keys have mutations in a range."""
        return {
            each
            for each in wanted
            if any(table.num_rows for table in self._tables(each, history.end, history.start_id, None))
        }

    def _tables(
        self, wanted: WantedKey, end: Checkpoint, after: int | None, state: str | None
    ) -> Iterable[pa.Table]:
        tables = read_suffix(
            plan_restore(self._folder, end),
            after,
            range(wanted.group, wanted.group + 1),
            frozenset((wanted.operator,)),
            wanted=OfKeys(wanted.group, [wanted.text]),
        )
        for table in tables:
            if state is None:
                yield table
            else:
                yield table.filter(pc.equal(table["state"].cast(pa.string()), logged_name(state)))


def wanted_keys(checkpoint: Checkpoint, key: Any, operator: str | None) -> list[WantedKey]:
    """What the key may be, of each operator with state."""
    everywhere = keyed_operators(checkpoint.operators)
    known = everywhere if operator is None else [described_operator(checkpoint, operator)]
    found = []
    for each in known:
        key_type = key_type_of(each)
        for identity in _identities(key, key_type):
            text = key_codec_for(key_type).texts([identity])[0].as_py()
            group = key_group(identity, each.max_parallelism)
            found.append(WantedKey(each.uid, identity, text, group))
    if not found:
        raise no_such_key(shown_key(key), known)
    return found


def _identities(key: Any, key_type: TypeInformation | None) -> list[KeyIdentity]:
    """What the key may be in a type, as text all that this may mean; nothing where it is not a key of the type."""
    if isinstance(key, str):
        return key_identities(key, key_type)
    with suppress(ChangelogEngineError, TypeError, ValueError):
        return [key_codec_for(key_type).identity(key)]
    return []


def shown_key(key: Any) -> str:
    """A key, or a position, in words."""
    return key if isinstance(key, str) else repr(key)
