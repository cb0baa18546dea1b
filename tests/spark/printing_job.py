"""Functions that print, in a program that logs to its standard output. PRINTING_JOB_FAILS: the last one raises."""

import io
import logging
import os
import sys
from contextlib import redirect_stdout

from pyflink.common import RestartStrategies, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import MapFunction

logging.basicConfig(level=logging.INFO, stream=sys.stdout)
FAILS = "PRINTING_JOB_FAILS" in os.environ


class Printing(MapFunction):
    def open(self, runtime_context):
        print("opened", runtime_context.get_index_of_this_subtask())

    def close(self):
        print("closed", end=" ")

    def map(self, value):
        print("mapped", value, "ä")
        logging.getLogger("mine").debug("debug %s", value)
        if value == 1:
            logging.getLogger("mine").info("logged")
        if value == 2:
            os.system("echo from a shell")
        if value == 3 and FAILS:
            print("no line", end="")
            raise ValueError("three")
        return value


def run():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.set_restart_strategy(RestartStrategies.no_restart())
    env.from_collection([1, 2, 3], Types.INT()).map(Printing(), Types.INT()).print("sink")
    env.execute("printing")


print("before")
run()
print("after")
with redirect_stdout(io.StringIO()) as held:
    run()
print(held.getvalue() * 2)
