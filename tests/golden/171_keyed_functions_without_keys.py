# topic: process functions of the keyed kinds on streams without keys
# checks: they run, with side outputs, and as long as they ask for no keyed state, timer or key; what has a
# process_element runs too; on keyed streams, and of broadcast streams, the right kind is needed
import contextlib

from pyflink.common import Types
from pyflink.datastream import OutputTag, StreamExecutionEnvironment
from pyflink.datastream.functions import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
)
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

SIDE = OutputTag("side", Types.STRING())
RULES = MapStateDescriptor("rules", Types.INT(), Types.INT())


class One(KeyedProcessFunction):
    def __init__(self, touch=None):
        self.touch = touch

    def open(self, runtime_context):
        if self.touch == "state":
            runtime_context.get_state(ValueStateDescriptor("s", Types.INT()))
        if self.touch == "caught":
            with contextlib.suppress(Exception):
                runtime_context.get_state(ValueStateDescriptor("s", Types.INT()))

    def process_element(self, value, ctx):
        if self.touch == "key":
            yield str(ctx.get_current_key())
        if self.touch == "timer":
            ctx.timer_service().register_event_time_timer(5)
        if self.touch == "delete":
            ctx.timer_service().delete_processing_time_timer(5)
        if self.touch == "side":
            yield SIDE, f"side {value}"
        yield f"{value} {ctx.timestamp()} {hasattr(ctx, 'get_current_key')}"


class Two(KeyedCoProcessFunction):
    def __init__(self, touch=None):
        self.touch = touch

    def open(self, runtime_context):
        if self.touch == "state":
            runtime_context.get_map_state(MapStateDescriptor("s", Types.INT(), Types.INT()))

    def process_element1(self, value, ctx):
        if self.touch == "key":
            yield str(ctx.get_current_key())
        yield f"one {value} {ctx.timestamp()}"

    def process_element2(self, value, ctx):
        if self.touch == "timer":
            ctx.timer_service().register_event_time_timer(5)
        yield f"two {value} {ctx.timestamp()}"


class Broadcast(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield str(value)

    def process_broadcast_element(self, value, ctx):
        pass


class Plain:
    def process_element(self, value, ctx):
        yield f"plain {value}"


class PlainTwo:
    def process_element1(self, value, ctx):
        yield f"plain {value}"

    process_element2 = process_element1


class NotKeyed(ProcessFunction):
    def process_element(self, value, ctx):
        yield str(value)


def case(name, build):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    try:
        numbers = env.from_collection([1, 2], Types.INT())
        build(numbers, env.from_collection([3], Types.INT())).print(name)
        env.execute()
        print(name, "no error")
    except Exception:
        print(name, "error")


for touch in (None, "state", "caught", "key", "timer", "delete"):
    case(f"one-{touch}", lambda a, b, touch=touch: a.process(One(touch), Types.STRING()))
for touch in (None, "state", "key", "timer"):
    case(f"two-{touch}", lambda a, b, touch=touch: a.connect(b).process(Two(touch), Types.STRING()))
case("side", lambda a, b: a.process(One("side"), Types.STRING()).get_side_output(SIDE))
case("broadcast", lambda a, b: a.connect(b.broadcast(RULES)).process(Broadcast(), Types.STRING()))
case("plain", lambda a, b: a.process(Plain(), Types.STRING()))
case("plain-two", lambda a, b: a.connect(b).process(PlainTwo(), Types.STRING()))
case("plain-keyed", lambda a, b: a.key_by(lambda v: v).process(Plain(), Types.STRING()))
case("not-keyed", lambda a, b: a.key_by(lambda v: v).process(NotKeyed(), Types.STRING()))
