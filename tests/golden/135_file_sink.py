# topic: files
# checks: FileSink in row format writes every element as a line (tuples, rows, texts, numbers); part file prefix and
#         suffix by OutputFileConfig; finished files are named so; the content is read again by FileSource.
import os
import tempfile

from pyflink.common import Encoder, Row, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import (
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)

folder = tempfile.mkdtemp()
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)


def sink(name):
    return (
        FileSink.for_row_format("file://" + os.path.join(folder, name), Encoder.simple_string_encoder())
        .with_output_file_config(
            OutputFileConfig.builder().with_part_prefix("pre").with_part_suffix(".txt").build()
        )
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )


ds = env.from_collection(
    [("a", 1, 0.5), ("b", 2, 1e10)], type_info=Types.TUPLE([Types.STRING(), Types.INT(), Types.DOUBLE()])
)
ds.sink_to(sink("tuples"))
ds.map(lambda v: Row(v[0], v[1]), Types.ROW([Types.STRING(), Types.INT()])).sink_to(sink("rows")).name("rows")
ds.map(lambda v: v[0] * 3, Types.STRING()).sink_to(sink("texts"))
ds.map(lambda v: v[2], Types.DOUBLE()).sink_to(sink("numbers"))
ds.map(lambda v: [v[1]] * 2, Types.LIST(Types.INT())).sink_to(sink("lists"))
env.execute()
for name in sorted(os.listdir(folder)):
    for path, _, files in os.walk(os.path.join(folder, name)):
        for f in files:
            visible = f.startswith("pre-") and f.endswith(".txt")
            with open(os.path.join(path, f)) as opened:
                for line in opened:
                    print(name, "well named", visible, line.rstrip())
source = FileSource.for_record_stream_format(
    StreamFormat.text_line_format(), "file://" + os.path.join(folder, "texts")
).build()
env.from_source(source, WatermarkStrategy.no_watermarks(), "again").map(
    lambda t: "read " + t, Types.STRING()
).print()
env.execute()
