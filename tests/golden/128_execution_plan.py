# topic: job execution
# checks: get_execution_plan gives JSON with the nodes' ids, names, parallelism and predecessors without running
#         anything; names that were set appear; ship strategies.
import json

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
ds = env.from_collection([1, 2, 3], type_info=Types.INT()).name("the source")
ds.map(lambda v: v + 1, Types.INT()).name("plus one").set_parallelism(1).key_by(
    lambda v: v % 2, key_type=Types.INT()
).reduce(lambda a, b: a + b).name("sum up").rebalance().print().name("the sink")
plan = json.loads(env.get_execution_plan())
print(sorted(plan))
for node in plan["nodes"]:
    print(
        sorted(set(node) - {"predecessors"}),
        node["type"] if node["type"] in ("the source", "sum up") else "",
        node["pact"],
        node["parallelism"],
        len(node.get("predecessors", [])),
        [sorted(p) for p in node.get("predecessors", [])],
    )
names = [node["type"] for node in plan["nodes"]]
print(sorted(p["ship_strategy"] for n in plan["nodes"] for p in n.get("predecessors", [])))
print(
    any("plus one" in n for n in names),
    any("the sink" in n for n in names),
    len({n["id"] for n in plan["nodes"]}) == len(names),
)
env.execute("after the plan")
