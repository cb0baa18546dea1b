"""A year of departures from New York, as a keyed, stateful job.

Three keyed stages, all five kinds of state, and a timer:

* ``carriers`` keeps statistics for each airline: flights, cancellations, destinations, delays;
* ``aircraft`` follows each aircraft: where it went, its routes, miles and delays, and a timer that notices when it
  hasn't left New York again within six hours;
* ``airports`` counts, for each airport, the aircraft that made such a pause there.

    python flights_job.py FLIGHTS.csv BASE_PATH [FLIGHTS_PER_SECOND]

The state at the end doesn't depend on how the input is cut into epochs, on parallelism, or on crashes: demo.py kills
this job half-way and compares with reference.py.
"""

import sys
import time

from changelog_engine.api.common import Configuration, Row, Types, WatermarkStrategy
from changelog_engine.api.common.watermark_strategy import TimestampAssigner
from changelog_engine.api.datastream import (
    AggregateFunction,
    KeyedProcessFunction,
    MapFunction,
    ReduceFunction,
    StreamExecutionEnvironment,
)
from changelog_engine.api.datastream.connectors.file_system import FileSource, StreamFormat
from changelog_engine.api.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

SIX_HOURS_MS = 6 * 60 * 60 * 1000
LONG_DELAY_MINUTES = 300
PROGRESS_EVERY = 10_000

FLIGHT = Types.ROW_NAMED(
    ["departure_ms", "carrier", "number", "aircraft", "origin", "destination", "delay_minutes", "miles"],
    [
        Types.LONG(),
        Types.STRING(),
        Types.STRING(),
        Types.STRING(),
        Types.STRING(),
        Types.STRING(),
        Types.LONG(),
        Types.LONG(),
    ],
)


def parse(line: str) -> Row:
    """One line of the prepared file; a cancelled flight has no delay, and some have no aircraft."""
    departure_ms, carrier, number, aircraft, origin, destination, delay_minutes, miles = line.split(",")
    return Row(
        departure_ms=int(departure_ms),
        carrier=carrier,
        number=number,
        aircraft=aircraft,
        origin=origin,
        destination=destination,
        delay_minutes=int(delay_minutes) if delay_minutes else None,
        miles=int(miles),
    )


class Replay(MapFunction):
    """Lets a fixed number of elements through per second, so that there is something to watch. Your own job needs none."""

    def __init__(self, per_second: int) -> None:
        self.per_second = per_second

    def open(self, runtime_context):
        self.began = time.monotonic()
        self.seen = 0

    def map(self, value):
        self.seen += 1
        if self.seen % 100 == 0:
            ahead = self.seen / self.per_second - (time.monotonic() - self.began)
            if ahead > 0:
                time.sleep(ahead)
            elif ahead < -1:  # idle or held up for a while: don't hurry after it
                self.began, self.seen = time.monotonic(), 0
        return value


class ScheduledDeparture(TimestampAssigner):
    """Event time is when the flight should have left; the file is in that order."""

    def extract_timestamp(self, value, record_timestamp):
        return value.departure_ms


class Add(ReduceFunction):
    """A running sum."""

    def reduce(self, value1, value2):
        return value1 + value2


class Largest(ReduceFunction):
    """A running maximum."""

    def reduce(self, value1, value2):
        return max(value1, value2)


class Mean(AggregateFunction):
    """The mean, by count and sum."""

    def create_accumulator(self):
        return (0, 0)

    def add(self, value, accumulator):
        return (accumulator[0] + 1, accumulator[1] + value)

    def get_result(self, accumulator):
        return accumulator[1] / accumulator[0]

    def merge(self, acc_a, acc_b):
        return (acc_a[0] + acc_b[0], acc_a[1] + acc_b[1])


class Carrier(KeyedProcessFunction):
    """Statistics of one airline."""

    def open(self, runtime_context):
        count_and_sum = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.flights = runtime_context.get_state(ValueStateDescriptor("flights", Types.LONG()))
        self.cancelled = runtime_context.get_state(ValueStateDescriptor("cancelled", Types.LONG()))
        self.destinations = runtime_context.get_map_state(
            MapStateDescriptor("destinations", Types.STRING(), Types.LONG())
        )
        self.long_delays = runtime_context.get_list_state(ListStateDescriptor("long delays", Types.STRING()))
        self.worst = runtime_context.get_reducing_state(
            ReducingStateDescriptor("worst delay", Largest(), Types.LONG())
        )
        self.delay = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("mean delay", Mean(), count_and_sum)
        )

    def process_element(self, value, ctx):
        flights = (self.flights.value() or 0) + 1
        self.flights.update(flights)
        if value.delay_minutes is None:
            self.cancelled.update((self.cancelled.value() or 0) + 1)
        else:
            self.destinations.put(value.destination, (self.destinations.get(value.destination) or 0) + 1)
            self.worst.add(value.delay_minutes)
            self.delay.add(value.delay_minutes)
            if value.delay_minutes >= LONG_DELAY_MINUTES:
                self.long_delays.add(f"{value.number} to {value.destination}: {value.delay_minutes} min")
        if flights % PROGRESS_EVERY == 0:
            yield f"{value.carrier}: {flights:,} flights, mean delay {self.delay.get():.1f} min"


