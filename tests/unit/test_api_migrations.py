"""What the API says of restores into changed programs: migration functions, and what becomes of removed states."""

from __future__ import annotations

from typing import Any

import pytest
from support.functions import Last

from api.common import Configuration
from api.common.typeinfo import Types
from api.datastream import StreamExecutionEnvironment
from api.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from changelog_engine.errors import ConfigurationError

DESCRIPTORS = [
    ValueStateDescriptor("s", Types.LONG()),
    ListStateDescriptor("s", Types.LONG()),
    MapStateDescriptor("s", Types.STRING(), Types.LONG()),
    ReducingStateDescriptor("s", lambda one, other: one + other, Types.LONG()),
    AggregatingStateDescriptor("s", Last(), Types.LONG()),
]


@pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=lambda one: type(one).__name__)
def test_every_descriptor_takes_a_migration(descriptor: StateDescriptor) -> None:
    assert descriptor.to_spec().migration is None
    assert descriptor.set_migration(int) is descriptor
    assert descriptor.to_spec().migration is int


@pytest.mark.parametrize("given", [None, 3, "int", Types.LONG()])
def test_a_migration_is_a_function(given: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=r"state 's': set_migration needs a function of one value, got "
    ):
        ValueStateDescriptor("s", Types.LONG()).set_migration(given)


@pytest.mark.parametrize(("text", "drops"), [(None, False), ("keep", False), ("DROP", True)])
def test_removed_states_are_kept_unless_told(text: str | None, drops: bool) -> None:
    configuration = Configuration()
    if text is not None:
        configuration.set_string("changelog.restore.removed-state", text)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    assert env._settings.job_settings().drop_removed_state is drops


def test_nothing_else_becomes_of_removed_states() -> None:
    configuration = Configuration()
    configuration.set_string("changelog.restore.removed-state", "forget")
    with pytest.raises(ConfigurationError, match=r"removed-state': expected one of drop, keep, got 'forget'"):
        StreamExecutionEnvironment.get_execution_environment(configuration)._settings.job_settings()
