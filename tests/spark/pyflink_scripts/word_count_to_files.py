"""Counts words of a few lines, or of a file, into files: word_count_to_files.py --output PATH [--input PATH]."""

import argparse

from pyflink.common import Encoder, Types, WatermarkStrategy
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import (
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)


def word_count(input_path, output_path):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.set_parallelism(1)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), input_path)
    lines = env.from_source(
        source=source.process_static_file_set().build(),
        watermark_strategy=WatermarkStrategy.for_monotonous_timestamps(),
        source_name="file_source",
    )
    counts = (
        lines.flat_map(lambda line: line.split())
        .map(lambda word: (word, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0])
        .reduce(lambda left, right: (left[0], left[1] + right[1]))
    )
    counts.sink_to(
        sink=FileSink.for_row_format(base_path=output_path, encoder=Encoder.simple_string_encoder())
        .with_output_file_config(
            OutputFileConfig.builder().with_part_prefix("prefix").with_part_suffix(".ext").build()
        )
        .with_rolling_policy(RollingPolicy.default_rolling_policy())
        .build()
    )
    env.execute()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", required=True, help="A file of text.")
    parser.add_argument("--output", required=True, help="A folder for the counts.")
    arguments = parser.parse_args()
    word_count(arguments.input, arguments.output)
