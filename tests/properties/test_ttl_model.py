"""Reliability 27: over checkpoints, crashes and restores, no expired value is seen again, and no live one is lost."""

from __future__ import annotations

import logging
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.backends import BackendCase
from support.chance import fewer
from support.graphs import keyed_job
from support.jobs import TestJob
from support.live import logged_state
from support.same import exact
from support.script import Script
from support.scripts import EXACT, scripts
from support.ttl_function import CLOCK, Element, Expiring, ExpiringModel, configs, elements, live_entries

from api.common.typeinfo import Types
from api.datastream.state import StateTtlConfig


@pytest.fixture(autouse=True)
def _quiet() -> None:
    """Restarts are what these tests are about: hundreds of warnings say nothing new."""
    logging.getLogger("changelog_engine").setLevel(logging.ERROR)


def check_against_model(
    stream: list[Element], config: StateTtlConfig, script: Script, parallelism: int, backend: BackendCase
) -> None:
    CLOCK.now = 1_000
    graph = keyed_job(stream, Expiring(config), key_type=Types.STRING(), parallelism=parallelism)
    spec = config.to_spec()
    assert spec is not None
    models: dict[str, ExpiringModel] = {}
    with tempfile.TemporaryDirectory() as base:
        job = TestJob(base, script, CLOCK.read, **backend.settings(base))
        job.run(graph)
        for key, now, what, arguments, result in job.output:
            model = models.setdefault(key, ExpiringModel(spec.renew_on_read, spec.return_expired))
            model.check(now, what, arguments, result)
        assert len(job.output) == sum(len(operations) for _, _, operations in stream)
        found = live_entries(logged_state(base), CLOCK.now)
    expected = {exact(key): state for key, model in models.items() if (state := model.live(CLOCK.now))}
    assert found == expected


@given(data=st.data())
@fewer(2)
def test_any_run_equals_the_model(every_backend: BackendCase, data: st.DataObject) -> None:
    parallelism = data.draw(st.integers(1, 2), "parallelism")
    stream = data.draw(elements(), "elements")
    config = data.draw(configs(show=False), "config")
    script = data.draw(scripts(EXACT, parallelism=parallelism), "script")
    check_against_model(stream, config, script, parallelism, every_backend)


@given(data=st.data())
def test_expired_values_are_shown_until_they_are_read(data: st.DataObject) -> None:
    """Without crashes: a restore drops what expired."""
    stream = data.draw(elements(), "elements")
    config = data.draw(configs(show=True), "config")
    script = data.draw(scripts(()), "script")
    check_against_model(stream, config, script, 1, BackendCase("hashmap", True))
