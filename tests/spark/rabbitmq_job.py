"""A job for tests: counts how often each message of a queue came, and passes each on to another queue.

python rabbitmq_job.py URI FROM TO. A message "end" ends it. Configuration comes from the file.
"""

import sys

from counting_job import Count

from api.common import Types
from api.common.serialization import SimpleStringSchema
from api.datastream import StreamExecutionEnvironment
from api.datastream.connectors.rabbitmq import RMQConnectionConfig, RMQSink, RMQSource


class UntilEnd(SimpleStringSchema):
    """Texts until "end"."""

    def is_end_of_stream(self, next_element):
        return next_element == "end"


class PassedOn(Count):
    """Counts, and gives the message."""

    def process_element(self, value, ctx):
        for _ in super().process_element(value, ctx):
            yield value


def main(uri, read, written):
    env = StreamExecutionEnvironment.get_execution_environment()
    config = RMQConnectionConfig.Builder().set_uri(uri).set_network_recovery_interval(200).build()
    messages = env.add_source(RMQSource(config, read, True, UntilEnd()), "queue", Types.STRING())
    counted = messages.uid("source").key_by(lambda text: text, Types.STRING())
    passed_on = counted.process(PassedOn(), Types.STRING()).uid("count")
    passed_on.add_sink(RMQSink(config, written, SimpleStringSchema())).uid("sink")
    env.execute("rabbitmq")


if __name__ == "__main__":
    main(*sys.argv[1:4])
    print("THE JOB ENDED")
