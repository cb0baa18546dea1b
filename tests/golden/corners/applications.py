"""What programs are written for: each is a small application, with several things of the API at once."""

from __future__ import annotations

import datetime
import heapq
import random
import re
from decimal import Decimal

from pyflink.common import Duration, Row, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    AggregateFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
)
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from pyflink.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

from corners.how import unordered

_START = 1_700_000_000_000
_KEYS = "timers of several users have no order between them"
_NAMES = ["user", "kind", "amount", "ts"]
_EVENT = Types.ROW_NAMED(_NAMES, [Types.STRING(), Types.STRING(), Types.DOUBLE(), Types.LONG()])


class _At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value["ts"]


def _events(env):
    """Sixty events of three users, up to two seconds late."""
    chance = random.Random(7)
    events = [
        Row(
            user=chance.choice(["ann", "bob", "cy"]),
            kind=chance.choice(["view", "cart", "buy", "view"]),
            amount=round(chance.uniform(1, 99), 2),
            ts=_START + number * 700 + chance.randrange(-1500, 1500),
        )
        for number in range(60)
    ]
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(2000))
    timed = strategy.with_timestamp_assigner(_At())
    return env.from_collection(events, _EVENT).assign_timestamps_and_watermarks(timed)


def _by_user(stream):
    return stream.key_by(lambda event: event.user, Types.STRING())


class _Funnel(KeyedProcessFunction):
    def open(self, runtime_context):
        self.stage = runtime_context.get_state(ValueStateDescriptor("stage", Types.STRING()))
        self.due = runtime_context.get_state(ValueStateDescriptor("due", Types.LONG()))

    def process_element(self, value, ctx):
        stage = self.stage.value()
        if value.kind == "view" and stage is None:
            self._wait("view", value, ctx)
        elif value.kind == "cart" and stage == "view":
            self._wait("cart", value, ctx)
        elif value.kind == "buy" and stage == "cart":
            ctx.timer_service().delete_event_time_timer(self.due.value())
            self.stage.clear()
            self.due.clear()
            yield f"{value.user} bought {value.amount}"

    def _wait(self, stage, value, ctx):
        self.stage.update(stage)
        if self.due.value():
            ctx.timer_service().delete_event_time_timer(self.due.value())
        self.due.update(value.ts + 5000)
        ctx.timer_service().register_event_time_timer(value.ts + 5000)

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()} gave up at {self.stage.value()} {timestamp == self.due.value()}"
        self.stage.clear()


@unordered(_KEYS)
def funnel(env):
    """Who saw, put into the cart and bought; a timer that each step sets anew gives up."""
    return _by_user(_events(env)).process(_Funnel(), Types.STRING())


class _CountAndSum(AggregateFunction):
    def create_accumulator(self):
        return Row(0, 0.0)

    def add(self, value, accumulator):
        return Row(accumulator[0] + 1, accumulator[1] + value.amount)

    def get_result(self, accumulator):
        return Row(accumulator[0], round(accumulator[1], 2))

    def merge(self, a, b):
        return Row(a[0] + b[0], a[1] + b[1])


class _WithItsWindow(ProcessWindowFunction):
    def process(self, key, context, elements):
        (result,) = elements
        yield key, context.window().end, result[0], result[1]


def _result():
    """A type that a stream has used holds a Java object in PyFlink: functions that go to workers cannot name it."""
    return Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT(), Types.DOUBLE()])


class _Best(KeyedProcessFunction):
    def open(self, runtime_context):
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", _result()))

    def process_element(self, value, ctx):
        self.waiting.add(value)
        ctx.timer_service().register_event_time_timer(value[1] + 1)

    def on_timer(self, timestamp, ctx):
        best = heapq.nlargest(2, self.waiting.get(), key=lambda result: (result[3], result[0]))
        self.waiting.clear()
        yield f"{timestamp - _START} {[(result[0], result[2], result[3]) for result in best]}"


@unordered(_KEYS)
def best_of_each_window(env):
    """Counts and sums of sliding windows, then the two best of each window by a list state and a timer."""
    windows = _by_user(_events(env)).window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(5)))
    accumulator = Types.ROW([Types.INT(), Types.DOUBLE()])
    results = windows.aggregate(_CountAndSum(), _WithItsWindow(), accumulator, _result())
    return results.key_by(lambda result: result[1], Types.LONG()).process(_Best(), Types.STRING())


