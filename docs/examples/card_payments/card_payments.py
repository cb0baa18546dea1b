"""Watches card payments: judges them by rules that change while it runs, knows each merchant's cards, counts sessions.

From Kafka to Kafka, exactly once:

* ``cards`` waits until event time has come past a payment, then judges it by the rules of its moment (a broadcast stream);
  a payment that comes more than ten minutes after a newer one of its card goes to ``late``;
* ``merchants`` remembers for 30 days which cards paid where, and tells after each hour in which most cards were new;
* ``sessions`` adds up what a card pays without half an hour of silence.

    python card_payments.py BOOTSTRAP_SERVERS [--prefix P] [--bounded] [KEY=VALUE ...]

Topics, each with the prefix before its name: ``payments`` with JSON like
``{"id": 1, "card": "c1", "merchant": "m1", "cents": 250}``, ``rules`` with JSON like ``{"name": "limit", "value": 50000}``,
and the job's own ``alerts``, ``sessions`` and ``late``. The times that count are the records' timestamps: when a payment was
made, from when a rule holds. What comes out does not depend on how both streams meet, on parallelism, or on crashes, as long
as the payments of a partition are at most ten minutes out of order and each rule is written before its moment.
"""

import argparse

from changelog_engine.api.common import Configuration, Duration, Row, Time, Types, WatermarkStrategy
from changelog_engine.api.datastream import (
    AggregateFunction,
    CheckpointingMode,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from changelog_engine.api.datastream.connectors.base import DeliveryGuarantee
from changelog_engine.api.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from changelog_engine.api.datastream.formats.json import (
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)
from changelog_engine.api.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from changelog_engine.api.datastream.window import EventTimeSessionWindows

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
LATE_MS = 10 * MINUTE_MS
NEW_CARDS = 20


# Functions, not constants: PyFlink cannot ship a type to its workers once the program has used it.
def payment_type():
    """What is paid; when, is the element's timestamp."""
    return Types.ROW_NAMED(
        ["id", "card", "merchant", "cents"], [Types.LONG(), Types.STRING(), Types.STRING(), Types.LONG()]
    )


def rule_type():
    """A rule's value from the element's timestamp on."""
    return Types.ROW_NAMED(["name", "value"], [Types.STRING(), Types.LONG()])


def alert_type():
    """A broken rule, of which card or merchant, and by how much."""
    return Types.ROW_NAMED(["rule", "subject", "figure"], [Types.STRING(), Types.STRING(), Types.LONG()])


def session_type():
    """From a session's first payment to half an hour after its last."""
    return Types.ROW_NAMED(
        ["card", "start_ms", "end_ms", "payments", "cents"],
        [Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG(), Types.LONG()],
    )


def rules_state():
    """Of each rule all values that it had and will have: (from when, value)."""
    return MapStateDescriptor("rules", Types.STRING(), Types.LIST(Types.TUPLE([Types.LONG(), Types.LONG()])))


def late_payments():
    """The tag of payments that came too late to be judged."""
    return OutputTag("late", payment_type())


def alerts_of_cards():
    """The tag of broken rules."""
    return OutputTag("alerts", alert_type())


class Judge(KeyedBroadcastProcessFunction):
    """Gives a card's payments in the order of their times, and an alert for each rule that one breaks."""

    def open(self, runtime_context):
        self.newest = runtime_context.get_state(ValueStateDescriptor("newest", Types.LONG()))
        self.waiting = runtime_context.get_map_state(
            MapStateDescriptor("waiting", Types.LONG(), Types.LIST(payment_type()))
        )
        self.recent = runtime_context.get_list_state(ListStateDescriptor("recent", Types.LONG()))
        self.day = runtime_context.get_state(
            ValueStateDescriptor("day", Types.TUPLE([Types.LONG(), Types.LONG()]))
        )
        self.rules, self.late, self.alerts = rules_state(), late_payments(), alerts_of_cards()

    def process_element(self, payment, ctx):
        time_ms = ctx.timestamp()
        newest_ms = self.newest.value()
        if newest_ms is not None and time_ms < newest_ms - LATE_MS:
            yield self.late, payment
            return
        if newest_ms is None or time_ms > newest_ms:
            self.newest.update(time_ms)
        # The rules of that moment may not have come yet: the timer waits for both streams.
        self.waiting.put(time_ms, [*(self.waiting.get(time_ms) or []), payment])
        ctx.timer_service().register_event_time_timer(time_ms)

    def process_broadcast_element(self, rule, ctx):
        state = ctx.get_broadcast_state(self.rules)
        state.put(rule.name, sorted([*(state.get(rule.name) or []), (ctx.timestamp(), rule.value)]))

    def on_timer(self, timestamp, ctx):
        rules = ctx.get_broadcast_state(self.rules)
        limit, often, daily = (held(rules.get(name), timestamp) for name in ("limit", "often", "daily"))
        recent = [time_ms for time_ms in self.recent.get() if time_ms > timestamp - 10 * MINUTE_MS]
        day = timestamp // DAY_MS
        last_day, spent = self.day.value() or (day, 0)
        if last_day != day:
            spent = 0
        for payment in self.waiting.get(timestamp):
            recent.append(timestamp)
            spent += payment.cents
            if limit is not None and payment.cents > limit:
                yield self.alerts, Row(rule="limit", subject=payment.card, figure=payment.cents)
            if often is not None and len(recent) > often:
                yield self.alerts, Row(rule="often", subject=payment.card, figure=len(recent))
            if daily is not None and spent > daily:
                yield self.alerts, Row(rule="daily", subject=payment.card, figure=spent)
            yield payment
        self.recent.update(recent)
        self.day.update((day, spent))
        self.waiting.remove(timestamp)


def held(values, time_ms):
    """The value that a rule had at a time; None before its first."""
    return next((value for from_ms, value in reversed(values or []) if from_ms <= time_ms), None)


class Merchant(KeyedProcessFunction):
    """Tells of hours in which most of a merchant's payments were by cards that had not paid there before."""

    def open(self, runtime_context):
        seen = MapStateDescriptor("seen", Types.STRING(), Types.LONG())
        seen.enable_time_to_live(StateTtlConfig.new_builder(Time.days(30)).build())
        self.seen = runtime_context.get_map_state(seen)
        counts = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.hours = runtime_context.get_map_state(MapStateDescriptor("hours", Types.LONG(), counts))

    def process_element(self, payment, ctx):
        hour = ctx.timestamp() // HOUR_MS
        payments, new_cards = self.hours.get(hour) or (0, 0)
        if not self.seen.contains(payment.card):
            new_cards += 1
        self.seen.put(payment.card, ctx.timestamp())
        self.hours.put(hour, (payments + 1, new_cards))
        ctx.timer_service().register_event_time_timer((hour + 1) * HOUR_MS - 1)
        return ()

    def on_timer(self, timestamp, ctx):
        hour = timestamp // HOUR_MS
        payments, new_cards = self.hours.get(hour)
        self.hours.remove(hour)
        if new_cards >= NEW_CARDS and 2 * new_cards > payments:
            yield Row(rule="new cards", subject=ctx.get_current_key(), figure=new_cards)


class Spending(AggregateFunction):
    """Payments and their sum."""

    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value.cents

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Session(ProcessWindowFunction):
    """Whose session it was, and when."""

    def process(self, key, context, elements):
        window = context.window()
        for payments, cents in elements:
            yield Row(card=key, start_ms=window.start, end_ms=window.end, payments=payments, cents=cents)


def build(env, payments, rules):
    """Put the job together between its sources and sinks.

    Args:
        env: Where it will run.
        payments: Stream of payments.
        rules: Stream of rules.

    Returns:
        Streams of alerts, sessions and late payments.
    """
    judged = (
        payments.key_by(lambda payment: payment.card, Types.STRING())
        .connect(rules.broadcast(rules_state()))
        .process(Judge(), payment_type())
        .uid("cards")
    )
    hours = (
        judged.key_by(lambda payment: payment.merchant, Types.STRING())
        .process(Merchant(), alert_type())
        .uid("merchants")
    )
    counts = Types.TUPLE([Types.LONG(), Types.LONG()])
    sessions = (
        judged.key_by(lambda payment: payment.card, Types.STRING())
        .window(EventTimeSessionWindows.with_gap(Time.minutes(30)))
        .side_output_late_data(late_payments())
        .aggregate(Spending(), Session(), accumulator_type=counts, output_type=session_type())
        .uid("sessions")
    )
    late = judged.get_side_output(late_payments()).union(sessions.get_side_output(late_payments()))
    return judged.get_side_output(alerts_of_cards()).union(hours), sessions, late


def source_of(servers, topic, row_type, bounded):
    """A topic of JSON rows from its beginning: to its end of now, or for ever."""
    rows = JsonRowDeserializationSchema.builder().type_info(row_type).build()
    source = KafkaSource.builder().set_bootstrap_servers(servers).set_topics(topic)
    source = source.set_group_id("card-payments").set_value_only_deserializer(rows)
    source = source.set_starting_offsets(KafkaOffsetsInitializer.earliest())
    return (source.set_bounded(KafkaOffsetsInitializer.latest()) if bounded else source).build()


def sink_of(servers, topic, row_type):
    """A topic of JSON rows, each there once."""
    rows = JsonRowSerializationSchema.builder().with_type_info(row_type).build()
    record = KafkaRecordSerializationSchema.builder().set_topic(topic).set_value_serialization_schema(rows)
    return (
        KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_record_serializer(record.build())
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(f"card-payments-{topic}")
        .set_property("transaction.timeout.ms", "600000")
        .build()
    )


def main(servers, prefix="", bounded=False, settings=()):
    """Run it: for ever, or bounded, to the end of what the topics hold now.

    Args:
        servers: Kafka's bootstrap servers.
        prefix: Before the names of all topics.
        bounded: Whether it ends.
        settings: Pairs of a configuration's key and value.
    """
    configuration = Configuration()
    for key, value in settings:
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    env.enable_checkpointing(1000, CheckpointingMode.EXACTLY_ONCE)
    env.enable_changelog_state_backend(True)
    # Payments of a partition are at most ten minutes out of order. Rules are rare: without any the job does not wait.
    in_some_order = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(LATE_MS))
    rarely = WatermarkStrategy.for_monotonous_timestamps()
    if not bounded:
        rarely = rarely.with_idleness(Duration.of_seconds(5))
    payments = env.from_source(
        source_of(servers, f"{prefix}payments", payment_type(), bounded), in_some_order, "payments"
    ).uid("payments")
    rules = env.from_source(source_of(servers, f"{prefix}rules", rule_type(), bounded), rarely, "rules").uid(
        "rules"
    )
    alerts, sessions, late = build(env, payments, rules)
    alerts.sink_to(sink_of(servers, f"{prefix}alerts", alert_type())).uid("alerts")
    sessions.sink_to(sink_of(servers, f"{prefix}sessions", session_type())).uid("sessions sink")
    late.sink_to(sink_of(servers, f"{prefix}late", payment_type())).uid("late")
    env.execute("card-payments")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("servers")
    parser.add_argument("--prefix", default="")
    parser.add_argument("--bounded", action="store_true", help="end at what the topics hold now")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="configuration, in Flink's own keys")
    arguments = parser.parse_intermixed_args()
    pairs = [setting.split("=", 1) for setting in arguments.settings]
    if not all(len(pair) == 2 for pair in pairs):
        parser.error(f"settings are KEY=VALUE; got {' '.join(arguments.settings)}")
    main(arguments.servers, arguments.prefix, arguments.bounded, pairs)
