# topic: word count and number sequence
# checks: a typical program: JSON texts parsed by a map, filtered, keyed by a field, per-key totals kept in a
#         map state, a pickled dict as output; texts out of a file; BATCH word count sorted by count.
import json
import os
import tempfile

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import KeyedProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat
from pyflink.datastream.state import MapStateDescriptor

events = [
    {"user": "ann", "kind": "click", "page": {"id": 1}},
    {"user": "bob", "kind": "click", "page": {"id": 2}},
    {"user": "ann", "kind": "buy", "page": {"id": 1}},
    {"user": "ann", "kind": "click", "page": {"id": 2}},
    {"user": "cyd", "kind": "noise", "page": {"id": 9}},
    {"user": "bob", "kind": "click", "page": {"id": 2}},
]


class PerPage(KeyedProcessFunction):
    def open(self, runtime_context):
        self.pages = runtime_context.get_map_state(MapStateDescriptor("pages", Types.INT(), Types.INT()))

    def process_element(self, value, ctx):
        page = value["page"]["id"]
        self.pages.put(page, (self.pages.get(page) or 0) + 1)
        yield {
            "user": ctx.get_current_key(),
            "kind": value["kind"],
            "pages": dict(sorted(self.pages.items())),
        }


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection([json.dumps(e) for e in events], type_info=Types.STRING())
result = (
    ds.map(json.loads)
    .filter(lambda e: e["kind"] != "noise")
    .key_by(lambda e: e["user"])
    .process(PerPage())
    .map(lambda e: json.dumps(e), Types.STRING())
)
result.print()
env.execute("events")

path = os.path.join(tempfile.mkdtemp(), "words.txt")
with open(path, "w") as f:
    f.write("to be or not to be\nthat is the question\nwhether to be\n")
env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
env.set_parallelism(2)
lines = env.from_source(
    FileSource.for_record_stream_format(StreamFormat.text_line_format(), path)
    .process_static_file_set()
    .build(),
    WatermarkStrategy.for_monotonous_timestamps(),
    "lines",
)
counted = (
    lines.flat_map(str.split, Types.STRING())
    .map(lambda w: (w, 1), Types.TUPLE([Types.STRING(), Types.INT()]))
    .key_by(lambda v: v[0])
    .sum(1)
)
with counted.execute_and_collect() as it:
    for word, n in sorted(it, key=lambda v: (-v[1], v[0])):
        print("%d %s" % (n, word))