class Aircraft(KeyedProcessFunction):
    """The life of one aircraft."""

    def open(self, runtime_context):
        position = Types.ROW_NAMED(["airport", "flight"], [Types.STRING(), Types.STRING()])
        departure = Types.TUPLE([Types.LONG(), Types.STRING()])
        count_and_sum = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.position = runtime_context.get_state(ValueStateDescriptor("position", position))
        self.pauses = runtime_context.get_state(ValueStateDescriptor("pauses", Types.LONG()))
        self.timers = runtime_context.get_state(ValueStateDescriptor("timers", Types.LONG()))
        # (when, where to) of the flights whose timers are still to come.
        self.departures = runtime_context.get_list_state(ListStateDescriptor("departures", departure))
        self.routes = runtime_context.get_map_state(
            MapStateDescriptor("routes", Types.STRING(), Types.LONG())
        )
        self.miles = runtime_context.get_reducing_state(ReducingStateDescriptor("miles", Add(), Types.LONG()))
        self.delay = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("mean delay", Mean(), count_and_sum)
        )

    def process_element(self, value, ctx):
        self.position.update(Row(airport=value.destination, flight=value.carrier + value.number))
        self.departures.add((value.departure_ms, value.destination))
        route = f"{value.origin}-{value.destination}"
        self.routes.put(route, (self.routes.get(route) or 0) + 1)
        self.miles.add(value.miles)
        self.delay.add(value.delay_minutes)
        ctx.timer_service().register_event_time_timer(value.departure_ms + SIX_HOURS_MS)
        return ()

    def on_timer(self, timestamp, ctx):
        self.timers.update((self.timers.value() or 0) + 1)
        departures = list(self.departures.get())
        # Later flights may have come before the watermark did: only those up to now end the silence.
        due = [airport for departed, airport in departures if departed == timestamp - SIX_HOURS_MS]
        later = [departure for departure in departures if departure[0] > timestamp - SIX_HOURS_MS]
        if later:
            self.departures.update(later)
        else:
            self.departures.clear()
        if not any(departed <= timestamp for departed, _ in later):
            self.pauses.update((self.pauses.value() or 0) + 1)
            yield due[0]


class Airport(KeyedProcessFunction):
    """How many aircraft paused at one airport."""

    def open(self, runtime_context):
        self.paused = runtime_context.get_state(ValueStateDescriptor("paused", Types.LONG()))

    def process_element(self, value, ctx):
        paused = (self.paused.value() or 0) + 1
        self.paused.update(paused)
        if paused % PROGRESS_EVERY == 0:
            yield f"{value}: {paused:,} aircraft didn't come back within six hours"


def build(env: StreamExecutionEnvironment, path: str, per_second: int) -> None:
    """Put the job together; nothing runs yet."""
    lines = env.from_source(
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), path).build(),
        WatermarkStrategy.no_watermarks(),
        "lines",
    )
    in_departure_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        ScheduledDeparture()
    )
    flights = (
        lines.map(Replay(per_second), Types.STRING())
        .map(parse, FLIGHT)
        .assign_timestamps_and_watermarks(in_departure_order)
    )
    carriers = (
        flights.key_by(lambda flight: flight.carrier, Types.STRING())
        .process(Carrier(), Types.STRING())
        .uid("carriers")
    )
    pauses = (
        flights.filter(lambda flight: flight.delay_minutes is not None)
        .key_by(lambda flight: flight.aircraft, Types.STRING())
        .process(Aircraft(), Types.STRING())
        .uid("aircraft")
    )
    airports = (
        pauses.key_by(lambda airport: airport, Types.STRING())
        .process(Airport(), Types.STRING())
        .uid("airports")
    )
    carriers.union(airports).print()


def main(path: str, base_path: str, per_second: int = 1_000_000) -> None:
    """Run the job to its end, or on from its last checkpoint where an earlier run didn't finish."""
    configuration = Configuration()
    configuration.set_string("state.changelog.dstl.dfs.base-path", base_path)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    env.enable_checkpointing(1000)
    env.enable_changelog_state_backend(True)
    build(env, path, per_second)
    env.execute("flights")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:4]))
