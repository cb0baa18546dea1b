"""The example card_payments.py without Kafka: outputs and states are those of the plain computation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from support.card_payments import (
    JOB,
    expected_of,
    fields_of,
    made_payments,
    made_rules,
    wrong_outputs,
    wrong_state,
)

import card_payments as example
from changelog_engine.api.common import Configuration, Duration, Row, WatermarkStrategy
from changelog_engine.api.datastream import StreamExecutionEnvironment
from changelog_engine.testing import At, Checkpoint, Crash, OperatorHarness, ScriptedSource, without_spark

PAYMENTS = 3_000
DAY_MS = 86_400_000


def built(payments: list[Any], rules: list[Any], base: Path) -> tuple[StreamExecutionEnvironment, Any]:
    """The job between scripts instead of topics."""
    configuration = Configuration()
    configuration.set_string("state.changelog.dstl.dfs.base-path", str(base))
    configuration.set_string("restart-strategy.type", "fixed-delay")
    configuration.set_string("restart-strategy.fixed-delay.delay", "0 s")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    env.enable_checkpointing(10).enable_changelog_state_backend(True)
    in_some_order = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(example.LATE_MS))
    in_order = WatermarkStrategy.for_monotonous_timestamps()
    streams = [
        env.from_source(ScriptedSource(script), strategy, name, type_info).uid(name)
        for name, script, strategy, type_info in (
            ("payments", payments, in_some_order, example.payment_type()),
            ("rules", rules, in_order, example.rule_type()),
        )
    ]
    return env, example.build(env, *streams)


def at(element: Any) -> At:
    time_ms, fields = fields_of(element)
    return At(Row(**fields), time_ms)


def test_outputs_and_states_after_a_crash(tmp_path: Path) -> None:
    payments: list[Any] = list(map(at, made_payments(PAYMENTS)))
    third = PAYMENTS // 3
    script = [*payments[:third], Checkpoint(), *payments[third : 2 * third], Crash(), *payments[2 * third :]]
    _, (alerts, sessions, late) = built(script, list(map(at, made_rules(PAYMENTS))), tmp_path)
    tagged = alerts.map(lambda row: ("alerts", tuple(row))).union(
        sessions.map(lambda row: ("sessions", tuple(row))), late.map(lambda row: ("late", row.id))
    )
    found: dict[str, list[Any]] = {"alerts": [], "sessions": [], "late": []}
    with without_spark(), tagged.execute_and_collect("cards") as outputs:
        for name, output in outputs:
            found[name].append(output)
    wanted = expected_of(PAYMENTS)
    assert {alert[1] for alert in wanted.alerts} == {"limit", "often", "daily", "new cards"}
    assert wanted.sessions
    assert wanted.late
    assert wrong_outputs(wanted, **found) == []
    assert wrong_state(wanted, tmp_path / "cards" / "changelog") == []


def test_a_payment_is_judged_by_the_rule_of_its_moment_however_late_the_rule_comes(tmp_path: Path) -> None:
    with operator("cards", tmp_path) as cards:
        cards.process_element(payment(1, cents=700), 2_000)
        cards.process_watermark(5_000, input=1)
        assert cards.output == []  # the rules may be behind
        cards.process_element(Row(name="limit", value=900), 0, input=2)
        cards.process_element(Row(name="limit", value=600), 1_000, input=2)
        cards.process_element(Row(name="limit", value=800), 3_000, input=2)
        cards.process_watermark(5_000, input=2)
        assert cards.output == [payment(1, cents=700)]
        assert cards.side_output(example.alerts_of_cards()) == [Row(rule="limit", subject="ann", figure=700)]
        assert cards.state("waiting") == {}


def test_a_card_is_new_again_after_thirty_days(tmp_path: Path) -> None:
    with operator("merchants", tmp_path) as merchants:
        counts = []
        for day in (0, 29, 58, 89):
            merchants.set_processing_time(day * DAY_MS)
            merchants.process_element(payment(day), 0)
            counts.append(merchants.state("hours")["shop"][0])
        assert counts == [(1, 1), (2, 1), (3, 1), (4, 2)]


def test_what_comes_after_its_session_is_late(tmp_path: Path) -> None:
    with operator("sessions", tmp_path) as sessions:
        sessions.process_element(payment(1, cents=5), 0)
        sessions.process_watermark(example.HOUR_MS)
        sessions.process_element(payment(2), 1_000)
        assert [tuple(row) for row in sessions.output] == [("ann", 0, 30 * example.MINUTE_MS, 1, 5)]
        assert sessions.side_output(example.late_payments()) == [payment(2)]


def payment(number: int, cents: int = 1) -> Row:
    return Row(id=number, card="ann", merchant="shop", cents=cents)


def operator(uid: str, base: Path) -> OperatorHarness:
    env, streams = built([], [], base)
    for stream in streams:
        stream.print()
    return OperatorHarness(env.generate_stream_graph(), uid)


def test_a_setting_that_is_none_is_named() -> None:
    done = subprocess.run(
        [sys.executable, JOB, "nowhere:1", "--bounded", "a=b", "bounded"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "settings are KEY=VALUE; got a=b bounded" in done.stderr
