"""What card_payments.py must give and remember, in plain Python: no engine, no epochs, no timers.

It shares nothing with the job but the records. A card's sessions, for instance, are found in all its payments at once, where
the job merges windows.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

LATE_MS = WHILE_MS = 600_000
GAP_MS = 1_800_000
HOUR_MS = 3_600_000
DAY_MS = 86_400_000
NEW_CARDS = 20

Alert = tuple[int, str, str, int]
Record = tuple[int, dict[str, Any]]


class Expected(NamedTuple):
    """Outputs, sorted, and states at the end.

    Args:
        alerts: (time, rule, subject, figure).
        sessions: (card, start, end, payments, cents).
        late: ids.
        state: (operator, state) -> key -> value.
    """

    alerts: list[Alert]
    sessions: list[tuple[str, int, int, int, int]]
    late: list[int]
    state: dict[tuple[str, str], dict[str, Any]]


def expected(payments: Iterable[Record], rules: Iterable[Record]) -> Expected:
    """Compute all outputs and final states.

    Args:
        payments: (time in ms, fields), of each card in the order of its partition.
        rules: (time in ms, fields).
    """
    values: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for time_ms, rule in rules:
        values[rule["name"]].append((time_ms, rule["value"]))
    for versions in values.values():
        versions.sort()
    found = Expected([], [], [], defaultdict(dict))
    newest = found.state["cards", "newest"]
    by_card: dict[str, list[tuple[int, str, int]]] = defaultdict(list)
    for time_ms, payment in payments:
        card = payment["card"]
        if time_ms < newest.get(card, 0) - LATE_MS:
            found.late.append(payment["id"])
            continue
        newest[card] = max(newest.get(card, 0), time_ms)
        by_card[card].append((time_ms, payment["merchant"], payment["cents"]))
    seen: dict[str, dict[str, int]] = defaultdict(dict)
    hours: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
    for card, paid in by_card.items():
        paid.sort(key=lambda payment: payment[0])
        _judge(found, values, card, paid)
        _add_sessions(found, card, paid)
        for time_ms, merchant, _ in paid:
            counts = hours[merchant, time_ms // HOUR_MS]
            counts[0] += 1
            counts[1] += card not in seen[merchant]
            seen[merchant][card] = time_ms
    found.state["merchants", "seen"] = seen
    for (merchant, hour), (number, new_cards) in hours.items():
        if new_cards >= NEW_CARDS and 2 * new_cards > number:
            found.alerts.append(((hour + 1) * HOUR_MS - 1, "new cards", merchant, new_cards))
    for output in (found.alerts, found.sessions, found.late):
        output.sort()
    return found


def _judge(found: Expected, values: dict[str, Any], card: str, paid: list[tuple[int, str, int]]) -> None:
    first, day, spent = 0, 0, 0
    for place, (time_ms, _, cents) in enumerate(paid):
        while paid[first][0] <= time_ms - WHILE_MS:
            first += 1
        spent = cents + (spent if time_ms // DAY_MS == day else 0)
        day = time_ms // DAY_MS
        for rule, figure in (("limit", cents), ("often", place + 1 - first), ("daily", spent)):
            versions = values.get(rule, [])
            version = bisect_right(versions, (time_ms, float("inf")))
            if version and figure > versions[version - 1][1]:
                found.alerts.append((time_ms, rule, card, figure))
    found.state["cards", "recent"][card] = [time_ms for time_ms, _, _ in paid[first:]]
    found.state["cards", "day"][card] = (day, spent)


def _add_sessions(found: Expected, card: str, paid: list[tuple[int, str, int]]) -> None:
    begin = 0
    for place in range(1, len(paid) + 1):
        # Windows that touch are one, too.
        if place == len(paid) or paid[place][0] > paid[place - 1][0] + GAP_MS:
            start_ms, end_ms = paid[begin][0], paid[place - 1][0] + GAP_MS
            cents = sum(cents for _, _, cents in paid[begin:place])
            found.sessions.append((card, start_ms, end_ms, place - begin, cents))
            begin = place
