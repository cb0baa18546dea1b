"""States as checkpoints describe them, and whether a job that declares them now may go on from there.

The driver asks for the states that it can see in the graph, before anything is changed; a subtask asks for each state that
is declared to it. Both say the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from changelog_engine.changelog.conversion import DROPPED, TypeVersions, Version, versions_of
from changelog_engine.errors import RestoreError
from changelog_engine.graph.descriptions import DescribedState, TypeSpec, map_key_type_of
from changelog_engine.graph.nodes import StateKind, StateSpec
from changelog_engine.state.ttl import stored_type
from changelog_engine.types import TupleTypeInfo, TypeInformation, Types, type_from_spec
from changelog_engine.types.widening import is_wider_integer, widening
from changelog_engine.windowing.reserved import CONTENTS, state_words

REMEDY = (
    "declare it as it was, give it another name to start it empty, convert its values by the descriptor's "
    "set_migration(function), or start the whole job empty with changelog.restore=none"
)
_FIXED_REMEDY = (
    "declare it as it was, give it another name to start it empty, or start the whole job empty with "
    "changelog.restore=none"
)
_CONTENT_REMEDY = "declare it as it was, or start the whole job empty with changelog.restore=none"


def describe(spec: StateSpec) -> DescribedState:
    """A state's descriptor as the checkpoint row keeps it."""
    return DescribedState(
        spec.name,
        spec.kind.value,
        stored_type(spec).spec(),
        None if spec.map_key_type is None else spec.map_key_type.spec(),
        spec.namespace,
        None if spec.ttl is None else {"ttl_ms": spec.ttl.ttl_ms},
    )


def type_name(described: TypeSpec | None) -> str:
    """What messages call a type that a checkpoint has; None for undeclared."""
    return "PICKLED_BYTE_ARRAY (undeclared)" if described is None else type_from_spec(described).name


def spec_of(described: DescribedState) -> StateSpec:
    """The state as it is kept, from what a checkpoint says of it.

    Args:
        described: the state in Checkpoint.operators; without a namespace.
    """
    return StateSpec(
        described.name,
        StateKind(described.kind),
        type_from_spec(described.value_type),
        map_key_type_of(described),
    )


def restored_versions(
    operator: str,
    found: DescribedState,
    found_key_type: TypeSpec | None,
    spec: StateSpec,
    key_type: TypeInformation | None,
) -> TypeVersions:
    """How a restored state's values become those of the state that is declared.

    Args:
        operator: uid, for messages.
        found: what the checkpoint says of the state.
        found_key_type: what it says of its keys.

    Raises:
        RestoreError: they can't; names operator, state, both types and what to do.
    """
    was = found._asdict() | {"key_type": found_key_type}
    declared = describe(spec)._asdict() | {"key_type": None if key_type is None else key_type.spec()}
    had, has = found.ttl_ms is not None, spec.ttl is not None
    if had != has:
        words = ("with", "without") if had else ("without", "with")
        raise RestoreError(
            f"{state_words(spec.name)} of operator {operator!r} was written {words[0]} a time to live and is declared "
            f"{words[1]} one. Its length can change, but it cannot be switched on or off for state that exists: "
            f"{_FIXED_REMEDY}"
        )
    differing = [
        name
        for name in ("kind", "key_type", "map_key_type", "namespace")
        if not _fits(name, was[name], declared[name])
    ]
    if differing:
        raise RestoreError(_refusal(operator, spec, was, declared, differing, _FIXED_REMEDY))
    written = versions_of(found)
    made = []
    for version in written.all:
        converted = _converted(version, spec)
        if converted is None:
            was["value_type"] = version.type.spec()
            raise RestoreError(_refusal(operator, spec, was, declared, ["value_type"], REMEDY))
        made.append(converted)
    return TypeVersions(made[0], tuple(made[1:]), written.since)


def same_type(found: Any, declared: Any) -> bool:
    """Whether two types, as a checkpoint has them, are the same; an undeclared one is any object."""
    return bool((found or _UNDECLARED) == (declared or _UNDECLARED))


_UNDECLARED = Types.PICKLED_BYTE_ARRAY().spec()


def _fits(name: str, found: Any, declared: Any) -> bool:
    if name == "key_type":
        return same_type(found, declared)
    if name == "map_key_type" and found is not None and declared is not None:
        return same_type(found, declared) or is_wider_integer(type_from_spec(found), type_from_spec(declared))
    return bool(found == declared)


def _converted(version: Version, spec: StateSpec) -> Version | None:
    """The version with what becomes of its values; None when they don't fit."""
    if version.type.spec() == stored_type(spec).spec():
        return version
    timed = spec.ttl is not None
    old = version.type
    if timed:
        assert isinstance(old, TupleTypeInfo)
        old = old.get_field_types()[1]
    if spec.migration is not None:
        return version._replace(convert=_stored(_migrated(spec), timed), rewrites=True)
    wider = widening(old, spec.value_type)
    if wider is None:
        return None
    convert = None if wider.convert is None else _stored(wider.apply, timed)
    return version._replace(convert=convert, rewrites=not wider.readable)


def _migrated(spec: StateSpec) -> Callable[[Any], Any]:
    """The user's function, whose results are checked; None drops the value."""
    migrate, check = spec.migration, spec.value_type.check

    def convert(value: Any) -> Any:
        found = migrate(value)
        return DROPPED if found is None else check(found, "what it returned")

    return convert


def _stored(convert: Callable[[Any], Any], timed: bool) -> Callable[[Any], Any]:
    """The same for what is stored; None, which maps may hold, stays None."""
    if not timed:
        return lambda value: None if value is None else convert(value)

    def convert_pair(entry: Any) -> Any:
        since, value = entry
        if value is None:
            return entry
        found = convert(value)
        return DROPPED if found is DROPPED else (since, found)

    return convert_pair


def _refusal(
    operator: str,
    spec: StateSpec,
    found: dict[str, Any],
    declared: dict[str, Any],
    differing: list[str],
    remedy: str,
) -> str:
    if spec.name == CONTENTS:  # no descriptor of the user's declares it
        remedy = _CONTENT_REMEDY
    return (
        f"{state_words(spec.name)} of operator {operator!r} was written with {_words(found, differing)} and is "
        f"declared with {_words(declared, differing)}: {remedy}"
    )


def _words(described: dict[str, Any], names: list[str]) -> str:
    return ", ".join([_word(name, described[name]) for name in sorted(names)])


def _word(name: str, found: Any) -> str:
    label = name.replace("_", " ")
    if found is None and name != "key_type":  # keys have a type, if undeclared
        return f"no {label}"
    return f"{label} {type_name(found) if name.endswith('_type') else found}"
