"""Turns what users pass (function objects, lambdas, anything callable) into what the engine calls.

The wrappers are plain classes at module level, so that they pickle by name.
"""

from __future__ import annotations

import inspect
from abc import ABCMeta
from collections.abc import Callable, Iterable
from typing import Any

from changelog_engine.errors import ArgumentTypeError
from changelog_engine.graph.hooks import hook_of, refuse_async
from changelog_engine.types.typeinfo import a_class

from .functions import (
    AggregateFunction,
    AsyncFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
    ReduceFunction,
)

_ALSO_CALLED = ("open", "close", "on_timer")
_SELDOM_CALLED = {"merge"}  # of an AggregateFunction: by windows that merge
_DECORATED = frozenset(("__wrapped__", "__signature__"))  # whose arguments inspect.signature() gives instead


class MapWrapper:
    """A callable as a map function."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.map = function


class FlatMapWrapper:
    """A callable as a flat-map function."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.flat_map = function


class FilterWrapper:
    """A callable as a filter function."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.filter = function


class ReduceWrapper:
    """A callable as a reduce function."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.reduce = function


class KeySelectorWrapper:
    """A KeySelector as the callable that the engine wants, with the selector's life cycle."""

    def __init__(self, selector: Any) -> None:
        self._selector = selector
        self._get_key = selector.get_key

    def __call__(self, value: Any) -> Any:
        """The key of a value."""
        return self._get_key(value)

    def open(self, runtime_context: Any) -> None:
        """Open the selector."""
        self._selector.open(runtime_context)

    def close(self) -> None:
        """Close the selector."""
        self._selector.close()


class PartitionerWrapper:
    """A Partitioner as the callable that the engine wants, with the partitioner's life cycle."""

    def __init__(self, partitioner: Any) -> None:
        self._partitioner = partitioner
        self._partition = partitioner.partition

    def __call__(self, key: Any, num_partitions: int) -> Any:
        """The partition of a key."""
        return self._partition(key, num_partitions)

    def open(self, runtime_context: Any) -> None:
        """Open the partitioner."""
        self._partitioner.open(runtime_context)

    def close(self) -> None:
        """Close the partitioner."""
        self._partitioner.close()


def as_map_function(function: Any, what: str) -> Any:
    """A MapFunction as it is, a callable wrapped."""
    return _wrapped(function, MapFunction, MapWrapper, what)


def as_flat_map_function(function: Any, what: str) -> Any:
    """A FlatMapFunction as it is, a callable wrapped."""
    return _wrapped(function, FlatMapFunction, FlatMapWrapper, what)


def as_filter_function(function: Any, what: str) -> Any:
    """A FilterFunction as it is, a callable wrapped."""
    return _wrapped(function, FilterFunction, FilterWrapper, what)


def as_reduce_function(function: Any, what: str) -> Any:
    """A ReduceFunction as it is, a callable wrapped."""
    return _wrapped(function, ReduceFunction, ReduceWrapper, what)


def as_aggregate_function(function: Any, what: str) -> Any:
    """An AggregateFunction as it is."""
    return _wrapped(function, AggregateFunction, None, what)


def as_process_function(function: Any, what: str) -> Any:
    """A ProcessFunction as it is; also a KeyedProcessFunction, and anything else with a ``process_element``.

    None of them has keyed state there. PyFlink checks nothing here, and calls ``process_element``.
    """
    refuse_class(function, what)
    plain = not isinstance(function, Function) and hook_of(function, "process_element") is not None
    if plain:
        _refuse_async_methods(function, ("process_element", *_ALSO_CALLED), what)
        return function
    wanted: ABCMeta = KeyedProcessFunction if isinstance(function, KeyedProcessFunction) else ProcessFunction
    return _wrapped(function, wanted, None, what)


def as_keyed_process_function(function: Any, what: str) -> Any:
    """A KeyedProcessFunction as it is."""
    return _wrapped(function, KeyedProcessFunction, None, what)


def as_co_map_function(function: Any, what: str) -> Any:
    """A CoMapFunction as it is."""
    return _wrapped(function, CoMapFunction, None, what)


def as_co_flat_map_function(function: Any, what: str) -> Any:
    """A CoFlatMapFunction as it is."""
    return _wrapped(function, CoFlatMapFunction, None, what)


def as_co_process_function(function: Any, what: str) -> Any:
    """A CoProcessFunction or KeyedCoProcessFunction as it is; without keys neither has keyed state."""
    wanted: ABCMeta = (
        KeyedCoProcessFunction if isinstance(function, KeyedCoProcessFunction) else CoProcessFunction
    )
    return _wrapped(function, wanted, None, what)


def as_broadcast_process_function(function: Any, keyed: bool, what: str) -> Any:
    """A KeyedBroadcastProcessFunction of a keyed stream, a BroadcastProcessFunction of another, as it is."""
    if keyed and isinstance(function, BroadcastProcessFunction):
        raise ArgumentTypeError(
            f"{what}: the stream is keyed, so {type(function).__name__} must be a KeyedBroadcastProcessFunction"
        )
    if not keyed and isinstance(function, KeyedBroadcastProcessFunction):
        raise ArgumentTypeError(
            f"{what}: {type(function).__name__} needs a keyed stream; call key_by() before connect()"
        )
    wanted: ABCMeta = KeyedBroadcastProcessFunction if keyed else BroadcastProcessFunction
    return _wrapped(function, wanted, None, what)


