"""Makes calls of the API on trial, where all arguments stand in the program: the API itself says what is wrong with them.

Building runs nothing, so a call on an object of our own leaves no trace. Only calls that neither read nor write are tried.
"""

from __future__ import annotations

import ast
import copy
import importlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from changelog_engine.api_names import API
from changelog_engine.config.names import names_of
from changelog_engine.static_check.values import Bound, FunctionNode, Known, ProgramClass, ProgramFunction
from changelog_engine.whose_code import calling_line

# Modules whose classes and functions only make values.
_MAKE_VALUES = (
    "changelog_engine.types",
    f"{API}.common",
    f"{API}.datastream.functions",
    f"{API}.datastream.state_descriptors",
    f"{API}.datastream.state_ttl",
    "changelog_engine.windowing",
    f"{API}.datastream.connectors.base",
)
# Of the environment, and from_collection.
_SETTINGS = tuple(names_of("set_ enable_ disable_ add_ register_ from_"))
_OF_THE_PROCESS = "set_default_local_parallelism"  # would leave a trace
_OF_STREAMS = tuple(
    names_of(
        "add_sink sink_to set_ uid name slot_sharing_group map flat_map filter process reduce window count_window "
        "assign_timestamps_and_watermarks union connect broadcast key_by partition_custom"
    )
)
_OF_WINDOWS = names_of("trigger allowed_lateness side_output_late_data reduce aggregate apply process")
_OF_TWO = names_of("map flat_map process")
_LOG = "changelog_engine"


def makes_values(function: Any) -> bool:
    """Whether a function or class of the API only makes a value."""
    # A source or sink that builders make has its base's constructor, which makes a value, too.
    maker = function.__init__ if isinstance(function, type) else function  # type: ignore[misc]
    modules = [getattr(each, "__module__", None) or "" for each in (function, maker)]
    return any(module.startswith(_MAKE_VALUES) for module in modules)


def tried(method: Bound, given: list[Any], named: dict[str, Any]) -> list[str]:
    """The warnings that a setting of the environment, of a stream or of a configuration gives.

    Args:
        method: which; others than settings and sinks are not tried.

    Raises:
        ChangelogEngineError: the API says why it can't.
    """
    owner = _blank(method)
    if owner is None:
        return []
    said: list[str] = []
    with _heard(said):
        getattr(owner, method.name)(*given, **named)
        _environment(owner if method.owner.__name__ == "Configuration" else None)
    reader = f" ({calling_line()})"  # where the program's line would stand
    return [each.removesuffix(reader) for each in said]


def stand_in(cls: ProgramClass) -> type | None:
    """A class that is to the API what one of the program's is, and none of it is called; None when that isn't known."""
    known = [isinstance(base, (Known, ProgramClass)) for each in cls.line() for base in each.bases]
    bases = cls.api_bases()
    if not bases or not all(known):
        return None
    base = bases[0]
    methods: dict[str, Any] = dict.fromkeys(getattr(base, "__abstractmethods__", ()), FUNCTION)
    if issubclass(base, importlib.import_module(f"{API}.datastream.functions").Function):
        for each in reversed(cls.line()):
            methods |= _methods(each)
    return type(base)(cls.node.name, (base,), methods)


def _methods(cls: ProgramClass) -> dict[str, Any]:
    found = {name: each for name, each in cls.scope.ever.items() if isinstance(each, ProgramFunction)}
    return {name: stand_in_function(each.node, cls) for name, each in found.items() if name[0] != "_"}


class _Function:
    """Stands for a function of the program of which nothing is known."""

    def __call__(self, *arguments: Any) -> Any:
        """Nothing."""

    def __repr__(self) -> str:
        return "a function"


FUNCTION = _Function()


def stand_in_function(node: FunctionNode, cls: ProgramClass | None = None) -> Any:
    """What is to the API, which looks at functions and calls none, what one of the program's is, or a method of a class."""
    alone = copy.copy(node)
    alone.args = _plain(node.args)
    if isinstance(alone, ast.Lambda):
        alone = ast.FunctionDef("<lambda>", alone.args, [ast.Return(alone.body)], [])
    elif alone.decorator_list:
        return FUNCTION  # it may take and give anything
    alone.returns = None
    # One that has no module is looked for in all of them when it is pickled.
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        exec(
            compile(ast.fix_missing_locations(ast.Module([alone], [])), "", "exec", dont_inherit=True), names
        )
    except SyntaxError:  # such as a nonlocal of the function round it
        return FUNCTION
    made = names[alone.name]
    made.__qualname__ = alone.name if cls is None else f"{cls.node.name}.{alone.name}"
    return made


def _plain(given: ast.arguments) -> ast.arguments:
    """Parameters without their annotations, and with None for each default, so that nothing of the program runs."""
    plain = copy.deepcopy(given)
    for each in (*plain.posonlyargs, *plain.args, *plain.kwonlyargs, plain.vararg, plain.kwarg):
        if each is not None:
            each.annotation = None
    nothing = ast.Constant(None)
    plain.defaults = [nothing for _ in plain.defaults]
    plain.kw_defaults = [each and nothing for each in plain.kw_defaults]
    return plain


def _blank(method: Bound) -> Any:
    name = method.owner.__name__
    if not method.owner.__module__.startswith(API):
        return None
    if name in ("DataStream", "KeyedStream") and method.name.startswith(_OF_STREAMS):
        stream = _environment().from_collection([None]).map(str)
        return stream if name == "DataStream" else stream.key_by(str)
    if name == "WindowedStream" and method.name in _OF_WINDOWS:
        return _environment().from_collection([None]).map(str).key_by(str).count_window(1)
    if name == "AllWindowedStream" and method.name in _OF_WINDOWS:
        return _environment().from_collection([None]).count_window_all(1)
    if name == "ConnectedStreams" and method.name in _OF_TWO:
        stream = _environment().from_collection([None])
        return stream.connect(stream)
    if not method.name.startswith(_SETTINGS) or method.name == _OF_THE_PROCESS:
        return None
    if name == "Configuration":
        return method.owner()
    return _environment() if name == "StreamExecutionEnvironment" else None


def _environment(configuration: Any = None) -> Any:
    cls = importlib.import_module(f"{API}.datastream").StreamExecutionEnvironment
    environment = cls.get_execution_environment(configuration)
    if configuration is not None:
        environment._settings.job_files()
    return environment


@contextmanager
def _heard(said: list[str]) -> Iterator[None]:
    """What the API logs goes to the list, and nowhere else."""
    logger = logging.getLogger(_LOG)
    before, spreads, level = logger.handlers[:], logger.propagate, logger.level
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.handlers, logger.propagate = before, spreads
        logger.setLevel(level)
