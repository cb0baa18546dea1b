"""What librdkafka and a broker do by themselves: copy a topic's values into another, in transactions of a second.

``python kafka_loop.py SERVERS READ WRITTEN PROCESSES`` gives each process its share of the partitions, and prints the
CPU seconds of all of them as JSON. No job from topic to topic can take less than this does.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from keyed_count import leave_own_folder, report

_TRANSACTION_S = 1.0
_AT_ONCE = 1_000
_WAIT_S = 0.1
_STEP_TIMEOUT_S = 60.0


def copy(servers: str, read: str, written: str, share: int, shares: int) -> None:
    """Copy one share of the partitions, up to their ends, exactly once.

    Args:
        servers: where the broker is.
        read, written: topics.
        share: which, of so many `shares`.
        shares: how many there are.
    """
    settings = {"bootstrap.servers": servers}
    consumer = Consumer(
        {
            **settings,
            "group.id": f"loop-{written}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    found = consumer.list_topics(read, timeout=_STEP_TIMEOUT_S).topics[read].partitions
    left = {partition for partition in found if partition % shares == share}
    consumer.assign([TopicPartition(read, partition, 0) for partition in left])
    producer = Producer(
        {
            **settings,
            "transactional.id": f"loop-{written}-{share}",
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 131_072,
        }
    )
    producer.init_transactions(_STEP_TIMEOUT_S)
    produce, value_of = producer.produce, Message.value
    while left:
        producer.begin_transaction()
        until = time.monotonic() + _TRANSACTION_S
        while left and time.monotonic() < until:
            messages = consumer.consume(_AT_ONCE, _WAIT_S)
            for message in messages:
                error = message.error()
                if error is None:
                    while True:
                        try:
                            produce(written, value_of(message))
                            break
                        except BufferError:
                            producer.poll(_WAIT_S)
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
                else:
                    raise KafkaException(error)
            producer.poll(0)
        reached = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(
            [each for each in reached if each.offset >= 0], consumer.consumer_group_metadata()
        )
        producer.commit_transaction(_STEP_TIMEOUT_S)
    consumer.close()


def main() -> None:
    """Command line: servers, topics, number of processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers")
    parser.add_argument("read")
    parser.add_argument("written")
    parser.add_argument("processes", type=int)
    given = parser.parse_args()
    topics = (given.servers, given.read, given.written)
    shares = [
        multiprocessing.Process(target=copy, args=(*topics, share, given.processes))
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
