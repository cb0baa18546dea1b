"""State descriptors: the name, kind and type of a state, and what the engine reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from changelog_engine.config.names import names_of, writable
from changelog_engine.errors import ArgumentTypeError, ConfigurationError
from changelog_engine.graph.nodes import StateDescription, StateKind, StateSpec
from changelog_engine.types import TypeInformation, Types
from changelog_engine.types.in_state import in_state
from changelog_engine.types.typeinfo import not_a_type
from changelog_engine.windowing.reserved import RESERVED

from .._unsupported import NamesOfPyFlink
from ._wrappers import as_function
from .functions import AggregateFunction, ReduceFunction
from .state_ttl import StateTtlConfig


class StateDescriptor(NamesOfPyFlink, StateDescription):
    """Base of the descriptors.

    Args:
        name: unique within the operator.
        type_info: type of what is kept: of a list or a map as a whole.
    """

    _elsewhere = dict.fromkeys(
        names_of("value update clear get add add_all put put_all remove contains items"),
        "a descriptor only says what the state is: in open(), self.state = runtime_context.get_state(descriptor), or the "
        "method for its kind, gives the state itself",
    )
    _kind: StateKind | None = None
    _map_key_type: TypeInformation | None = None
    _function: Any = None  # of states that combine what is added

    def __init__(self, name: Any, type_info: TypeInformation) -> None:
        if not isinstance(name, str) or not name.strip():
            raise ArgumentTypeError(f"the name of a state must be a non-empty str, got {name!r}")
        writable(name, "the name of a state")
        if name.startswith(RESERVED):
            raise ConfigurationError(
                f"the state name {name!r} is reserved: names that begin with {RESERVED!r} are "
                "the engine's own"
            )
        self.name = name
        self.type_info = self._value_type = type_info
        self._ttl_config: StateTtlConfig | None = None
        self._migration: Callable[[Any], Any] | None = None

    def get_name(self) -> str:
        """The state's name."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Have the state's entries expire: a value as a whole, a list by element, a map by entry.

        Broadcast state is kept for ever, as in Flink: it has no time to live, whatever its descriptor says.

        Args:
            ttl_config: how long they live, and so on. Its length may change from run to run; state that exists cannot be
                given a time to live, nor lose it.
        """
        if not isinstance(ttl_config, StateTtlConfig):
            hint = "; call build() on the builder" if isinstance(ttl_config, StateTtlConfig.Builder) else ""
            raise ArgumentTypeError(
                f"state {self.name!r}: enable_time_to_live needs a StateTtlConfig, got {ttl_config!r}{hint}"
            )
        self._ttl_config = ttl_config

    def set_migration(self, function: Callable[[Any], Any]) -> Self:
        """Say how values that an earlier version of the job kept become values of the type declared now.

        PyFlink has nothing like it. At a restore the function is called once for each value whose type in the checkpoint
        differs from the declared one: a value, an element of a list, the value of a map's entry, a reduced value, an
        accumulator; with a time to live without its time. What it returns is kept, and is logged with the next checkpoint,
        so the function is not called for it again and may stay in the program. Where the types are the same it is not
        called. Keys, map keys and windows stay as they are.

        Args:
            function: takes a value of the type that the checkpoint has and returns one of the declared type; None drops
                it. It must not depend on anything but its argument.

        Raises:
            ConfigurationError: it cannot be called.

        Example:
            >>> from changelog_engine.api.common.typeinfo import Types
            >>> cents = ValueStateDescriptor("total", Types.LONG()).set_migration(lambda text: round(float(text) * 100))
            >>> cents.get_name()
            'total'
        """
        if not callable(function):
            raise ArgumentTypeError(
                f"state {self.name!r}: set_migration needs a function of one value, got {function!r}"
            )
        self._migration = function
        return self

    def to_spec(self) -> StateSpec:
        """What the engine reads.

        Raises:
            ConfigurationError: this is the base class, which stands for no kind of state.
        """
        if self._kind is None:
            raise ConfigurationError(
                f"the descriptor of state {self.name!r} must be one of ValueStateDescriptor, "
                "ListStateDescriptor, MapStateDescriptor, ReducingStateDescriptor and AggregatingStateDescriptor"
            )
        return StateSpec(
            self.name,
            self._kind,
            in_state(self._value_type),
            map_key_type=self._map_key_type,
            function=self._function,
            ttl=None if self._ttl_config is None else self._ttl_config.to_spec(),
            migration=self._migration,
        )


class ValueStateDescriptor(StateDescriptor):
    """Declares a `ValueState`, for ``RuntimeContext.get_state``.

    Args:
        name: unique within the operator.
    """

    _kind = StateKind.VALUE

    def __init__(self, name: str, value_type_info: TypeInformation) -> None:
        super().__init__(name, _checked_type(value_type_info, name, "value_type_info"))


class ListStateDescriptor(StateDescriptor):
    """Declares a `ListState`, for ``RuntimeContext.get_list_state``.

    Args:
        name: unique within the operator.
        elem_type_info: type of the elements.
    """

    _kind = StateKind.LIST

    def __init__(self, name: str, elem_type_info: TypeInformation) -> None:
        element = _checked_type(elem_type_info, name, "elem_type_info")
        super().__init__(name, Types.LIST(element))
        self._value_type = element


class MapStateDescriptor(StateDescriptor):
    """Declares a `MapState`, for ``RuntimeContext.get_map_state``.

    Args:
        name: unique within the operator.
    """

    _kind = StateKind.MAP

    def __init__(self, name: str, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        value = _checked_type(value_type_info, name, "value_type_info")
        self._map_key_type = _checked_type(key_type_info, name, "key_type_info")
        super().__init__(name, Types.MAP(self._map_key_type, value))
        self._value_type = value


class ReducingStateDescriptor(StateDescriptor):
    """Declares a `ReducingState`, for ``RuntimeContext.get_reducing_state``.

    Args:
        name: unique within the operator.
        reduce_function: a ReduceFunction, or a function of two elements.
        type_info: type of the elements and of their combination.
    """

    _kind = StateKind.REDUCING

    def __init__(self, name: str, reduce_function: Any, type_info: TypeInformation) -> None:
        super().__init__(name, _checked_type(type_info, name, "type_info"))
        self._function = as_function(reduce_function, ReduceFunction, f"ReducingStateDescriptor {name!r}")

    def get_reduce_function(self) -> Any:
        """The reduce function, as a ReduceFunction."""
        return self._function


class AggregatingStateDescriptor(StateDescriptor):
    """Declares an `AggregatingState`, for ``RuntimeContext.get_aggregating_state``.

    Args:
        name: unique within the operator.
        agg_function: an AggregateFunction.
        state_type_info: type of the accumulator.
    """

    _kind = StateKind.AGGREGATING

    def __init__(self, name: str, agg_function: Any, state_type_info: TypeInformation) -> None:
        super().__init__(name, _checked_type(state_type_info, name, "state_type_info"))
        self._function = as_function(agg_function, AggregateFunction, f"AggregatingStateDescriptor {name!r}")

    def get_agg_function(self) -> Any:
        """The aggregate function."""
        return self._function


def _checked_type(type_info: Any, name: str, parameter: str) -> TypeInformation:
    """The type if it is one.

    Raises:
        ConfigurationError: it is not; the message names the state.
    """
    if not isinstance(type_info, TypeInformation):
        raise ArgumentTypeError(
            f"state {name!r}: {parameter} must be a TypeInformation such as Types.LONG(), {not_a_type(type_info)}"
        )
    return type_info
