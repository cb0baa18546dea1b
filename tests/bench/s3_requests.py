"""What a checkpoint asks of an object store: requests of each kind, counted by the S3 server of the tests.

python -m bench.s3_requests [PARALLELISM ...], in the folder tests. The job runs in one process, without Spark: workers and
driver ask the same.
"""

from __future__ import annotations

import re
import sys
from collections import Counter

from servers.s3 import S3Server, kind

from changelog_engine.api.common import Configuration, Types, WatermarkStrategy
from changelog_engine.api.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from changelog_engine.api.datastream.state import ValueStateDescriptor
from changelog_engine.testing import At, Checkpoint, ScriptedSource, without_spark

FEW, MANY = 10, 30
KEYS = 200


class Count(KeyedProcessFunction):
    """Counts the elements of a key."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)


def run(s3: S3Server, bucket: str, parallelism: int, checkpoints: int) -> Counter[tuple[str, str]]:
    """Requests of a job, by operation and kind of file."""
    before = len(s3.requests())
    options = {
        "s3.endpoint": s3.endpoint,
        "s3.access-key": s3.access_key,
        "s3.secret-key": s3.secret_key,
        "state.changelog.enabled": "true",
        "state.changelog.dstl.dfs.base-path": f"s3://{bucket}/log",
        "state.changelog.periodic-materialize.enabled": "false",
        "execution.checkpointing.interval": "10ms",
        "parallelism.default": str(parallelism),
        "changelog.progress.show": "never",
    }
    configuration = Configuration()
    for key, value in options.items():
        configuration.set_string(key, value)
    script = []
    for number in range(checkpoints):
        script += [*(At(key, number) for key in range(KEYS)), Checkpoint()]
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    stream = env.from_source(ScriptedSource(script), WatermarkStrategy.no_watermarks(), "numbers").uid(
        "numbers"
    )
    stream.key_by(lambda number: number, Types.LONG()).process(Count(), Types.LONG()).uid("count")
    with without_spark():
        env.execute(f"{parallelism} subtasks, {checkpoints} checkpoints")
    return Counter((operation, kind_of(path)) for operation, path in s3.requests()[before:])


def kind_of(path: str) -> str:
    """The kind of file that a path names: ``part``, ``checkpoint``, ``commit`` and so on."""
    name = path.partition("?")[0].rpartition("/")[2]
    return "commit" if name[:1].isdigit() else re.split(r"[-.]", name)[0]


def main(parallelisms: list[int]) -> None:
    """Print a table for each parallelism."""
    if kind() != "versitygw":
        sys.exit("only versitygw notes requests: make servers, with Go installed")
    with S3Server() as s3:
        bucket = s3.create_bucket()
        for parallelism in parallelisms:
            few, many = (run(s3, bucket, parallelism, checkpoints) for checkpoints in (FEW, MANY))
            each = {asked: (count - few[asked]) / (MANY - FEW) for asked, count in many.items()}
            print(f"{parallelism} subtasks with state: {sum(each.values()):.1f} requests a checkpoint")
            for (operation, file), count in sorted(each.items(), key=lambda item: -item[1]):
                if count >= 0.5:
                    print(f"  {count:6.1f}  {operation} {file}")


if __name__ == "__main__":
    main([int(number) for number in sys.argv[1:]] or [4, 16])
