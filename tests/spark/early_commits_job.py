"""A job for tests whose sink must commit before the next epoch's records are read.

python early_commits_job.py FOLDER. Configuration comes from the file. The source waits for each commit to be tried before it
gives a hundred numbers more. The first commit fails, in the second the worker dies.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from counting_job import Count

from api.common import Types, WatermarkStrategy
from api.datastream import StreamExecutionEnvironment
from changelog_engine.connectors import CommittingSink, CommittingWriter, Prepared
from changelog_engine.connectors.protocols import Range, Source, Split, SplitReader

AT_ONCE, END = 100, 400
LONGEST_S = 60


class Numbers(Source, SplitReader):
    """The numbers up to END, so many at a time."""

    bounded = True
    parallel = False
    output_type = Types.LONG()

    def __init__(self, folder):
        self.folder = folder

    def splits(self, parallelism):
        return [Split("numbers", 0)]

    def reader(self, split):
        return self

    def read(self, position, max_records):
        folder = Path(self.folder)
        prepared = {file.suffix for file in folder.glob("prepared.*")}
        if position % AT_ONCE == 0:
            if len(prepared) < position // AT_ONCE:
                return Range([], position, False)
            tried = [folder / f"tried{suffix}" for suffix in prepared]
            deadline_s = time.monotonic() + LONGEST_S
            while not all(file.exists() for file in tried):
                if time.monotonic() > deadline_s:
                    raise TimeoutError("NO COMMIT CAME BETWEEN TWO EPOCHS")
                time.sleep(0.01)
        to = min(position + max_records, position - position % AT_ONCE + AT_ONCE)
        return Range(list(range(position, to)), to, to == END)


class Once(Count):
    """Gives each count with its key."""

    def process_element(self, value, ctx):
        for count in super().process_element(value, ctx):
            yield f"{value} {count}"


class Faulty(CommittingSink):
    """Shows lines in files that end in txt."""

    def __init__(self, folder):
        self.folder = folder

    def committing_writer(self, context):
        return FaultyWriter(Path(self.folder), context)


class FaultyWriter(CommittingWriter):
    def __init__(self, folder, context):
        self.folder, self.attempt, self.count, self.lines = folder, context.attempt, 0, []
        for restored in context.restored:
            self.commit(restored.prepared.committables)

    def write(self, values):
        self.lines += values

    def prepare(self, final):
        if not self.lines:
            return Prepared()
        self.count += 1
        name = f"{self.attempt}-{os.getpid()}-{self.count}"
        (self.folder / f"prepared.{name}").write_text("".join(f"{line}\n" for line in self.lines))
        self.lines = []
        return Prepared([name])

    def commit(self, committables):
        for name in committables:
            tried = self.folder / f"tried.{name}"
            first = not tried.exists()
            tried.touch()
            count = len(list(self.folder.glob("tried.*")))
            if first and count == 1:
                raise OSError("the first commit fails")
            if first and count == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            (self.folder / f"{name}.txt").write_text((self.folder / f"prepared.{name}").read_text())

    def close(self):
        pass


def main(folder):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)  # what one subtask prepared when another one's commit failed is never committed
    numbers = env.from_source(Numbers(folder), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    counts = numbers.key_by(lambda n: n, Types.LONG()).process(Once(), Types.STRING()).uid("by key")
    counts.sink_to(Faulty(folder)).uid("sink")
    env.execute("early")


if __name__ == "__main__":
    main(sys.argv[1])
    print("THE JOB ENDED")
