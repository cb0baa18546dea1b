"""Reliability 37: fold(log) equals the live state, at every checkpoint of a random job, whatever crashed in between."""

from __future__ import annotations

import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.backends import backend_settings, small_maps
from support.chance import fewer
from support.graphs import keyed_job
from support.jobs import TestJob
from support.live import LiveStates, logged_state
from support.model import Model, by_key, pictured
from support.operations import Operations, inputs
from support.profiles import PROFILES
from support.same import exact
from support.script import Fault, Script
from support.scripts import EXACT, scripts

from api.common.typeinfo import Types
from materializer.fold import state_at

CHANGING = ("hashmap", "hashmap", "rocksdb")


class Checked(TestJob):
    """Compares log and live state at each commit, while nothing is retired yet."""

    def __init__(self, base: str, script: Script, live: LiveStates, **settings: object) -> None:
        super().__init__(base, script, **settings)
        self.live = live
        self.checked = 0

    def on_commit(self, checkpoint) -> None:
        held = self.live.of(checkpoint.attempt, checkpoint.id)
        logged = logged_state(self.settings.base_path, checkpoint=checkpoint.id)
        assert pictured(logged) == pictured(held)
        self.checked += 1


@pytest.mark.parametrize("profile", sorted(PROFILES))
@fewer(2)
@given(data=st.data())
def test_log_equals_live_state_at_each_checkpoint(profile: str, data: st.DataObject) -> None:
    """The changelog may be on in one driver and off in the next; parallelism and backend may change with the driver too."""
    modes = data.draw(st.lists(st.booleans(), min_size=1, max_size=3), "changelog of each driver")
    parallelisms = data.draw(
        st.lists(st.integers(1, 3), min_size=1, max_size=3), "parallelism of each driver"
    )
    backends = data.draw(
        st.lists(st.sampled_from(CHANGING), min_size=1, max_size=3), "backend of each driver"
    )
    lag_ms = data.draw(st.sampled_from([None, 0, 10]), "lag_ms")
    elements = data.draw(inputs(profile, max_elements=20), "elements")
    script = data.draw(
        scripts((*EXACT, Fault.DRIVER, Fault.PARTS, Fault.HANDED_OUT), parallelism=3), "script"
    )

    def graph(driver: int):
        return keyed_job(
            elements,
            Operations(profile),
            key_type=PROFILES[profile].key_type,
            parallelism=parallelisms[driver % len(parallelisms)],
            timestamp=None if lag_ms is None else (lambda element: element[1]),
            lag_ms=lag_ms,
        )

    live = LiveStates()
    with tempfile.TemporaryDirectory() as base, live.watched(), small_maps():
        job = Checked(base, script, live)
        job.run(
            graph,
            changelog=lambda driver: modes[driver % len(modes)],
            state_backend=lambda driver: backends[driver % len(backends)],
            state_options=backend_settings("rocksdb without cache", base)["state_options"],
        )
        assert job.checked == len(job.commits) > 0


@given(data=st.data())
def test_rescale_and_switching_change_no_result(data: st.DataObject) -> None:
    """Reliability 25: changelog on and off between drivers, with another parallelism each time.

    Timers lie ahead of the watermark here: a subtask with new key groups waits for the first watermark after the restore.
    """
    profile = data.draw(st.sampled_from(sorted(PROFILES)), "profile")
    modes = data.draw(st.lists(st.booleans(), min_size=2, max_size=3), "changelog of each driver")
    parallelisms = data.draw(
        st.lists(st.integers(1, 3), min_size=2, max_size=3), "parallelism of each driver"
    )
    drawn = data.draw(inputs(profile, times=st.integers(1, 30), in_order=True), "elements")
    elements = [
        (key, at, tuple(op for op in done if op[0] != "watermark") or (("list.get",),))
        for key, at, done in drawn
    ]
    kills = (Fault.DRIVER, Fault.PARTS, Fault.HANDED_OUT)
    script = data.draw(scripts(kills, parallelism=1, most=5), "script")

    def graph(driver: int):
        return keyed_job(
            elements,
            Operations(profile),
            key_type=PROFILES[profile].key_type,
            parallelism=parallelisms[driver % len(parallelisms)],
            timestamp=lambda element: element[1],
        )

    with tempfile.TemporaryDirectory() as base:
        job = TestJob(base, script)
        job.run(graph, changelog=lambda driver: modes[driver % len(modes)])
        model = Model(profile, 0)
        states = model.run(elements, job.committed_epochs)
        assert by_key(job.output) == model.output()
        assert pictured(logged_state(base)) == pictured(states[-1])


@pytest.mark.parametrize("changelog", [True, False], ids=["changelog", "snapshots"])
@fewer(2)
@given(data=st.data())
def test_public_fold_tells_the_same(changelog: bool, data: st.DataObject) -> None:
    """materializer.fold.state_at, on keys that a dict tells apart."""
    elements = data.draw(inputs("plain"), "elements")
    script = data.draw(scripts(), "script")
    graph = keyed_job(
        elements, Operations("plain"), key_type=Types.STRING(), timestamp=lambda element: element[1]
    )
    with tempfile.TemporaryDirectory() as base:
        job = TestJob(base, script, changelog=changelog)
        job.run(graph)
        states = Model("plain", 0).run(elements, job.committed_epochs)
        for checkpoint in job.commits if changelog else job.commits[-1:]:
            epochs = job.epochs_at[checkpoint.id]
            expected = pictured(states[epochs - 1] if epochs else {})
            folded = state_at(job.table(), checkpoint.id)
            found = {
                name: {
                    exact(key): exact(list(value.items()) if name[1] == "map" else value)
                    for key, value in entries.items()
                }
                for name, entries in folded.states.items()
                if entries
            }
            timers = {
                (uid, "__event_time_timers"): sorted((at, exact(key)) for at, key in entries)
                for (uid, _), entries in folded.timers.items()
                if entries
            }
            assert {**found, **timers} == expected
