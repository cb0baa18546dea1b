# topic: state time to live
# checks: OnReadAndWrite: reading starts the time anew; Disabled: never expires; list state entries and map state
#         entries expire one by one; clear and write after expiry. (The Python state cache is off: real
#         PyFlink never expires what that cache holds.)
import time

from pyflink.common import Configuration, Time, Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)


class Expiring(KeyedProcessFunction):
    def open(self, runtime_context):
        def with_ttl(descriptor, update_type):
            descriptor.enable_time_to_live(
                StateTtlConfig.new_builder(Time.seconds(4))
                .set_update_type(update_type)
                .set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)
                .build()
            )
            return descriptor

        kinds = StateTtlConfig.UpdateType
        self.read = runtime_context.get_state(
            with_ttl(ValueStateDescriptor("read", Types.STRING()), kinds.OnReadAndWrite)
        )
        self.never = runtime_context.get_state(
            with_ttl(ValueStateDescriptor("never", Types.STRING()), kinds.Disabled)
        )
        self.list = runtime_context.get_list_state(
            with_ttl(ListStateDescriptor("list", Types.STRING()), kinds.OnCreateAndWrite)
        )
        self.map = runtime_context.get_map_state(
            with_ttl(MapStateDescriptor("map", Types.STRING(), Types.INT()), kinds.OnCreateAndWrite)
        )

    def process_element(self, value, ctx):
        name, wait, write = value
        time.sleep(wait)
        yield "%s read=%s never=%s list=%s map=%s" % (
            name,
            self.read.value(),
            self.never.value(),
            list(self.list.get() or []),
            sorted(self.map.items()),
        )
        if write:
            self.list.add(name)
            self.map.put(name, 1)
        if write and self.read.value() is None:
            self.read.update(name)
            self.never.update(name)


config = Configuration()
config.set_integer("python.fn-execution.bundle.size", 1)
config.set_string("python.state.cache-size", "0")
config.set_string("python.map-state.read-cache-size", "0")
config.set_string("python.map-state.write-cache-size", "0")
env = StreamExecutionEnvironment.get_execution_environment(config)
env.set_parallelism(1)
ds = env.from_collection(
    [
        ("t0", 0.0, True),
        ("t2.5", 2.5, True),
        ("t5 read lives, first entries gone", 2.5, False),
        ("t7.5 all entries gone, read lives", 2.5, False),
        ("t13 expired", 5.5, False),
        ("t13 again", 0.0, True),
        ("t13 after writing", 0.0, False),
    ],
    type_info=Types.TUPLE([Types.STRING(), Types.DOUBLE(), Types.BOOLEAN()]),
)
result = ds.key_by(lambda v: 1, key_type=Types.INT()).process(Expiring(), Types.STRING())
with result.execute_and_collect() as it:
    for r in it:
        print(r)