class _Near(KeyedCoProcessFunction):
    def open(self, runtime_context):
        amounts = Types.LIST(Types.DOUBLE())
        self.first = runtime_context.get_map_state(MapStateDescriptor("first", Types.LONG(), amounts))
        self.second = runtime_context.get_map_state(MapStateDescriptor("second", Types.LONG(), amounts))

    def _keep(self, state, value, ctx):
        state.put(value.ts, [*(state.get(value.ts) or []), value.amount])
        ctx.timer_service().register_event_time_timer(_START + 10**9)

    def process_element1(self, value, ctx):
        self._keep(self.first, value, ctx)

    def process_element2(self, value, ctx):
        self._keep(self.second, value, ctx)

    def on_timer(self, timestamp, ctx):
        pairs = [
            (len(ones) * len(others), sum(ones) + sum(others))
            for time, ones in sorted(self.first.items())
            for other, others in sorted(self.second.items())
            if abs(other - time) <= 2000
        ]
        yield f"{ctx.get_current_key()} {sum(n for n, _ in pairs)} {sum(total for _, total in pairs):.2f}"


@unordered(_KEYS)
def joined_within_two_seconds(env):
    """Two streams out of one source, joined by time in map states of lists."""
    events = _events(env)
    views, bought = (events.filter(lambda e: e.kind == "view"), events.filter(lambda e: e.kind == "buy"))
    keyed = views.connect(bought).key_by(lambda e: e.user, lambda e: e.user, Types.STRING())
    return keyed.process(_Near(), Types.STRING())


class _Numbered(ProcessWindowFunction):
    def process(self, key, context, elements):
        count = context.global_state().get_state(ValueStateDescriptor("count", Types.INT()))
        count.update((count.value() or 0) + 1)
        window, amounts = context.window(), [event.amount for event in elements]
        yield f"{key} {count.value()} {window.start - _START} {window.end - _START} {sum(amounts):.2f}"


@unordered(_KEYS)
def sessions_of_a_user_numbered(env):
    """Sessions that know which one of the user they are, by the state of the key."""
    windows = _by_user(_events(env)).window(EventTimeSessionWindows.with_gap(Time.milliseconds(2500)))
    return windows.process(_Numbered(), Types.STRING())


@unordered("two streams are printed")
def rows_reduced_twice(env):
    """The same function of rows in windows and without."""

    def together(a, b):
        amount = round(a.amount + b.amount, 2)
        return Row(user=a.user, kind=max(a.kind, b.kind), amount=amount, ts=max(a.ts, b.ts))

    keyed = _by_user(_events(env))
    keyed.window(TumblingEventTimeWindows.of(Time.seconds(20))).reduce(together).print("window")
    amounts = Types.TUPLE([Types.STRING(), Types.DOUBLE()])
    keyed.reduce(together).map(lambda event: (event.user, event.amount), amounts).print("rolling")
    env.execute()


_LINE = re.compile(r"(\S+) \S+ \S+ \[([^]]+)\] \"(\w+) (\S+) [^\"]*\" (\d+) (\d+)")


def _parsed(line):
    found = _LINE.match(line)
    if found:
        address, at, method, path, status, size = found.groups()
        when = datetime.datetime.strptime(at, "%d/%b/%Y:%H:%M:%S")
        yield Row(ip=address, at=when, method=method, path=path, status=int(status), size=int(size))


@unordered("several streams are printed")
def lines_of_a_log(env):
    """Lines of a web server's log as rows with times and numbers; those that are none are left out."""
    lines = [
        '1.2.3.4 - - [10/Oct/2000:13:55:36] "GET /a HTTP/1.0" 200 2326',
        "bad line",
        '5.6.7.8 - - [10/Oct/2000:13:56:36] "POST /b HTTP/1.0" 500 12',
        '1.2.3.4 - - [10/Oct/2000:13:57:00] "GET /c HTTP/1.0" 404 0',
    ]
    names = ["ip", "at", "method", "path", "status", "size"]
    text = Types.STRING()
    row = Types.ROW_NAMED(names, [text, Types.SQL_TIMESTAMP(), text, text, Types.SHORT(), Types.LONG()])
    requests = env.from_collection(lines, text).flat_map(_parsed, row)
    requests.print("request")
    requests.key_by(lambda request: request.ip).sum("size").print("sum")
    kinds = requests.key_by(lambda request: request.status // 100, Types.INT())
    kinds.map(lambda request: str(request.as_dict()), text).print("kind")
    env.execute()


@unordered("several streams are printed")
def amounts_of_money(env):
    """Decimals keep their digits in sums, in max_by and where they are rounded."""
    accounts = [("a", "1.10"), ("b", "2.205"), ("a", "0.90"), ("b", "-5")]
    pair = Types.TUPLE([Types.STRING(), Types.BIG_DEC()])
    payments = env.from_collection([(name, Decimal(amount)) for name, amount in accounts], pair)
    keyed = payments.key_by(lambda payment: payment[0])
    keyed.reduce(lambda a, b: (a[0], a[1] + b[1])).print("sum")
    keyed.max_by(1).print("largest")
    payments.map(lambda payment: payment[1].quantize(Decimal("0.01")), Types.BIG_DEC()).print("rounded")
    env.execute()
