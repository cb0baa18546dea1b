# topic: job execution
# checks: execute_async gives a JobClient with job id and result; execute_and_collect with a limit
#         gives a list; the iterator can be used by next() and closed; two sinks in one job; job names.
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection([1, 2, 3, 4, 5], type_info=Types.INT())
ds.map(lambda v: "async %d" % v, Types.STRING()).print()
client = env.execute_async("async job")
print("id", len(str(client.get_job_id())))
result = client.get_job_execution_result().result()
print("same id", str(result.get_job_id()) == str(client.get_job_id()), result.get_net_runtime() >= 0)

limited = env.from_collection([5, 6, 7], type_info=Types.INT()).execute_and_collect(limit=2)
print("limit", type(limited).__name__, limited)
it = env.from_collection([8, 9], type_info=Types.INT()).execute_and_collect("a name")
print("next", it.next(), next(it))
it.close()
with env.from_collection([10, 11, 12], type_info=Types.INT()).execute_and_collect() as it:
    for r in it:
        print("left early", r)
        break
many = env.from_collection(list(range(100)), type_info=Types.INT())
with many.execute_and_collect() as it:
    print("sum", sum(it))
ds = env.from_collection([1, 2], type_info=Types.INT())
ds.print("first sink")
ds.map(lambda v: v * 10, Types.INT()).print("second sink")
print(type(env.execute("two sinks")).__name__)
