"""Reliability 38: same input, same code: the same results and mutations, whatever the epochs, parallelism and crashes."""

from __future__ import annotations

import pickle
import tempfile
from typing import Any

import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.chance import fewer
from support.graphs import keyed_job
from support.jobs import TestJob
from support.model import by_key
from support.operations import Element, Operations, inputs
from support.profiles import PROFILES
from support.same import exact
from support.script import Script
from support.scripts import scripts

from changelog_engine.ledger.job_folder import find_job_folder
from changelog_engine.ledger.ledger import plan_restore
from changelog_engine.ledger.lineage import Lineage
from changelog_engine.ledger.reading import read_parts

COLUMNS = ("operation", "map_key", "value", "payload", "event_time")


def mutations(base: str, name: str = "job") -> dict[tuple[str, str, str], list[tuple[Any, ...]]]:
    """The lineage's rows by (operator, state, key), in the order of the log.

    Payloads are compared by what they hold: the bytes of a pickle tell whether two equal objects were the same one.
    """
    folder = find_job_folder(base, name)
    newest = Lineage(folder.open_changelog()).newest_checkpoint()
    found: dict[tuple[str, str, str], list[tuple[Any, ...]]] = {}
    for table in read_parts(plan_restore(folder, newest), range(32_768)):
        assert pc.all(pc.is_valid(table["sequence"])).as_py()
        for row in table.to_pylist():
            found.setdefault((row["operator"], row["state"], row["key"]), []).append(
                tuple(exact(pickle.loads(row[n])) if n == "payload" and row[n] else row[n] for n in COLUMNS)
            )
    return found


def run(
    profile: str, elements: list[Element], script: Script | None, parallelism: int, lag_ms: int | None
) -> Any:
    graph = keyed_job(
        elements,
        Operations(profile),
        key_type=PROFILES[profile].key_type,
        parallelism=parallelism,
        timestamp=None if lag_ms is None else (lambda element: element[1]),
        lag_ms=lag_ms,
    )
    with tempfile.TemporaryDirectory() as base:
        job = TestJob(base, script)
        job.run(graph)
        return by_key(job.output), mutations(base), job.committed_epochs


@pytest.mark.parametrize("profile", sorted(PROFILES))
@fewer(2)
@given(data=st.data())
def test_epochs_parallelism_and_crashes_change_nothing(profile: str, data: st.DataObject) -> None:
    """Watermarks come at the ends of epochs, by design, so here they come with the end of the input: in both runs."""
    elements = data.draw(inputs(profile), "elements")
    timed = data.draw(st.booleans(), "timed")
    script = data.draw(scripts(parallelism=3), "script")
    parallelism = data.draw(st.integers(1, 3), "parallelism")
    lag_ms = 10**6 if timed else None
    elements = [(key, at, tuple(op for op in done if op[0] != "watermark")) for key, at, done in elements]
    plain = run(profile, elements, None, 1, lag_ms)
    other = run(profile, elements, script, parallelism, lag_ms)
    assert other[:2] == plain[:2]


@pytest.mark.parametrize("profile", sorted(PROFILES))
@fewer(2)
@given(data=st.data())
def test_parallelism_and_crashes_change_nothing_while_watermarks_advance(
    profile: str, data: st.DataObject
) -> None:
    """With the same epochs, timers fire at the same places."""
    elements = data.draw(inputs(profile), "elements")
    sizes = data.draw(st.lists(st.integers(1, 8), min_size=1, max_size=1), "size of all epochs")
    first = data.draw(scripts(parallelism=1, most=0), "script")
    second = data.draw(scripts(parallelism=3), "another script")
    script, another = (Script(tuple(sizes), s.barriers, s.failures) for s in (first, second))
    output, rows, epochs = run(profile, elements, script, 1, 0)
    again = run(profile, elements, another, data.draw(st.integers(1, 3), "parallelism"), 0)
    assert again[2] == epochs or [e for e in again[2] if e] == [e for e in epochs if e]
    assert again[:2] == (output, rows)
