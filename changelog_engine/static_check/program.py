"""A check from the script to its report: the program is read until nothing new is learnt."""

from __future__ import annotations

import dataclasses

from changelog_engine.static_check.findings import Report
from changelog_engine.static_check.knowledge import Knowledge
from changelog_engine.static_check.reading import NotReadableError, Reading, Sources
from changelog_engine.static_check.walk import function_of, module_of

__all__ = ["NotReadableError", "check_program"]
_MOST_READINGS = 6


def check_program(script: str) -> Report:
    """What of a script, and of the modules beside it that it imports, will work here; none of it is run.

    Raises:
        NotReadableError: the script or a module beside it cannot be read, or is not Python.
    """
    sources = Sources(script)
    before = Knowledge()
    try:
        reading = _read(sources, before)
        for _ in range(_MOST_READINGS):
            if reading.learnt == before:
                break
            before = reading.learnt
            reading = _read(sources, before)
    except RecursionError:
        raise NotReadableError(f"{script}: its expressions are too deep to be checked") from None
    return _with_uses(reading)


def _read(sources: Sources, before: Knowledge) -> Reading:
    reading = Reading(sources, before)
    module_of(reading, sources.main)
    while reading.waiting:
        function_of(reading, *reading.waiting.pop(0))
    return reading


def _with_uses(reading: Reading) -> Report:
    """The report, whose findings about what is not here say where else it is used."""
    report = reading.report
    for (file, name), finding in reading.missing_at.items():
        lines = sorted(reading.missing_in.get((file, name), set()) - {finding.line})
        if lines:
            where = (
                f"line {lines[0]}" if len(lines) == 1 else f"lines {', '.join([str(each) for each in lines])}"
            )
            longer = dataclasses.replace(finding, message=f"{finding.message} (used in {where})")
            report.findings = [longer if each == finding else each for each in report.findings]
    return report
