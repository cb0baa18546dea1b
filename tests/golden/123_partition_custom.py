# topic: union and partitioning
# checks: partition_custom with a Partitioner class and with a lambda sends equal keys to the same subtask;
#         the number of partitions is that of the receiver; forward, global-like parallelism 1, rebalance.
#         (print sink: execute_and_collect fails with partition_custom.)
from pyflink.common import Types
from pyflink.datastream import MapFunction, Partitioner, StreamExecutionEnvironment


class Modulo(Partitioner):
    def partition(self, key, num_partitions):
        return key % num_partitions


class Where(MapFunction):
    def open(self, runtime_context):
        self.index = runtime_context.get_index_of_this_subtask()
        self.all = runtime_context.get_number_of_parallel_subtasks()

    def map(self, value):
        return "%s in %d of %d" % (value[1], self.index, self.all)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
pair = Types.TUPLE([Types.INT(), Types.STRING()])
ds = env.from_collection([(i, "n%d" % i) for i in range(6)], type_info=pair)
ds.partition_custom(Modulo(), lambda v: v[0]).map(Where(), Types.STRING()).map(
    lambda t: "class " + t, Types.STRING()
).print()
ds.partition_custom(lambda key, n: 1 if key > 2 else 0, lambda v: v[0]).map(Where(), Types.STRING()).map(
    lambda t: "lambda " + t, Types.STRING()
).print()
ds.partition_custom(lambda key, n: n - 1, lambda v: v[1]).map(Where(), Types.STRING()).set_parallelism(3).map(
    lambda t: "last " + t, Types.STRING()
).set_parallelism(3).print()
ds.map(lambda v: v, pair).set_parallelism(1).forward().map(Where(), Types.STRING()).set_parallelism(1).map(
    lambda t: "one " + t, Types.STRING()
).print()
env.execute()
