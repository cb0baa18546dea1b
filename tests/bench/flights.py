"""The job of the demo, unpaced: three keyed stages, Rows, all kinds of state, event time, timers; and its plain reference.

``python flights.py spark|in_process|pyflink|reference|loop|compare FILE [KEY=VALUE ...]``; the last line printed is the
result as JSON. ``reference`` shares no code with the job; ``loop`` calls the job's own functions over dictionaries.
``compare`` compares the state at the end of a job with the reference, value by value. It does so by itself: folding the log
takes more CPU than a third of the job. ``pyflink`` runs in an environment with PyFlink, and imports the job from where
``python.files`` says; see `Peers.pyflink_flights`.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from keyed_count import leave_own_folder, report
from plain_loops import ROUNDS, KeyedLoop
from subtasks_cpu import subtasks_cpu

JOB = Path(__file__).resolve().parents[2] / "docs" / "examples" / "flights"
UNPACED = 10**9  # flights a second


def cut(target: Path, flights: int) -> Path:
    """The first flights of the year, as a file beside the whole year's."""
    sys.path.append(str(JOB))
    from prepare import prepare

    year = target / "flights.csv"
    prepare(year)
    path = target / f"flights-{flights}.csv"
    with year.open() as lines:
        path.write_text("".join([line for _, line in zip(range(flights), lines, strict=False)]))
    return path


def reference(path: Path) -> dict[str, Any]:
    """Seconds of one core for all final states, in plain Python: the best of three."""
    from reference import expected_state

    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        expected_state(path)
        best = min(best, time.process_time() - began)
    return {"cpu_s": best}


def loop(path: Path) -> dict[str, Any]:
    """Seconds of one core for the job's own functions over dictionaries, without types, log or copies: the best of three.

    Raises:
        RuntimeError: a state at the end is another than the reference's.
    """
    import flights_job
    from compare import unequal
    from reference import expected_state

    best = float("inf")
    for _ in range(ROUNDS):
        stages = {
            "carriers": KeyedLoop(flights_job.Carrier()),
            "aircraft": KeyedLoop(flights_job.Aircraft()),
            "airports": KeyedLoop(flights_job.Airport()),
        }
        began = time.process_time()
        _drive(path, **stages)
        best = min(best, time.process_time() - began)
    found = {
        (operator, state): {
            key: tuple(value) if state == "position" else value for key, value in held.items()
        }
        for operator, stage in stages.items()
        for state, held in stage.states.items()
        if held
    }
    compared, wrong = unequal(expected_state(path), found)
    if wrong:
        raise RuntimeError(f"{len(wrong)} of {compared} values are wrong; the first: {wrong[0]}")
    return {"cpu_s": best, "values_compared": compared}


def _drive(path: Path, carriers: KeyedLoop, aircraft: KeyedLoop, airports: KeyedLoop) -> None:
    from flights_job import parse

    carrier, plane, airport = (stage.function.process_element for stage in (carriers, aircraft, airports))

    def paused(until: float) -> None:
        for airports.key in aircraft.fire(until):
            for _ in airport(airports.key, airports):
                pass

    with path.open() as lines:
        for line in lines:
            flight = parse(line.rstrip("\n"))
            if flight.departure_ms > aircraft.now:
                aircraft.now = flight.departure_ms
                paused(aircraft.now - 1)  # a watermark says that no element at or before it follows
            carriers.key = flight.carrier
            for _ in carrier(flight, carriers):
                pass
            if flight.delay_minutes is not None:
                aircraft.key = flight.aircraft
                plane(flight, aircraft)
    paused(float("inf"))


def expected_lines(path: Path, every: int) -> list[str]:
    """What the job prints when it tells its progress so often, sorted; in plain Python."""
    from reference import expected_state

    lines = []
    flights: Counter[str] = Counter()
    delayed: Counter[str] = Counter()
    minutes: Counter[str] = Counter()
    with path.open() as file:
        for line in file:
            _, carrier, _, _, _, _, delay, _ = line.rstrip("\n").split(",")
            flights[carrier] += 1
            if delay:
                delayed[carrier] += 1
                minutes[carrier] += int(delay)
            if flights[carrier] % every == 0:
                mean = minutes[carrier] / delayed[carrier]
                lines.append(f"{carrier}: {flights[carrier]:,} flights, mean delay {mean:.1f} min")
    for airport, paused in expected_state(path)["airports", "paused"].items():
        for count in range(every, paused + 1, every):
            lines.append(f"{airport}: {count:,} aircraft didn't come back within six hours")
    return sorted(lines)


def run(path: Path, settings: dict[str, str], package: str = "changelog_engine.api") -> dict[str, Any]:
    """Run the job to its end; the seconds of execute()."""
    common = importlib.import_module(f"{package}.common")
    datastream = importlib.import_module(f"{package}.datastream")
    from flights_job import build

    configuration = common.Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    env = datastream.StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    build(env, str(path), UNPACED)
    began = time.perf_counter()
    env.execute("flights")
    seconds = time.perf_counter() - began
    return {"seconds": seconds}


def compare(path: Path, settings: dict[str, str]) -> dict[str, Any]:
    """Of a job that has run: how many values were compared with the reference's.

    Raises:
        RuntimeError: one of them is another.
    """
    from compare import differences

    table = Path(settings["state.changelog.dstl.dfs.base-path"]) / "flights" / "changelog"
    compared, wrong = differences(table, path)
    if wrong:
        raise RuntimeError(f"{len(wrong)} of {compared} values are wrong; the first: {wrong[0]}")
    return {"values_compared": compared}


def run_in_process(path: Path, settings: dict[str, str]) -> dict[str, Any]:
    """The same without Spark: CPU seconds of the subtasks, by stage, which other programs on the machine hardly change."""
    with subtasks_cpu() as by_stage:
        result = run(path, settings)
    return {**result, "cpu_s": sum(by_stage.values()), "cpu_s_by_stage": dict(sorted(by_stage.items()))}


def main() -> None:
    """Command line: how, file, KEY=VALUE settings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("how", choices=["spark", "in_process", "pyflink", "reference", "loop", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    arguments = parser.parse_args()
    settings = dict(setting.split("=", 1) for setting in arguments.settings)
    sys.path.append(str(Path(settings["python.files"]).parent if arguments.how == "pyflink" else JOB))
    if arguments.how == "reference":
        result = reference(arguments.file)
    elif arguments.how == "loop":
        result = loop(arguments.file)
    elif arguments.how == "compare":
        result = compare(arguments.file, settings)
    elif arguments.how == "spark":
        result = run(arguments.file, settings)
    elif arguments.how == "pyflink":
        result = run(arguments.file, settings, "pyflink")
    else:
        result = run_in_process(arguments.file, settings)
    with arguments.file.open() as lines:
        flights = sum(1 for _ in lines)
    report({**result, "flights": flights})


if __name__ == "__main__":
    leave_own_folder()
    main()
