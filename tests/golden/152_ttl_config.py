# ordered
# topic: state time to live
# checks: the getters of StateTtlConfig: defaults, what the builder sets, a disabled one, cleanup strategies; a
#         descriptor with time to live works in a job as long as nothing expires.
from pyflink.common import Time, Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

config = StateTtlConfig.new_builder(Time.minutes(5)).build()


def show(name, c):
    print(
        name,
        c.get_update_type().name,
        c.get_state_visibility().name,
        c.get_ttl().to_milliseconds(),
        c.get_ttl_time_characteristic().name,
        c.is_enabled(),
        c.get_cleanup_strategies().is_cleanup_in_background(),
        c.get_cleanup_strategies().in_full_snapshot(),
    )


show("default", config)
full = (
    StateTtlConfig.new_builder(Time.days(1))
    .update_ttl_on_read_and_write()
    .return_expired_if_not_cleaned_up()
    .use_processing_time()
    .cleanup_full_snapshot()
    .cleanup_incrementally(20, True)
    .cleanup_in_rocksdb_compact_filter(500)
    .build()
)
show("full", full)
incremental = full.get_cleanup_strategies().get_incremental_cleanup_strategy()
print(incremental.get_cleanup_size(), incremental.run_cleanup_for_every_record())
print(
    full.get_cleanup_strategies()
    .get_rocksdb_compact_filter_cleanup_strategy()
    .get_query_time_after_num_entries()
)
show(
    "others",
    StateTtlConfig.new_builder(Time.seconds(1))
    .update_ttl_on_create_and_write()
    .never_return_expired()
    .disable_cleanup_in_background()
    .build(),
)


class Counting(KeyedProcessFunction):
    def open(self, runtime_context):
        def living(descriptor):
            descriptor.enable_time_to_live(
                StateTtlConfig.new_builder(Time.days(1)).update_ttl_on_read_and_write().build()
            )
            return descriptor

        self.n = runtime_context.get_state(living(ValueStateDescriptor("n", Types.INT())))
        self.l = runtime_context.get_list_state(living(ListStateDescriptor("l", Types.INT())))
        self.m = runtime_context.get_map_state(living(MapStateDescriptor("m", Types.INT(), Types.INT())))

    def process_element(self, value, ctx):
        self.n.update((self.n.value() or 0) + value)
        self.l.add(value)
        self.m.put(value, self.n.value())
        yield "%d %s %s" % (self.n.value(), list(self.l.get()), sorted(self.m.items()))


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection([1, 2, 3], type_info=Types.INT())
with (
    ds.key_by(lambda v: 0, key_type=Types.INT())
    .process(Counting(), Types.STRING())
    .execute_and_collect() as it
):
    for r in it:
        print(r)
