"""Makes payments and rules for card_payments.py, the same ones each time.

    python made_payments.py BOOTSTRAP_SERVERS [--prefix P] [--payments N]

creates the job's topics and writes N payments, one a second. Most cards pay some five times within a quarter of an hour and
then not for long; now and then a terminal that was offline sends an old payment, and thieves try new cards at one merchant.
"""

import argparse
import json
import random
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

BEGINNING_MS = 1_767_571_200_000  # 2026-01-05 00:00:00 UTC
CARDS = 10_000
MERCHANTS = 500
PARTITIONS = 4
WRITTEN = ("alerts", "sessions", "late")


class Payment(NamedTuple):
    """When it was made, and what of it is in the record."""

    time_ms: int
    id: int
    card: str
    merchant: str
    cents: int


class Rule(NamedTuple):
    """From when it holds, and what of it is in the record."""

    time_ms: int
    name: str
    value: int


def made_payments(number: int) -> Iterator[Payment]:
    """So many payments, nearly in the order of their times; those of one card in one partition never too late by chance.

    Args:
        number: How many.
    """
    chance = random.Random(number)
    active = [f"c{chance.randrange(CARDS)}" for _ in range(200)]
    made = 0
    while made < number:
        now_ms = BEGINNING_MS + 1_000 * made
        slot = chance.randrange(len(active))
        payment = Payment(
            now_ms - chance.randrange(300_000),
            made,
            active[slot],
            f"m{int(MERCHANTS * chance.random() ** 2)}",
            int(chance.paretovariate(1.2) * 500),
        )
        yield payment
        made += 1
        if chance.random() < 0.2:
            active[slot] = f"c{chance.randrange(CARDS)}"
        if made < number and chance.random() < 0.005:
            yield payment._replace(time_ms=payment.time_ms - 2 * 3_600_000, id=made)
            made += 1
        if made % 5_000 < 2 and made < number - 40:
            merchant = f"m{chance.randrange(MERCHANTS)}"
            for _ in range(40):
                yield Payment(now_ms, made, f"stolen {made}", merchant, 1 + chance.randrange(99))
                made += 1


def made_rules(payments: int) -> list[Rule]:
    """Rules that change ten times while this many payments are made."""
    first = [
        Rule(BEGINNING_MS - 3_600_000, name, value)
        for name, value in (("limit", 50_000), ("often", 6), ("daily", 100_000))
    ]
    tenth_ms = payments * 100
    changes = [
        Rule(BEGINNING_MS + turn * tenth_ms, *change)
        for turn, change in enumerate([("limit", 30_000), ("often", 5), ("daily", 80_000)] * 3, 1)
    ]
    return first + [rule._replace(value=rule.value + 1_000 * (rule.name != "often")) for rule in changes]


def as_json(element: Payment | Rule) -> bytes:
    """The record of a payment or rule: all but its time."""
    fields = element._asdict()
    del fields["time_ms"]
    return json.dumps(fields).encode()


def partition_of(card: str) -> int:
    """A card's payments are in one partition, in their order."""
    return zlib.crc32(card.encode()) % PARTITIONS


def create_topics(servers: str, prefix: str = "", **settings: str) -> None:
    """Create the topics of a job.

    Args:
        servers: Kafka's bootstrap servers.
        prefix: Before the names of all topics.
        settings: Of the topics that the job writes, with underscores for dots.
    """
    written = {name.replace("_", "."): value for name, value in settings.items()}
    topics = [
        NewTopic(f"{prefix}payments", num_partitions=PARTITIONS),
        NewTopic(f"{prefix}rules", num_partitions=1),
        *(NewTopic(f"{prefix}{name}", num_partitions=1, config=written) for name in WRITTEN),
    ]
    admin = AdminClient({"bootstrap.servers": servers})
    for created in admin.create_topics(topics).values():
        created.result(60)


def write(servers: str, prefix: str, number: int) -> None:
    """Write payments and rules.

    Args:
        servers: Kafka's bootstrap servers.
        prefix: Before the names of all topics.
        number: How many payments.

    Raises:
        RuntimeError: The broker did not take all of them.
    """
    refused = []
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 20})

    def produce(topic: str, element: Payment | Rule, partition: int) -> None:
        while True:
            try:
                producer.produce(
                    f"{prefix}{topic}",
                    as_json(element),
                    partition=partition,
                    timestamp=element.time_ms,
                    on_delivery=lambda error, _: error and refused.append(error),
                )
                return
            except BufferError:  # full: wait until some are written
                producer.poll(0.1)

    for rule in made_rules(number):
        produce("rules", rule, 0)
    for payment in made_payments(number):
        produce("payments", payment, partition_of(payment.card))
    if producer.flush(60) or refused:
        raise RuntimeError(f"the broker did not take all payments: {refused[:1]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("servers")
    parser.add_argument("--prefix", default="")
    parser.add_argument("--payments", type=int, default=100_000)
    arguments = parser.parse_args()
    create_topics(arguments.servers, arguments.prefix)
    write(arguments.servers, arguments.prefix, arguments.payments)
