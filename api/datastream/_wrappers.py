"""Turns what users pass (function objects, lambdas, anything callable) into what the engine calls.

The wrappers are plain classes at module level, so that they pickle by name.
"""

from __future__ import annotations

import inspect
from abc import ABCMeta
from collections.abc import Callable, Iterable
from typing import Any

from changelog_engine.errors import ArgumentTypeError
from changelog_engine.graph.hooks import hook_of, refuse_async, refuse_deferred, warn_of_no_result
from changelog_engine.types.typeinfo import a_class

from .functions import (
    AllWindowFunction,
    AsyncFunction,
    BroadcastProcessFunction,
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
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)

_ALSO_CALLED = ("open", "close", "on_timer", "clear")
_GIVE_SEVERAL = frozenset(
    f"{name}{side}" for name in ("flat_map", "process_element") for side in ("", "1", "2")
) | {"process_broadcast_element", "on_timer", "process", "apply"}
_NO_RESULT = {
    "map": "each element becomes None",
    "filter": "no element is kept",
    "get_key": "all elements have the key None",
}
_SELDOM_CALLED = {"merge"}  # of an AggregateFunction: by windows that merge
_DECORATED = frozenset(("__wrapped__", "__signature__"))  # whose arguments inspect.signature() gives instead


class Called:
    """A callable as the function whose one method it is.

    Args:
        method: the method's name.
    """

    def __init__(self, method: str, function: Callable[..., Any]) -> None:
        vars(self)[method] = function


class WithLifeCycle:
    """A function of the API as the callable that the engine wants, with its life cycle.

    Args:
        call: its method that is called.
    """

    def __init__(self, function: Function, call: Callable[..., Any]) -> None:
        self.open, self.close = function.open, function.close
        self._call = call

    def __call__(self, *arguments: Any) -> Any:
        """What the method gives."""
        return self._call(*arguments)


# In place of objects of these classes a function will do, which is their one method.
_ONE_METHOD: dict[ABCMeta, str] = {
    MapFunction: "map",
    FlatMapFunction: "flat_map",
    FilterFunction: "filter",
    ReduceFunction: "reduce",
}


_OF_WINDOWS: dict[ABCMeta, str] = {
    WindowFunction: "window(...).apply()",
    ProcessWindowFunction: "window(...).process()",
    AllWindowFunction: "window_all(...).apply()",
    ProcessAllWindowFunction: "window_all(...).process()",
}


def as_function(function: Any, wanted: ABCMeta, what: str) -> Any:
    """A function of the wanted class as it is; a callable as one of it, where the class has one method."""
    if isinstance(function, wanted):
        refuse_other_arguments(function, wanted, what)
        return function
    refuse_class(function, what)
    if isinstance(function, Function):
        got = type(function).__name__
        raise ArgumentTypeError(f"{what} needs {a_class(wanted)}, got {got}: {_instead(function, wanted)}")
    method = _ONE_METHOD.get(wanted)
    if method is None or not callable(function):
        also = "" if method is None else " or a function"
        plain = f"; {', '.join(f'{each}()' for each in _ONE_METHOD.values())} take plain functions"
        hint = plain if callable(function) else ""
        raise ArgumentTypeError(f"{what} needs {a_class(wanted)}{also}, got {function!r}{hint}")
    refuse = refuse_async if method in _GIVE_SEVERAL else refuse_deferred
    refuse(function, "the function", what)
    _check_call(function, _arguments_of(wanted, method), "the function", what)
    _warn_of_no_result(function, method, what)
    return Called(method, function)


def _instead(function: Function, wanted: ABCMeta) -> str:
    """Where a function belongs that was given to another method than its own."""
    processes: dict[ABCMeta, str] = {ProcessFunction: "process", KeyedProcessFunction: "process"}
    for each, method in {**_ONE_METHOD, **processes}.items():
        if isinstance(function, each) and not (each in processes and wanted in processes):
            return f"it is {a_class(each)}, which {method}() takes"
    for each, method in _OF_WINDOWS.items():
        if isinstance(function, each):
            return f"it is {a_class(each)}, which {method} takes"
    if isinstance(function, (BroadcastProcessFunction, KeyedBroadcastProcessFunction)):
        return "it goes with connect(stream.broadcast(descriptor)), where descriptor is a MapStateDescriptor"
    return f"let it inherit {wanted.__name__}"


def as_process_function(function: Any, what: str) -> Any:
    """A ProcessFunction as it is; also a KeyedProcessFunction, and anything else with a ``process_element``.

    None of them has keyed state there. PyFlink checks nothing here, and calls ``process_element``.
    """
    refuse_class(function, what)
    plain = not isinstance(function, Function) and hook_of(function, "process_element") is not None
    if plain:
        _refuse_deferred_methods(function, ("process_element", *_ALSO_CALLED), what)
        return function
    wanted: ABCMeta = KeyedProcessFunction if isinstance(function, KeyedProcessFunction) else ProcessFunction
    return as_function(function, wanted, what)


