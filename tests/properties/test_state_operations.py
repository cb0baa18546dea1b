"""Reliability 36: any operations on any state, with checkpoints, crashes and restores between, equal a plain-dict model."""

from __future__ import annotations

import logging
import tempfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.backends import BackendCase, small_maps
from support.chance import fewer
from support.graphs import keyed_job
from support.jobs import TestJob
from support.live import logged_state
from support.model import Model, by_key, pictured
from support.operations import Element, Operations, inputs
from support.profiles import PROFILES
from support.script import Script
from support.scripts import EXACT, TOLERATED, scripts

from changelog_engine.graph.nodes import JobGraph


@pytest.fixture(autouse=True)
def _quiet() -> None:
    """Restarts are what these tests are about: hundreds of warnings say nothing new."""
    logging.getLogger("changelog_engine").setLevel(logging.ERROR)


def check_against_model(
    profile: str,
    elements: list[Element],
    script: Script,
    parallelism: list[int],
    lag_ms: int | None,
    backend: BackendCase,
    **settings: Any,
) -> None:
    """Drivers take turns of the parallelism."""

    def graph(driver: int) -> JobGraph:
        return keyed_job(
            elements,
            Operations(profile),
            key_type=PROFILES[profile].key_type,
            parallelism=parallelism[driver % len(parallelism)],
            max_parallelism=128,
            timestamp=None if lag_ms is None else (lambda element: element[1]),
            lag_ms=lag_ms,
        )

    with tempfile.TemporaryDirectory() as base, small_maps():
        job = TestJob(base, script, **backend.settings(base), **settings)
        job.run(graph)
        model = Model(profile, lag_ms)
        states = model.run(elements, job.committed_epochs)
        assert by_key(job.output) == model.output()
        assert pictured(logged_state(base)) == pictured(states[-1])
        if backend.changelog:  # older full snapshots are retired
            for checkpoint, epochs in job.epochs_at.items():
                expected = states[epochs - 1] if epochs else {}
                assert pictured(logged_state(base, checkpoint=checkpoint)) == pictured(expected)


@pytest.mark.parametrize("profile", sorted(PROFILES))
@pytest.mark.parametrize("changelog", [True, False], ids=["changelog", "snapshots"])
@fewer(2)
@given(data=st.data())
def test_any_run_equals_the_model(profile: str, changelog: bool, data: st.DataObject) -> None:
    parallelism = data.draw(st.integers(1, 3), "parallelism")
    lag_ms = data.draw(st.sampled_from([None, 0, 10]), "lag_ms")
    elements = data.draw(inputs(profile), "elements")
    tolerable = data.draw(st.integers(0, 2), "tolerable_failures")
    script = data.draw(scripts(TOLERATED if tolerable else EXACT, parallelism=parallelism), "script")
    backend = BackendCase("hashmap", changelog)
    check_against_model(
        profile,
        elements,
        script,
        [parallelism],
        lag_ms,
        backend,
        tolerable_failures=tolerable,
        read_ahead=data.draw(st.booleans(), "read_ahead"),
    )


@given(data=st.data())
@fewer(4)
def test_any_run_equals_the_model_on_every_backend(every_backend: BackendCase, data: st.DataObject) -> None:
    """Each driver that takes over has another parallelism; with watermarks, which begin anew then, the same one."""
    profile = data.draw(st.sampled_from(sorted(PROFILES)), "profile")
    lag_ms = data.draw(st.sampled_from([None, None, 0, 10]), "lag_ms")
    elements = data.draw(inputs(profile), "elements")
    script = data.draw(scripts(EXACT, parallelism=1), "script")
    parallelism = [1] if lag_ms is not None else data.draw(st.permutations([1, 2, 3]), "parallelism")
    ahead = data.draw(st.booleans(), "read_ahead")
    check_against_model(profile, elements, script, parallelism, lag_ms, every_backend, read_ahead=ahead)
