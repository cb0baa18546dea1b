# topic: errors
# checks: timers and get_current_key on a stream that is not keyed, union with another type, a wrong tag,
#         a negative count window, a key type that does not fit, project of a stream that is no tuple, bad
#         descriptor, sum of text, max parallelism below parallelism: all are errors.
from pyflink.common import Time, Types
from pyflink.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment
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


class UntaggedTuple(ProcessFunction):
    def process_element(self, value, ctx):
        yield OutputTag("x", Types.STRING()), "not read"
        yield value


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
case("tag nobody reads", lambda env, ds: ds.process(UntaggedTuple(), Types.INT()))
case("key type", lambda env, ds: ds.key_by(lambda v: "text", key_type=Types.INT()).map(lambda v: v, Types.INT()))
case("project of ints", lambda env, ds: ds.project(0))
case("parallelism 0", lambda env, ds: ds.map(lambda v: v, Types.INT()).set_parallelism(0))
case("max parallelism 0", lambda env, ds: ds.map(lambda v: v, Types.INT()).set_max_parallelism(0))
case("negative window", lambda env, ds: ds.key_by(lambda v: v).window(TumblingEventTimeWindows.of(Time.seconds(-1))).reduce(lambda a, b: a))
case("offset over size", lambda env, ds: ds.key_by(lambda v: v).window(SlidingEventTimeWindows.of(Time.seconds(1), Time.seconds(1), Time.seconds(2))).reduce(lambda a, b: a))
case("window without time stamps", lambda env, ds: ds.key_by(lambda v: v).window(TumblingEventTimeWindows.of(Time.seconds(1))).reduce(lambda a, b: a))
case("float for int", lambda env, ds: ds.map(lambda v: v + 0.5, Types.INT()))
case("int for text", lambda env, ds: ds.map(lambda v: v, Types.STRING()))
case("int for double", lambda env, ds: ds.map(lambda v: v, Types.DOUBLE()))
case("short tuple", lambda env, ds: ds.map(lambda v: (v,), Types.TUPLE([Types.INT(), Types.INT()])))
case("none for int", lambda env, ds: ds.map(lambda v: None, Types.INT()))
case("int out of range", lambda env, ds: ds.map(lambda v: 2**40, Types.INT()))
case("bool for int", lambda env, ds: ds.map(lambda v: True, Types.INT()))
case("truthy filter", lambda env, ds: ds.filter(lambda v: v - 1))
case("filter none", lambda env, ds: ds.filter(lambda v: None))
