"""Restores as the workers of a job do them, and materializations, in a process of their own that knows its memory.

``python restoring.py restore BACKEND TIMES FOLDER ...`` restores every subtask of the newest checkpoint of each made log
into ``hashmap`` or ``rocksdb``, one after the other on one core, so many times in turn. ``python restoring.py materialize
FOLDER`` makes a snapshot. ``python restoring.py recover CHANGED FOLDER`` restores the first subtask, and again by local
recovery after so many keys changed. The last line printed is the result as JSON.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

from changelog_engine.changelog.small_state import SmallState
from changelog_engine.graph.key_groups import key_group_range
from changelog_engine.graph.nodes import JobSettings, StateKind, StateSpec
from changelog_engine.ledger.job_folder import JobFolder, find_job_folder
from changelog_engine.ledger.ledger import plan_restore
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.operators.kept_state import KeptState
from changelog_engine.operators.messages import EpochKind, EpochOrder
from changelog_engine.operators.store import KeyedStore
from changelog_engine.operators.store_config import StoreConfig
from changelog_engine.state.backends import open_backend
from changelog_engine.types import Types
from keyed_count import report
from made_logs import GROUPS, SUBTASKS
from materializer.materialize import materialize
from materializer.processes import FoldProcesses

SPEC = StateSpec("count", StateKind.VALUE, Types.LONG())


def config_of(folder: JobFolder, subtask: int, local_recovery: bool = False) -> StoreConfig:
    """Of the store of a subtask."""
    return StoreConfig(
        folder=folder.changelog.root,
        changelog=True,
        stage=1,
        subtask=subtask,
        key_groups=key_group_range(subtask, GROUPS, SUBTASKS),
        key_type=Types.LONG(),
        timed=False,
        max_parallelism=GROUPS,
        part_max_bytes=64 * 1024 * 1024,
        operators=frozenset(["count"]),
        local_recovery=local_recovery,
    )


def restore(base: str, backend: str) -> tuple[float, list[KeyedStore]]:
    """Seconds until the states of all subtasks can be used, and the subtasks' stores."""
    folder = find_job_folder(base, "job")
    began = time.perf_counter()
    checkpoint = Lineage(folder.open_changelog()).newest_checkpoint()
    assert checkpoint is not None
    point = plan_restore(folder, checkpoint)
    stores = []
    for subtask in range(SUBTASKS):
        config = config_of(folder, subtask)
        opened = open_backend(JobSettings(state_backend=backend), "bench", 1, subtask)
        store = KeyedStore(config, backend=opened)
        store.load(point, checkpoint.operators)
        store.state("count", SPEC)
        stores.append(store)
    return time.perf_counter() - began, stores


def restores(backend: str, times: int, bases: list[str]) -> dict[str, Any]:
    """The shortest of some restores of each, by turns, and what they hold."""
    result: dict[str, Any] = {}
    before = _peak_bytes(resource.RUSAGE_SELF)
    for _ in range(times):
        for base in bases:
            gc.collect()
            seconds, stores = restore(base, backend)
            keys = sum(sum(1 for _ in store.tables["count", "count"].items()) for store in stores)
            for store in stores:
                store.close()
            found = result.setdefault(Path(base).name, {"seconds": seconds, "keys": keys})
            found["seconds"] = min(found["seconds"], seconds)
    return {"restores": result, "peak_bytes": _peak_bytes(resource.RUSAGE_SELF), "empty_bytes": before}


def recovered(base: str, changed: int) -> dict[str, Any]:
    """Seconds of CPU that the first subtask needs for a whole restore, and when it keeps what did not change."""
    folder = find_job_folder(base, "job")
    checkpoint = Lineage(folder.open_changelog()).newest_checkpoint()
    assert checkpoint is not None
    point = plan_restore(folder, checkpoint)
    result: dict[str, Any] = {"changed": changed}
    kept: KeptState | None = None
    for attempt, name in enumerate(("whole_seconds", "local_seconds")):
        order = EpochOrder(
            run="bench",
            attempt=attempt + 2,
            restarts=attempt,
            epoch=1,
            kind=EpochKind.READ,
            committed_epoch=0,
            restore=point,
            restored_operators=checkpoint.operators,
            operator_state=SmallState(),
            shared_state={},
            checkpoint_id=checkpoint.id + 1,
            positions={},
            max_records=0,
            budget_ms=0,
        )
        gc.collect()
        began = time.process_time()
        store = KeyedStore(config_of(folder, 0, local_recovery=True))
        used = store.load(point, checkpoint.operators, None, kept)
        handle = store.state("count", SPEC)
        store.begin(order)
        result |= {name: time.process_time() - began, "kept": used}
        table = store.tables["count", "count"]
        result["keys"] = sum(1 for _ in table.items())
        store.begin_epoch(order)
        for store.cursor.key in [key for key, _ in islice(table.items(), changed)]:
            handle.update(-1)
            store.parts.flush_when_full()
        kept = store.leave()
        store.close()
    return result


def materialized(base: str) -> dict[str, Any]:
    """One materialization in two processes that start for it."""
    run = FoldProcesses(SUBTASKS, niceness=0)
    done = materialize(find_job_folder(base, "job"), run=run)
    assert done is not None
    return {
        "rows": done.rows,
        "bytes": done.bytes,
        "seconds": done.seconds,
        "process_peak_bytes": _peak_bytes(resource.RUSAGE_CHILDREN),
    }


def _peak_bytes(who: int) -> int:
    return resource.getrusage(who).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    if sys.argv[1] == "restore":
        report(restores(sys.argv[2], int(sys.argv[3]), sys.argv[4:]))
    elif sys.argv[1] == "recover":
        report(recovered(sys.argv[3], int(sys.argv[2])))
    else:
        report(materialized(sys.argv[2]))
