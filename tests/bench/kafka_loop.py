"""What librdkafka and a broker do by themselves: copy a topic's values into another, in transactions of a second.

``python kafka_loop.py SERVERS READ WRITTEN PROCESSES`` gives each process its share of the partitions, and prints the
CPU seconds of all of them as JSON. No job from topic to topic can take less than this does, and with ``--endless``, which
goes on where the topic ends, none has results sooner.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from keyed_count import leave_own_folder, report

_TRANSACTION_S = 1.0
_AT_ONCE = 1_000
_WAIT_S = {False: 0.1, True: 0.01}  # for so many; endless, whoever waits for results waits for it too
_STEP_TIMEOUT_S = 60.0


class Copying:
    """Copies one share of the partitions.

    Args:
        servers: where the broker is.
        read: topic.
        written: topic.
        share: which, of so many `shares`.
        shares: how many there are.
        guarantee: a DeliveryGuarantee.
        endless: go on where the topic ends.
    """

    def __init__(
        self, servers: str, read: str, written: str, share: int, shares: int, guarantee: str, endless: bool
    ) -> None:
        settings = {"bootstrap.servers": servers}
        own = {"group.id": f"loop-{written}", "enable.auto.commit": False, "enable.partition.eof": True}
        self._consumer = Consumer({**settings, **own})
        found = self._consumer.list_topics(read, timeout=_STEP_TIMEOUT_S).topics[read].partitions
        self._left = {partition for partition in found if partition % shares == share}
        self._consumer.assign([TopicPartition(read, partition, 0) for partition in self._left])
        room = {"queue.buffering.max.messages": 1_000_000, "queue.buffering.max.kbytes": 131_072}
        self._transactional = guarantee == "EXACTLY_ONCE"
        ways = (
            {"transactional.id": f"loop-{written}-{share}"}
            if self._transactional
            else {"enable.idempotence": True}
        )
        self._producer = Producer({**settings, **room, **ways})
        self._written = written
        self._endless = endless
        if self._transactional:
            self._producer.init_transactions(_STEP_TIMEOUT_S)

    def run(self) -> None:
        """Copy, up to the ends of the partitions or until the process is stopped."""
        while self._left:
            if self._transactional:
                self._producer.begin_transaction()
            until = time.monotonic() + _TRANSACTION_S
            while self._left and time.monotonic() < until:
                self._step()
            if not self._transactional:
                continue
            reached = [
                each for each in self._consumer.position(self._consumer.assignment()) if each.offset >= 0
            ]
            self._producer.send_offsets_to_transaction(reached, self._consumer.consumer_group_metadata())
            self._producer.commit_transaction(_STEP_TIMEOUT_S)
        self._producer.flush(_STEP_TIMEOUT_S)
        self._consumer.close()

    def _step(self) -> None:
        produce, value_of = self._producer.produce, Message.value
        wait_s = _WAIT_S[self._endless]
        for message in self._consumer.consume(_AT_ONCE, wait_s):
            error = message.error()
            if error is None:
                while True:
                    try:
                        produce(self._written, value_of(message))
                        break
                    except BufferError:
                        self._producer.poll(wait_s)
            elif error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            elif not self._endless:
                self._left.discard(message.partition())
        if self._endless:
            self._producer.flush(_STEP_TIMEOUT_S)
        else:
            self._producer.poll(0)


def copy(*given: Any) -> None:
    """One process; for its arguments see Copying."""
    Copying(*given).run()


def main() -> None:
    """Command line: servers, topics, number of processes, what else is asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers")
    parser.add_argument("read")
    parser.add_argument("written")
    parser.add_argument("processes", type=int)
    parser.add_argument("--guarantee", choices=["AT_LEAST_ONCE", "EXACTLY_ONCE"], default="EXACTLY_ONCE")
    parser.add_argument("--endless", action="store_true")
    given = parser.parse_args()
    topics = (given.servers, given.read, given.written)
    shares = [
        multiprocessing.Process(
            target=copy, args=(*topics, share, given.processes, given.guarantee, given.endless)
        )
        for share in range(given.processes)
    ]
    began = time.perf_counter()
    for process in shares:
        process.start()
    for process in shares:
        process.join()
    if any(process.exitcode for process in shares):
        raise SystemExit("a process of the loop failed")
    times = os.times()
    cpu_s = times.children_user + times.children_system
    report({"seconds": time.perf_counter() - began, "cpu_s": cpu_s})


if __name__ == "__main__":
    leave_own_folder()
    main()