def as_async_function(function: Any, what: str) -> Any:
    """An AsyncFunction as it is, or anything with its two methods.

    Raises:
        ConfigurationError: it is something else, or its methods are not one coroutine and one plain method.
    """
    refuse_class(function, what)
    name = type(function).__name__
    invoke, timeout = hook_of(function, "async_invoke"), hook_of(function, "timeout")
    if not isinstance(function, AsyncFunction) and (invoke is None or timeout is None):
        raise ArgumentTypeError(f"{what} needs an AsyncFunction, got {function!r}")
    if inspect.isasyncgenfunction(invoke):
        raise ArgumentTypeError(
            f"{what}: async_invoke of {name} yields; it must return the list of its results instead"
        )
    if not inspect.iscoroutinefunction(invoke):
        raise ArgumentTypeError(f"{what}: async_invoke of {name} must be declared as 'async def'")
    if inspect.iscoroutinefunction(timeout) or inspect.isasyncgenfunction(timeout):
        raise ArgumentTypeError(
            f"{what}: timeout of {name} must be declared as 'def', not 'async def': it gives its results at once"
        )
    return function


def as_partitioner(partitioner: Any, what: str) -> Callable[[Any, int], Any]:
    """A callable from key and number of partitions to partition."""
    refuse_class(partitioner, what)
    if not isinstance(partitioner, Partitioner):
        if not callable(partitioner) or isinstance(partitioner, Function):
            raise ArgumentTypeError(
                f"{what} needs a Partitioner or a function of a key and a number of partitions, got "
                f"{partitioner!r}"
            )
        refuse_async(partitioner, "the function", what)
        function: Callable[[Any, int], Any] = partitioner
        return function
    refuse_other_arguments(partitioner, Partitioner, what)
    return PartitionerWrapper(partitioner) if _has_life_cycle(partitioner) else partitioner.partition


def as_key_function(selector: Any, what: str) -> Callable[[Any], Any]:
    """A callable from value to key."""
    refuse_class(selector, what)
    if not isinstance(selector, KeySelector):
        if not callable(selector) or isinstance(selector, Function):
            raise ArgumentTypeError(
                f"{what} needs a KeySelector or a function of one value, got {selector!r}"
            )
        refuse_async(selector, "the function", what)
        function: Callable[[Any], Any] = selector
        return function
    refuse_other_arguments(selector, KeySelector, what)
    return KeySelectorWrapper(selector) if _has_life_cycle(selector) else selector.get_key


def _wrapped(function: Any, wanted: ABCMeta, wrapper: Callable[[Any], Any] | None, what: str) -> Any:
    if isinstance(function, wanted):
        refuse_other_arguments(function, wanted, what)
        return function
    refuse_class(function, what)
    if isinstance(function, Function):
        raise ArgumentTypeError(f"{what} needs {a_class(wanted)}, got {type(function).__name__}")
    if wrapper is None or not callable(function):
        also = "" if wrapper is None else " or a function"
        raise ArgumentTypeError(f"{what} needs {a_class(wanted)}{also}, got {function!r}")
    refuse_async(function, "the function", what)
    return wrapper(function)


def _refuse_async_methods(function: Any, names: Iterable[str], what: str) -> None:
    for name in names:
        refuse_async(hook_of(function, name), f"{name} of {type(function).__name__}", what)


def refuse_other_arguments(function: Any, wanted: ABCMeta, what: str) -> None:
    """Refuse a function whose methods cannot be called, such as one with Java's collector: its first element would fail.

    Args:
        function: an object of the wanted class.
        wanted: its abstract methods are those that are called.
        what: class and method that it was given to, for messages.

    Raises:
        ArgumentTypeError: a method takes other arguments, or is declared ``async def``.
    """
    _refuse_async_methods(function, (*sorted(wanted.__abstractmethods__), *_ALSO_CALLED), what)
    for name in sorted(wanted.__abstractmethods__ - _SELDOM_CALLED):
        asked, given = hook_of(wanted, name), hook_of(function, name)
        if asked is None or given is None:
            continue
        plain = given.__func__ if inspect.ismethod(given) else given
        if not inspect.isfunction(plain) or not _DECORATED.isdisjoint(vars(plain)):
            continue  # it may take other arguments than it says
        arguments, takes = list(inspect.signature(asked).parameters)[1:], inspect.signature(given)
        try:
            takes.bind(*arguments)
        except TypeError as error:
            raise ArgumentTypeError(
                f"{what}: {name} of {type(function).__name__} takes {takes}, and is called with ({', '.join(arguments)}): "
                f"{error}. Return or yield the results: no collector is passed"
            ) from None


def _has_life_cycle(function: Any) -> bool:
    cls = type(function)
    return cls.open is not Function.open or cls.close is not Function.close


def refuse_class(function: Any, what: str) -> None:
    """Refuse the class of a function in place of an object of it.

    Raises:
        ArgumentTypeError: it is one.
    """
    if inspect.isclass(function) and issubclass(function, Function):
        raise ArgumentTypeError(
            f"{what} needs an object, got the class {function.__name__}; write {function.__name__}()"
        )
