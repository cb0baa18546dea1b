# topic: streams without a sink
# checks: operators run whether a sink follows them or not, alone and beside a stream that has one; each execution runs
# what was added since the one before
import os
import tempfile

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

FOLDER = tempfile.mkdtemp()


def written(name):
    def write(value):
        with open(os.path.join(FOLDER, name), "a") as file:
            file.write(f"{value}\n")
        return value

    return write


def seen(name):
    path = os.path.join(FOLDER, name)
    return sorted(open(path).read().split()) if os.path.exists(path) else None


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_collection([1, 2, 3], Types.INT())
numbers.map(written("alone"), Types.INT())
env.execute()
print("alone", seen("alone"))

numbers.map(written("beside"), Types.INT())
numbers.key_by(lambda v: v % 2, Types.INT()).reduce(lambda a, b: a + b).map(written("reduced"), Types.INT())
numbers.map(lambda v: v * 10, Types.INT()).print()
env.execute()
print("alone", seen("alone"))
print("beside", seen("beside"))
print("reduced", seen("reduced"))
try:
    env.execute()
except Exception:
    print("nothing new to execute")
