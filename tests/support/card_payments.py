"""What card_payments.py of docs/examples wrote to its topics and kept, against what was expected of it."""

from __future__ import annotations

import json
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "docs" / "examples" / "card_payments"))
sys.path.append(str(Path(__file__).resolve().parents[2] / "docs" / "examples" / "flights"))

from servers.kafka import KafkaServer, Record

from compare import final_state, unequal
from expected_payments import Expected, expected
from made_payments import Payment, Rule, as_json, create_topics, made_payments, made_rules, write

JOB = Path(__file__).resolve().parents[2] / "docs" / "examples" / "card_payments" / "card_payments.py"
__all__ = ["as_json", "create_topics", "expected", "made_payments", "made_rules", "write"]


def fields_of(element: Payment | Rule) -> tuple[int, dict[str, Any]]:
    """Its time and what is in its record."""
    fields = element._asdict()
    return fields.pop("time_ms"), fields


@cache
def expected_of(number: int) -> Expected:
    """What so many payments must give."""
    return expected(map(fields_of, made_payments(number)), map(fields_of, made_rules(number)))


def wrong_outputs(wanted: Expected, alerts: Any, sessions: Any, late: Any) -> list[str]:
    """A line for each output that is not there as often as it must be.

    Args:
        wanted: what was expected.
        alerts: (rule, subject, figure).
        sessions: (card, start, end, payments, cents).
        late: ids.
    """
    lines = []
    for name, found, wanted_outputs in (
        ("alerts", alerts, [alert[1:] for alert in wanted.alerts]),
        ("sessions", sessions, wanted.sessions),
        ("late", late, wanted.late),
    ):
        counted, needed = Counter(found), Counter(wanted_outputs)
        for output in counted | needed:
            if counted[output] != needed[output]:
                lines.append(f"{name}: {output} {counted[output]} times instead of {needed[output]}")
    return sorted(lines)


def written(kafka: KafkaServer, prefix: str) -> dict[str, list[tuple[Any, ...]]]:
    """What a read_committed consumer sees, for `wrong_outputs`."""

    def values(topic: str, *names: str) -> list[tuple[Any, ...]]:
        return [
            tuple(fields[name] for name in names)
            for fields in map(_fields, kafka.consume_committed(f"{prefix}{topic}"))
        ]

    return {
        "alerts": values("alerts", "rule", "subject", "figure"),
        "sessions": values("sessions", "card", "start_ms", "end_ms", "payments", "cents"),
        "late": [number for (number,) in values("late", "id")],
    }


def wrong_state(wanted: Expected, table: Path) -> list[str]:
    """A line for each state and key that is not as expected after the end."""
    return unequal(wanted.state, final_state(table))[1]


def _fields(record: Record) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(record.value or b"")
    return fields
