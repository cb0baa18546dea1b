"""map, filter, and key_by with reduce over rows that hold JSON; three executions of one environment."""

import json

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment


def show(stream, env):
    stream.print()
    env.execute()


def basic_operations():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    people = env.from_collection(
        collection=[
            (1, '{"name": "Ada", "phone": 10, "home": {"country": "England"}}'),
            (2, '{"name": "Emmy", "phone": 20, "home": {"country": "Germany"}}'),
            (3, '{"name": "Alan", "phone": 30, "home": {"country": "England"}}'),
        ],
        type_info=Types.ROW_NAMED(["id", "info"], [Types.INT(), Types.STRING()]),
    )

    def next_phone(row):
        person = json.loads(row.info)
        person["phone"] += 1
        return row.id, person["name"], person["phone"]

    show(people.map(next_phone), env)
    show(people.filter(lambda row: row.id == 2).map(next_phone), env)
    show(
        people.map(lambda row: json.loads(row.info))
        .map(lambda person: (person["home"]["country"], person["phone"]))
        .key_by(lambda pair: pair[0])
        .reduce(lambda left, right: (left[0], left[1] + right[1])),
        env,
    )


if __name__ == "__main__":
    basic_operations()
