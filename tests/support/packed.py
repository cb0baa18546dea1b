"""Jobs of tests whose parts are committed in packs: what subtasks of one machine that write at the same time make."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import pyarrow as pa

from changelog_engine.changelog.log_files import parse_part
from changelog_engine.changelog.model import Part
from changelog_engine.changelog.packs import packed_up
from changelog_engine.changelog.part_writer import PartWriter, SealedPart
from changelog_engine.ledger.committer import CheckpointCommitter
from changelog_engine.storage.protocol import Storage


@contextlib.contextmanager
def packing() -> Iterator[None]:
    """Put the parts of each checkpoint together before it is committed; their own files stay, as of a dead attempt."""
    inner = CheckpointCommitter.commit

    def commit(committer: CheckpointCommitter, checkpoint: Any, parts: Sequence[Part]) -> None:
        inner(committer, checkpoint, together(committer.folder.changelog, parts))

    with mock.patch.object(CheckpointCommitter, "commit", commit):
        yield


def together(storage: Storage, parts: Sequence[Part]) -> list[Part]:
    """Write parts that are files of their own as packs, stage by stage."""
    found: list[Part] = []
    for stage in sorted({part.stage for part in parts}):
        own = [part for part in parts if part.stage == stage]
        packs = {}
        for pack in packed_up([sealed(storage, part) for part in own]):
            storage.write_durable(pack.path, pack.data)
            packs |= {part.name: pack for part in pack.parts}
        for part in own:
            pack = packs.get(parse_part(part.path))
            found.append(part if pack is None else part._replace(path=pack.path, pack_size=pack.data.size))
    return found


def sealed(storage: Storage, part: Part) -> SealedPart:
    """A part that is a file of its own, as it was before it was written."""
    name = parse_part(part.path)
    assert name is not None
    bounds = (part.first_key_group, part.last_key_group)
    return SealedPart(name, part.rows, storage.read(part.path), part.first_sequence, bounds)


def sealed_part(folder: str, subtask: int, rows: int, attempt: int = 1, checkpoint: int = 3) -> SealedPart:
    """A part of rows of two states, which is written nowhere."""
    writer = PartWriter(
        folder,
        checkpoint_id=checkpoint,
        attempt=attempt,
        stage=1,
        subtask=subtask,
        number=1,
        first_sequence=0,
        key_groups=range(subtask, subtask + 1),
    )
    for state, count in (("n", rows - rows // 3), ("m", rows // 3)):
        columns = {
            "operator": f"count-{subtask % 2}",
            "state": state,
            "key": pa.array([f'"{subtask}-{number}"' for number in range(count)]),
            "key_group": pa.array([subtask] * count, pa.int32()),
            "operation": "put",
            "value": pa.array([str(number * 7 % 11) for number in range(count)]),
        }
        writer.write(count, columns)
    return writer.sealed()
