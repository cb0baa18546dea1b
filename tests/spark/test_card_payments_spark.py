"""The example card_payments.py on Spark with a broker: kill -9 in the middle; outputs and states as without."""

from __future__ import annotations

from pathlib import Path

import pytest
from driver_process import Driver, often_killed
from servers.kafka import KafkaServer
from support.card_payments import (
    JOB,
    create_topics,
    expected_of,
    write,
    written,
    wrong_outputs,
    wrong_state,
)

pytestmark = pytest.mark.slow

PAYMENTS = 6_000


def test_killed_in_the_middle(kafka: KafkaServer, tmp_path: Path) -> None:
    create_topics(kafka.bootstrap_servers, "killed-")
    write(kafka.bootstrap_servers, "killed-", PAYMENTS)
    options = often_killed(tmp_path / "log")
    small, large = ({"python.fn-execution.bundle.size": size} for size in (100, 400))
    arguments = (JOB, kafka.bootstrap_servers, "--bounded", "--prefix", "killed-")
    # The first sessions come after two fifths of the payments: more than thirty epochs are left when it is killed.
    with Driver(*arguments, options=options | small, work=tmp_path) as driver:
        driver.wait_for(lambda: kafka.consume_committed("killed-sessions"), what="sessions")
        driver.kill()
        driver.wait_gone()
    wanted = expected_of(PAYMENTS)
    assert 0 < len(kafka.consume_committed("killed-sessions")) < len(wanted.sessions)
    with Driver(*arguments, options=options | large, work=tmp_path) as driver:
        assert driver.end() == 0, driver.output
    assert wrong_outputs(wanted, **written(kafka, "killed-")) == []
    assert wrong_state(wanted, tmp_path / "log" / "card-payments" / "changelog") == []
