"""The configuration of one subtask's store, as most tests of stores want it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from changelog_engine.operators.store_config import StoreConfig
from changelog_engine.types import Types


def store_config(
    folder: Path | str | None, operator: str = "op", groups: int = 128, **others: Any
) -> StoreConfig:
    """The configuration of the only subtask of an operator whose keys are STRING.

    Args:
        folder: of the table; None for a store that logs nothing.
        operator: uid.
        groups: how many key groups there are.
        others: fields that are to be otherwise.
    """
    config = StoreConfig(
        folder=None if folder is None else str(folder),
        changelog=folder is not None,
        stage=1,
        subtask=0,
        key_groups=range(groups),
        key_type=Types.STRING(),
        timed=False,
        max_parallelism=groups,
        part_max_bytes=1 << 20,
        operators=frozenset([operator]),
    )
    return replace(config, **others)
