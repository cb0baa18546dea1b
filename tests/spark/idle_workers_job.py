"""A job for tests whose workers are idle "for too long" after every epoch: what Spark does after a minute is done at once.

python idle_workers_job.py. Configuration comes from the file. Prints how many epochs the attempts had.
"""

from counting_job import Count

from api.common import Types, WatermarkStrategy
from api.datastream import StreamExecutionEnvironment
from api.datastream.connectors.number_seq import NumberSequenceSource
from changelog_engine.spark.epoch_job import SparkEpochRunner
from changelog_engine.spark.session import active_context

CLOSE = "org$apache$spark$api$python$PythonWorkerFactory$$cleanupIdleWorkers"
run = SparkEpochRunner.run


def run_and_close(self, orders, timeout_s, following=None):
    """An epoch; then Spark closes its connections to idle workers."""
    reports = run(self, orders, timeout_s, following)
    order = orders(0, 0)
    print(f"attempt {order.attempt}, epoch {order.epoch}", flush=True)
    environment = active_context()._jvm.org.apache.spark.SparkEnv.get()
    field = environment.getClass().getDeclaredField("pythonWorkers")
    field.setAccessible(True)
    factories = field.get(environment).valuesIterator()
    while factories.hasNext():
        getattr(factories.next(), CLOSE)()
    return reports


if __name__ == "__main__":
    SparkEpochRunner.run = run_and_close
    env = StreamExecutionEnvironment.get_execution_environment()
    source = NumberSequenceSource(0, 99)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    numbers.key_by(lambda n: n % 10, Types.LONG()).process(Count(), Types.LONG()).uid("by key").print()
    env.execute("idle")
