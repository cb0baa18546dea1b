"""The second real job, docs/examples/card_payments: Kafka to Kafka exactly once, with rules, sessions, time to live.

``python payments.py in_process SERVERS PREFIX [KEY=VALUE ...]`` runs it without Spark, where the CPU of the subtasks counts;
``python payments.py loop PAYMENTS`` computes what it must give in plain Python, from records to records. `PaymentsBench`
compares what each engine wrote with that, and the final states of this one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from servers.kafka import KafkaServer
from servers.process import ServerMissing
from support.card_payments import (
    JOB,
    as_json,
    create_topics,
    expected,
    expected_of,
    made_payments,
    made_rules,
    write,
    written,
    wrong_outputs,
    wrong_state,
)

from kafka_bench import connector
from keyed_count import leave_own_folder, report
from log_figures import read_log
from peers import BesidePeers
from processes import Outcome, measure, result_line
from subtasks_cpu import subtasks_cpu

_PREFIX = "measured-"


class PaymentsBench(BesidePeers):
    """Runs it in each engine."""

    def spark(self) -> dict[str, Any] | None:
        """On Spark; None where there is no broker."""
        program = [sys.executable, str(JOB)]
        return self._here("payments", program, ["--bounded", "--prefix", _PREFIX], _nothing)

    def in_process(self) -> dict[str, Any] | None:
        """Without Spark: CPU seconds of the subtasks, by stage; None where there is no broker."""
        program = [sys.executable, str(Path(__file__)), "in_process"]
        figures = self._here("cpu-payments", program, [_PREFIX], result_line)
        return figures and {**figures, "us_per_record": 1e6 * figures["cpu_s"] / figures["records"]}

    def loop(self) -> dict[str, Any]:
        """As a plain loop, which has all payments in memory."""
        command = [sys.executable, str(Path(__file__)), "loop", str(self.engine.sizes.payments)]
        return measure("loop-payments", command, self.engine.work / "logs").result

    def pyflink(self) -> dict[str, Any] | None:
        """The same program in PyFlink's process mode, as its thread mode has no windows that merge.

        None where there is no broker or no connector.
        """
        number, work = self.engine.sizes.pyflink_workload, self.engine.work
        with _broker(number) as kafka:
            jar = connector(work)
            if kafka is None or jar is None:
                return None
            program = self.peers.in_pyflink(JOB)
            command = [str(program), kafka.bootstrap_servers, "--bounded", "--prefix", _PREFIX]
            outcome = self.peers.run_pyflink(
                "pyflink-payments", command, "process", {"pipeline.jars": f"file://{jar}"}, read=_nothing
            )[0]
            return _figures(kafka, number, outcome)

    def _here(self, name: str, program: list[str], arguments: list[str], read: Any) -> dict[str, Any] | None:
        number = self.engine.sizes.payments
        with _broker(number) as kafka:
            if kafka is None:
                return None
            command = [*program, kafka.bootstrap_servers, *arguments]
            outcome = self.engine.run_program(name, command, read=read)
            base = self.engine.base_of(name)
            (job,) = base.iterdir()
            wrong = wrong_state(expected_of(number), job / "changelog")
            if wrong:
                raise RuntimeError(f"{len(wrong)} states are wrong; the first: {wrong[0]}")
            return {**_figures(kafka, number, outcome), "mutations": read_log(base).rows, **outcome.result}


def _figures(kafka: KafkaServer, number: int, outcome: Outcome) -> dict[str, Any]:
    """The rates, once all that was written was found right."""
    wrong = wrong_outputs(expected_of(number), **written(kafka, _PREFIX))
    if wrong:
        raise RuntimeError(f"{len(wrong)} outputs are wrong; the first: {wrong[0]}")
    # The broker's clock says when sessions were written.
    times = sorted(record.timestamp_ms for record in kafka.consume_committed(f"{_PREFIX}sessions"))
    part = sum(written_at > times[0] for written_at in times) / len(times)
    seconds = outcome.ended - outcome.started
    return {
        "records": number,
        "seconds": seconds,
        "records_per_s": number / seconds,
        "steady_records_per_s": number * part / max(0.001, (times[-1] - times[0]) / 1000),
        "outputs_compared": sum(map(len, expected_of(number)[:3])),
    }


@contextmanager
def _broker(payments: int) -> Iterator[KafkaServer | None]:
    """A broker that has so many payments; None where Kafka is not installed."""
    try:
        KafkaServer.check_installed()
    except ServerMissing:
        yield None
        return
    with KafkaServer() as kafka:
        create_topics(kafka.bootstrap_servers, _PREFIX, message_timestamp_type="LogAppendTime")
        write(kafka.bootstrap_servers, _PREFIX, payments)
        yield kafka


def _nothing(output: str) -> dict[str, Any]:
    """The job prints no result: what it wrote is measured."""
    return {}


def run_in_process(servers: str, prefix: str, settings: list[str]) -> dict[str, Any]:
    """Without Spark: CPU seconds of the subtasks, by stage."""
    from card_payments import main as run

    with subtasks_cpu() as by_stage:
        run(servers, prefix, bounded=True, settings=[setting.split("=", 1) for setting in settings])
    return {"cpu_s": sum(by_stage.values()), "cpu_s_by_stage": dict(sorted(by_stage.items()))}


def loop(number: int) -> dict[str, Any]:
    """CPU seconds from records to records of the plain computation, the best of three."""
    payments = [(payment.time_ms, as_json(payment)) for payment in made_payments(number)]
    rules = [(rule.time_ms, as_json(rule)) for rule in made_rules(number)]
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        found = expected(*([(at, json.loads(text)) for at, text in given] for given in (payments, rules)))
        for output in (*found.alerts, *found.sessions, *found.late):
            json.dumps(output).encode()
        best = min(best, time.process_time() - began)
    return {"records": number, "cpu_s": best, "records_per_s": number / best}


def main() -> None:
    """Command line: how, and what it needs."""
    parser = argparse.ArgumentParser(description=__doc__)
    ways = parser.add_subparsers(dest="how", required=True)
    in_process = ways.add_parser("in_process")
    in_process.add_argument("servers")
    in_process.add_argument("prefix")
    in_process.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    ways.add_parser("loop").add_argument("payments", type=int)
    arguments = parser.parse_args()
    if arguments.how == "loop":
        report(loop(arguments.payments))
    else:
        report(run_in_process(arguments.servers, arguments.prefix, arguments.settings))


if __name__ == "__main__":
    leave_own_folder()
    main()
