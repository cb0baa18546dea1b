"""What to write instead of names that people know from Spark, pandas or Flink's other APIs, as ends of messages."""

from __future__ import annotations

from collections.abc import Mapping

_PRINT = "print() prints the elements, and execute_and_collect() gives those of a job that ends"
_NEW = "map() makes another element of each one"
_SINK = (
    "add_sink(function) calls a function with each element, sink_to(sink) writes to files, Kafka and others"
)
_STATE = "keep it in state: key_by(), then process() with a KeyedProcessFunction, or windows"
_TWO = "key both streams, connect() them, and keep in state what waits for the other side (KeyedCoProcessFunction)"
_KEYED = "a KeyedStream has it: call key_by() before"
_FILES = "from_source(FileSource...) reads files (docs/connectors/files.md), read_text_file() lines"
_RUN = "execute() runs the job, and waits for its end; execute_async() does not wait"
_TABLES = "the Table API is not here"
_RESULTS = "make results of the windows first: reduce(), aggregate() or process()"


def _said(*rules: tuple[str, str]) -> Mapping[str, str]:
    return {name: instead for names, instead in rules for name in names.split()}


OF_STREAMS = _said(
    ("reduce sum min max min_by max_by window count_window", _KEYED),
    ("groupBy group_by groupby keyBy", "key_by(function) it is called here"),
    ("collect show take head first toPandas to_pandas", _PRINT),
    ("foreach forEach foreachBatch for_each write writeStream save to sink", _SINK),
    ("select withColumn with_column mapPartitions", _NEW),
    ("where", "filter() it is called here"),
    ("count distinct dropDuplicates drop_duplicates agg aggregate transformWithState", _STATE),
    ("join cogroup coGroup co_group merge", _TWO),
    ("withWatermark with_watermark", "assign_timestamps_and_watermarks() does that (docs/windows.md)"),
)
OF_ENVIRONMENTS = _said(
    (
        "read readStream read_csv read_json read_parquet from_csv from_json from_parquet from_file from_files",
        _FILES,
    ),
    ("from_kafka", "from_source(KafkaSource...) reads Kafka's topics (docs/connectors/kafka.md)"),
    ("from_pandas", "from_collection(list(df.itertuples(index=False, name=None))) takes its rows"),
    ("from_list", "from_collection() it is called here"),
    ("run start awaitTermination await_termination", _RUN),
    ("execute_sql sql_query from_data_stream to_data_stream create_temporary_view from_path", _TABLES),
)
OF_WINDOWS = _said(
    ("sum min max min_by max_by count", "reduce() and aggregate() do that for a window"),
    ("map flat_map filter print sink_to add_sink execute_and_collect", _RESULTS),
)
