"""The measured job with Kafka on both ends: count the occurrences of each key of a topic, write each count, exactly once.

``python kafka_count.py api ...`` runs it here, ``python kafka_count.py pyflink ...`` in an environment with PyFlink and its
Kafka connector. Only the package that is imported differs. The last line printed is the result as JSON.
"""

from __future__ import annotations

import argparse
import importlib
import time
from typing import Any

from keyed_count import leave_own_folder, report


def count_function(package: str) -> Any:
    """The user's function, over the base class of the package that will run it."""
    datastream = importlib.import_module(f"{package}.datastream")
    state = importlib.import_module(f"{package}.datastream.state")
    types = importlib.import_module(f"{package}.common").Types

    class CountPerKey(datastream.KeyedProcessFunction):  # type: ignore[name-defined, misc]
        """Counts the elements of the current key; emits each count."""

        def open(self, runtime_context: Any) -> None:
            self.state = runtime_context.get_state(state.ValueStateDescriptor("count", types.LONG()))

        def process_element(self, value: str, ctx: Any) -> Any:
            count = self.state.value()
            count = 1 if count is None else count + 1
            self.state.update(count)
            yield f"{value} {count}"

    return CountPerKey()


def first_word(text: str) -> str:
    """The key of a record that also carries its number and time."""
    return text.partition(" ")[0]


def run(
    package: str,
    servers: str,
    read: str,
    written: str,
    settings: dict[str, str],
    guarantee: str = "EXACTLY_ONCE",
    endless: bool = False,
) -> dict[str, Any]:
    """Build the job with the package's API and run it to the end of the topic.

    Args:
        package: "api" or "pyflink".
        servers: where the broker is.
        read: topic whose records are counted by their values; endless, by their first words.
        written: topic of the counts.
        settings: configuration, in Flink's own keys.
        guarantee: a DeliveryGuarantee.
        endless: go on where the topic ends.

    Returns:
        seconds of execute(), start-up included.
    """
    common = importlib.import_module(f"{package}.common")
    serialization = importlib.import_module(f"{package}.common.serialization")
    datastream = importlib.import_module(f"{package}.datastream")
    base = importlib.import_module(f"{package}.datastream.connectors.base")
    kafka = importlib.import_module(f"{package}.datastream.connectors.kafka")
    types = common.Types
    configuration = common.Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    env = datastream.StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    topic = (
        kafka.KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics(read)
        .set_group_id(f"{package} bench")
        .set_starting_offsets(kafka.KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(serialization.SimpleStringSchema())
    )
    if not endless:
        topic = topic.set_bounded(kafka.KafkaOffsetsInitializer.latest())
    record = (
        kafka.KafkaRecordSerializationSchema.builder()
        .set_topic(written)
        .set_value_serialization_schema(serialization.SimpleStringSchema())
        .build()
    )
    sink = (
        kafka.KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_record_serializer(record)
        .set_delivery_guarantee(getattr(base.DeliveryGuarantee, guarantee))
        .set_transactional_id_prefix(f"{package}-{written}")
        .set_property("transaction.timeout.ms", "600000")
        .build()
    )
    texts = env.from_source(topic.build(), common.WatermarkStrategy.no_watermarks(), "kafka", types.STRING())
    counts = texts.key_by(first_word if endless else lambda text: text, key_type=types.STRING())
    counts.process(count_function(package), output_type=types.STRING()).sink_to(sink)
    started = time.perf_counter()
    env.execute("kafka-count")
    return {"seconds": time.perf_counter() - started}


def main() -> None:
    """Command line: package, servers, topics, what else the job is, KEY=VALUE settings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", choices=["api", "pyflink"])
    parser.add_argument("servers")
    parser.add_argument("read")
    parser.add_argument("written")
    parser.add_argument("--guarantee", choices=["AT_LEAST_ONCE", "EXACTLY_ONCE"], default="EXACTLY_ONCE")
    parser.add_argument("--endless", action="store_true")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    given = parser.parse_args()
    settings = dict(setting.split("=", 1) for setting in given.settings)
    topics = (given.read, given.written)
    report(run(given.package, given.servers, *topics, settings, given.guarantee, given.endless))


if __name__ == "__main__":
    leave_own_folder()
    main()
