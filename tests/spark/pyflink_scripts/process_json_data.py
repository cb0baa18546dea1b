"""Changes JSON texts one by one."""

import json

from pyflink.datastream import StreamExecutionEnvironment


def process_json_data():
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection(
        collection=[
            (1, '{"name": "log", "sizes": [1, 2]}'),
            (2, '{"name": "state", "sizes": []}'),
        ]
    )

    def total(data):
        document = json.loads(data[1])
        document["sizes"] = sum(document["sizes"])
        return data[0], json.dumps(document)

    env.set_parallelism(1)
    stream.map(total).print()
    env.execute()


if __name__ == "__main__":
    process_json_data()