def as_co_process_function(function: Any, what: str) -> Any:
    """A CoProcessFunction or KeyedCoProcessFunction as it is; without keys neither has keyed state."""
    wanted: ABCMeta = (
        KeyedCoProcessFunction if isinstance(function, KeyedCoProcessFunction) else CoProcessFunction
    )
    return as_function(function, wanted, what)


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
    return as_function(function, wanted, what)


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
    if _is_one(partitioner, Partitioner, "partition", "a function of a key and a number of partitions", what):
        return _with_life_cycle(partitioner, partitioner.partition)
    function: Callable[[Any, int], Any] = partitioner
    return function


def as_key_function(selector: Any, what: str) -> Callable[[Any], Any]:
    """A callable from value to key."""
    if _is_one(selector, KeySelector, "get_key", "a function of one value", what):
        return _with_life_cycle(selector, selector.get_key)
    function: Callable[[Any], Any] = selector
    return function


def _is_one(function: Any, wanted: ABCMeta, method: str, plain: str, what: str) -> bool:
    """Whether it is an object of the wanted class; else it is a plain function.

    Args:
        plain: what a plain function must be, for the message.
    """
    refuse_class(function, what)
    if isinstance(function, wanted):
        refuse_other_arguments(function, wanted, what)
        return True
    if not callable(function) or isinstance(function, Function):
        raise ArgumentTypeError(f"{what} needs {a_class(wanted)} or {plain}, got {function!r}")
    refuse_deferred(function, "the function", what)
    _check_call(function, _arguments_of(wanted, method), "the function", what)
    _warn_of_no_result(function, method, what)
    return False


def _warn_of_no_result(call: Any, method: str, what: str) -> None:
    if method in _NO_RESULT:
        warn_of_no_result(call, what, _NO_RESULT[method])


def _arguments_of(wanted: ABCMeta, method: str) -> list[str]:
    """The names of what a method of the API's class is called with."""
    asked = hook_of(wanted, method)
    return [] if asked is None else list(inspect.signature(asked).parameters)[1:]


def _check_call(given: Any, arguments: list[str], name: str, what: str, results: bool = True) -> None:
    """Refuse what cannot be called so.

    Args:
        name: what messages call it.
        results: whether it gives some.
    """
    plain = given.__func__ if inspect.ismethod(given) else given
    if not inspect.isfunction(plain) or not _DECORATED.isdisjoint(vars(plain)):
        return  # it may take other arguments than it says
    takes = inspect.signature(given)
    try:
        takes.bind(*arguments)
    except TypeError as error:
        how = ". Return or yield the results: no collector is passed" if results else ""
        raise ArgumentTypeError(
            f"{what}: {name} takes {takes}, and is called with ({', '.join(arguments)}): {error}{how}"
        ) from None


def _refuse_deferred_methods(function: Any, names: Iterable[str], what: str) -> None:
    for name in names:
        refuse = refuse_async if name in _GIVE_SEVERAL else refuse_deferred
        refuse(hook_of(function, name), f"{name} of {type(function).__name__}", what)


def refuse_other_arguments(function: Any, wanted: ABCMeta, what: str) -> None:
    """Refuse a function whose methods cannot be called, such as one with Java's collector: its first element would fail.

    Args:
        function: an object of the wanted class.
        wanted: its abstract methods are those that are called.
        what: class and method that it was given to, for messages.

    Raises:
        ArgumentTypeError: a method takes other arguments, is declared ``async def``, or yields where there is one result.
    """
    _refuse_deferred_methods(function, (*sorted(wanted.__abstractmethods__), *_ALSO_CALLED), what)
    for name in sorted(wanted.__abstractmethods__ - _SELDOM_CALLED):
        given = hook_of(function, name)
        if given is not None:
            _check_call(given, _arguments_of(wanted, name), f"{name} of {type(function).__name__}", what)
            _warn_of_no_result(given, name, what)
    for name in _ALSO_CALLED:
        given = hook_of(function, name)
        asked = next((vars(each)[name] for each in wanted.__mro__ if name in vars(each)), None)
        if given is not None and asked is not None:
            arguments = list(inspect.signature(asked).parameters)[1:]
            name_here = f"{name} of {type(function).__name__}"
            _check_call(given, arguments, name_here, what, results=name in _GIVE_SEVERAL)


def _with_life_cycle(function: Function, method: Callable[..., Any]) -> Callable[..., Any]:
    """The method that is called; with the function's open() and close(), if it has its own."""
    cls = type(function)
    own = cls.open is not Function.open or cls.close is not Function.close
    return WithLifeCycle(function, method) if own else method


def refuse_class(function: Any, what: str) -> None:
    """Refuse the class of a function in place of an object of it.

    Raises:
        ArgumentTypeError: it is one.
    """
    if inspect.isclass(function) and issubclass(function, Function):
        raise ArgumentTypeError(
            f"{what} needs an object, got the class {function.__name__}; write {function.__name__}()"
        )
