"""A source that pauses: half of its numbers come at once, the rest when a file appears."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from api.common import Types
from changelog_engine.connectors.protocols import Range, Source, Split, SplitReader


class GatedSource(Source, SplitReader):
    """The numbers 0 to 199; from 100 on they wait for the gate.

    Args:
        gate: path of the file that opens it.
    """

    bounded = True
    parallel = False
    output_type: Any = Types.LONG()
    half, end = 100, 200

    def __init__(self, gate: Path) -> None:
        self.gate = str(gate)

    def splits(self, parallelism: int) -> list[Split]:
        return [Split("gate", 0)]

    def reader(self, split: Split) -> GatedSource:
        return self

    def read(self, position: int, max_records: int) -> Range:
        limit = self.end if Path(self.gate).exists() else self.half
        to = min(limit, position + max_records)
        return Range(list(range(position, to)), to, to == self.end)
