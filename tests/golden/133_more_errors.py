# topic: errors
# checks: timers and get_current_key on a stream that is not keyed, union with another type, a negative
#         window, a key type that does not fit, project of a stream that is no tuple, a bad
#         descriptor are errors; what a filter gives need not be a boolean.
from pyflink.common import Time, Types
from pyflink.datastream import ProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.functions import MapFunction
from pyflink.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows


class Timers(ProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(5)
        yield value


class WrongState(MapFunction):
    def open(self, runtime_context):
        self.s = runtime_context.get_state("no descriptor")

    def map(self, value):
        return value


def case(name, build):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    try:
        ds = env.from_collection([1, 2, 3], type_info=Types.INT())
        build(env, ds).print(name)
        env.execute()
        print(name, "no error")
    except Exception:
        print(name, "error")


case("timers not keyed", lambda env, ds: ds.process(Timers(), Types.INT()))
case("union of types", lambda env, ds: ds.union(ds.map(lambda v: str(v), Types.STRING())))
case("wrong state", lambda env, ds: ds.key_by(lambda v: v).map(WrongState(), Types.INT()))
case(
    "key type",
    lambda env, ds: ds.key_by(lambda v: "text", key_type=Types.INT()).map(lambda v: v, Types.INT()),
)
case("project of ints", lambda env, ds: ds.project(0))
case("parallelism 0", lambda env, ds: ds.map(lambda v: v, Types.INT()).set_parallelism(0))
case("max parallelism 0", lambda env, ds: ds.map(lambda v: v, Types.INT()).set_max_parallelism(0))
case(
    "negative window",
    lambda env, ds: (
        ds.key_by(lambda v: v).window(TumblingEventTimeWindows.of(Time.seconds(-1))).reduce(lambda a, b: a)
    ),
)
case(
    "offset over size",
    lambda env, ds: (
        ds.key_by(lambda v: v)
        .window(SlidingEventTimeWindows.of(Time.seconds(1), Time.seconds(1), Time.seconds(2)))
        .reduce(lambda a, b: a)
    ),
)
case(
    "window without time stamps",
    lambda env, ds: (
        ds.key_by(lambda v: v).window(TumblingEventTimeWindows.of(Time.seconds(1))).reduce(lambda a, b: a)
    ),
)
case("int for text", lambda env, ds: ds.map(lambda v: v, Types.STRING()))
case("none for int", lambda env, ds: ds.map(lambda v: None, Types.INT()))
case("truthy filter", lambda env, ds: ds.filter(lambda v: v - 1))
case("filter none", lambda env, ds: ds.filter(lambda v: None))
