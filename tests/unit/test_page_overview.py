"""The page's list of jobs: what needs somebody stands first."""

from __future__ import annotations

from changelog_engine.inspection.jobs import JobSummary
from changelog_engine.ui.overview import by_urgency, count_by_state


def job(name: str, state: str) -> JobSummary:
    return JobSummary(name, f"/base/{name}", "job", state)


def test_what_stopped_by_itself_comes_first_and_names_keep_their_order() -> None:
    jobs = [
        job("a", "finished"),
        job("b", "running"),
        job("c", "killed"),
        job("d", "stopped"),
        job("e", "failed"),
    ]
    assert [each.name for each in by_urgency(jobs)] == ["c", "e", "b", "a", "d"]
    assert by_urgency([]) == []


def test_states_are_counted_in_that_order() -> None:
    states = ["finished", "not run yet", "running", "not run yet", "failed", "killed or running"]
    counts = count_by_state([job(str(number), state) for number, state in enumerate(states)])
    assert counts == [
        ("failed", 1),
        ("killed or running", 1),
        ("running", 1),
        ("not run yet", 2),
        ("finished", 1),
    ]
