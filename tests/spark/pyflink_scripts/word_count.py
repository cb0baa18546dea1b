"""Counts words of a file, or of a few lines that it brings along: word_count.py [--input PATH] [--batch]."""

import argparse
import logging
import sys

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.datastream.connectors import FileSource, StreamFormat

LINES = [
    "the log is the truth",
    "and the state is what the log says",
]


def split(line):
    yield from line.split()


def word_count(input_path, batch):
    env = StreamExecutionEnvironment.get_execution_environment()
    if batch:
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.set_parallelism(1)
    if input_path is None:
        lines = env.from_collection(LINES)
    else:
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), input_path)
        lines = env.from_source(
            source=source.process_static_file_set().build(),
            watermark_strategy=WatermarkStrategy.for_monotonous_timestamps(),
            source_name="lines",
        )
    counts = (
        lines.flat_map(split)
        .map(lambda word: (word, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0])
        .reduce(lambda left, right: (left[0], left[1] + right[1]))
    )
    counts.print()
    env.execute()


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stdout, level=logging.WARNING, format="%(message)s")
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", help="A file of text.")
    parser.add_argument("--batch", action="store_true", help="Final counts only.")
    known, _ = parser.parse_known_args(sys.argv[1:])
    word_count(known.input, known.batch)
