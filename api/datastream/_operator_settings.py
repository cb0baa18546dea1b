"""What may be set on an operator, whether it makes a stream or is a sink; each check names the method."""

from __future__ import annotations

import re
from typing import Any

from changelog_engine.config.names import writable
from changelog_engine.errors import ArgumentTypeError, ConfigurationError, InvalidJobError
from changelog_engine.graph.nodes import NodeKind, Partitioner

from .. import _arguments
from ._transformation import Chaining, Transformation

_UID_HASH = re.compile("[0-9A-Fa-f]{32}")
_METHODS = {NodeKind.KEY_BY: "key_by", NodeKind.UNION: "union"}
_PARTITION_METHODS = {Partitioner.GLOBAL: "global_", Partitioner.CUSTOM: "partition_custom"}


def check_operator(transformation: Transformation, owner: str, method: str) -> None:
    """Refuse streams that only say where elements go: nothing can be set on them.

    Raises:
        InvalidJobError: the stream is keyed, partitioned or a union.
    """
    made_by = _METHODS.get(transformation.kind)
    if transformation.kind is NodeKind.PARTITION:
        partitioner: Partitioner = transformation.function.partitioner
        made_by = _PARTITION_METHODS.get(partitioner, partitioner.value)
    if made_by is not None:
        raise InvalidJobError(
            f"{owner}.{method} is not possible after {made_by}(): such a stream is no operator of its own; "
            f"call {method} on the stream before {made_by}(), or on the result of the operator after it"
        )


def set_parallelism(operator: Transformation, parallelism: Any, what: str) -> None:
    """Set the parallelism.

    Raises:
        ConfigurationError: out of range, or not 1 where only 1 is possible.
    """
    what = f"{what} of {operator.name!r}"
    value = _arguments.parallelism(parallelism, what)
    if value != 1 and operator.kind is NodeKind.SOURCE and not operator.function.parallel:
        raise ConfigurationError(
            f"{what}: the parallelism of a source that is not parallel must be 1, got {value}"
        )
    if value != 1 and not operator.parallel:
        raise ConfigurationError(f"{what}: it must be 1 after force_non_parallel(), got {value}")
    operator.parallelism = value


def set_max_parallelism(operator: Transformation, max_parallelism: Any, what: str) -> None:
    """Set the max parallelism.

    Raises:
        ConfigurationError: out of range, or not 1 where only 1 is possible.
    """
    what = f"{what} of {operator.name!r}"
    value = _arguments.max_parallelism(max_parallelism, what)
    if value != 1 and not operator.parallel:
        raise ConfigurationError(f"{what}: it must be 1 after force_non_parallel(), got {value}")
    operator.max_parallelism = value


def set_uid_hash(operator: Transformation, uid_hash: Any, what: str) -> None:
    """Set the id of an operator that has no uid.

    Raises:
        ConfigurationError: not 32 hexadecimal digits.
    """
    if not isinstance(uid_hash, str) or not _UID_HASH.fullmatch(uid_hash):
        raise ArgumentTypeError(f"{what}: uid_hash must be 32 hexadecimal digits, got {uid_hash!r}")
    operator.uid_hash = uid_hash


def set_description(operator: Transformation, description: Any, what: str) -> None:
    """Set the description.

    Raises:
        ConfigurationError: not a str.
    """
    if not isinstance(description, str):
        raise ArgumentTypeError(f"{what}: the description must be a str, got {description!r}")
    writable(description, f"{what}: the description")
    operator.description = description


def set_buffer_timeout(operator: Transformation, timeout_millis: Any, what: str) -> None:
    """Set the buffer timeout.

    Raises:
        ConfigurationError: no whole number of at least -1.
    """
    operator.buffer_timeout_ms = _arguments.whole_number(timeout_millis, f"{what}: timeout_millis", -1)


def set_chaining(operator: Transformation, chaining: Chaining) -> None:
    """Set how the operator may be chained."""
    operator.chaining = chaining


def set_slot_sharing_group(operator: Transformation, group: Any, what: str) -> None:
    """Set the slot sharing group.

    Raises:
        ConfigurationError: neither a name nor a SlotSharingGroup.
    """
    from .slot_sharing_group import SlotSharingGroup

    if not isinstance(group, SlotSharingGroup) and (not isinstance(group, str) or not group.strip()):
        raise ArgumentTypeError(
            f"{what}: slot_sharing_group must be a name or a SlotSharingGroup, got {group!r}"
        )
    if isinstance(group, str):
        writable(group, f"{what}: slot_sharing_group")
    operator.slot_sharing_group = group
