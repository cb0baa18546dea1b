"""What WindowedStream and AllWindowedStream share: the settings of the windows, and the operator made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from changelog_engine.errors import ArgumentTypeError, ConfigurationError
from changelog_engine.graph.nodes import NodeKind, StateKind, StateSpec
from changelog_engine.graph.tags import OutputTag
from changelog_engine.types import TypeInformation, Types
from changelog_engine.windowing.assigner import MergingWindowAssigner, WindowAssigner
from changelog_engine.windowing.namespaces import window_codec
from changelog_engine.windowing.spec import Firing, WindowSpec, contents_spec
from changelog_engine.windowing.trigger import Trigger

from .. import _arguments
from .._unsupported import NamesOfPyFlink
from . import _wrappers
from ._transformation import Transformation
from .window_functions import is_window_function

if TYPE_CHECKING:
    from .data_stream import DataStream
    from .stream_execution_environment import StreamExecutionEnvironment


class WindowedBase(NamesOfPyFlink):
    """What both windowed streams share."""

    _firings: ClassVar[dict[type, Firing]] = {}

    def __init__(self, stream: DataStream, keyed: Transformation, window_assigner: WindowAssigner) -> None:
        self._stream = stream
        self._keyed = keyed
        self._assigner = as_assigner(window_assigner, type(self).__name__)
        self._trigger: Trigger | None = None
        self._lateness_ms = 0
        self._late_tag: OutputTag | None = None

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment that the stream belongs to."""
        return self._stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        """The declared type of the elements; ``Types.PICKLED_BYTE_ARRAY()`` when none is declared."""
        return self._stream.get_type()

    def trigger(self, trigger: Trigger) -> Self:
        """Set what decides when a window fires, in place of the assigner's own trigger.

        Args:
            trigger: the trigger; for sessions and other windows that merge, one whose ``can_merge`` is true.

        Returns:
            This object.

        Raises:
            ConfigurationError: no trigger, or one that cannot merge.
        """
        what = f"{type(self).__name__}.trigger"
        if not isinstance(trigger, Trigger):
            raise ArgumentTypeError(f"{what}: the trigger must be a Trigger, got {trigger!r}")
        if isinstance(self._assigner, MergingWindowAssigner) and trigger.can_merge() is not True:
            raise ArgumentTypeError(
                f"{what}: windows of {type(self._assigner).__name__} merge, and {type(trigger).__name__} does not support "
                "that; its can_merge() must return True"
            )
        self._trigger = trigger
        return self

    def allowed_lateness(self, time_ms: int) -> Self:
        """Set how long after its end a window still takes elements. Means something for windows of event time only.

        Args:
            time_ms: ms; 0 by default. Each late element fires its window again. Elements that come later are dropped,
                or go where ``side_output_late_data`` says.

        Returns:
            This object.

        Raises:
            ConfigurationError: no int, or less than 0.
        """
        self._lateness_ms = _arguments.whole_number(
            time_ms, f"{type(self).__name__}.allowed_lateness: the time in ms", 0
        )
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Send elements that no window takes any more to a side output, in place of dropping them.

        Args:
            output_tag: the side output, for ``get_side_output`` of the resulting stream.

        Returns:
            This object.

        Raises:
            ConfigurationError: no OutputTag.
        """
        if not isinstance(output_tag, OutputTag):
            raise ArgumentTypeError(
                f"{type(self).__name__}.side_output_late_data: output_tag must be an OutputTag, got {output_tag!r}"
            )
        self._late_tag = output_tag
        return self

    def _reduced(self, function: Any, window_function: Any, output_type: Any) -> DataStream:
        what = f"{type(self).__name__}.reduce"
        wrapped = _wrappers.as_reduce_function(function, what)
        contents = contents_spec(StateKind.REDUCING, self.get_input_type(), wrapped)
        if window_function is None and output_type is None:
            output_type = self._stream._transformation.output_type
        return self._result(what, contents, window_function, output_type, function)

    def _aggregated(
        self, function: Any, window_function: Any, accumulator_type: Any, output_type: Any
    ) -> DataStream:
        what = f"{type(self).__name__}.aggregate"
        wrapped = _wrappers.as_aggregate_function(function, what)
        if isinstance(accumulator_type, list):
            accumulator_type = Types.ROW(accumulator_type)
        declared = _arguments.type_info(accumulator_type, f"{what}: accumulator_type")
        contents = contents_spec(StateKind.AGGREGATING, declared or Types.PICKLED_BYTE_ARRAY(), wrapped)
        return self._result(what, contents, window_function, output_type, function)

    def _listed(self, name: str, wanted: type, function: Any, output_type: Any) -> DataStream:
        what = f"{type(self).__name__}.{name}"
        if not isinstance(function, wanted):
            raise ArgumentTypeError(f"{what} needs a {wanted.__name__}, got {function!r}")
        return self._result(what, contents_spec(StateKind.LIST, self.get_input_type()), function, output_type)

    def _result(
        self, what: str, contents: StateSpec, function: Any, output_type: Any, combined: Any = None
    ) -> DataStream:
        """The stream of results.

        Args:
            what: class and method, for messages.
            contents: the state of a window's elements.
            function: called when a window fires; None emits the combination.
            output_type: declared type of the results.
            combined: the user's reduce or aggregate function, for the operator's name.
        """
        from .data_stream import DataStream

        window_codec(self._assigner.get_window_serializer())  # refuses what is no serializer
        trigger = self._trigger or self._assigner.get_default_trigger(self.get_execution_environment())
        spec = WindowSpec(
            self._assigner,
            trigger,
            contents,
            self._firing(what, function),
            function,
            self._lateness_ms,
            None if self._late_tag is None else self._late_tag.tag_id,
        )
        names = [type(each).__name__ for each in (trigger, combined, function) if each is not None]
        transformation = Transformation(
            NodeKind.WINDOW,
            f"Window({', '.join([type(self._assigner).__name__, *names])})",
            (self._keyed,),
            spec,
            _arguments.type_info(output_type, f"{what}: output_type"),
        )
        self._place(transformation)
        return DataStream(self.get_execution_environment(), transformation)

    def _firing(self, what: str, function: Any) -> Firing:
        if function is None:
            return Firing.EMIT
        for wanted, firing in self._firings.items():
            if isinstance(function, wanted):
                return firing
        names = " or ".join(wanted.__name__ for wanted in self._firings)
        got = type(function).__name__ if is_window_function(function) else repr(function)
        raise ArgumentTypeError(f"{what}: the window function must be a {names}, got {got}")

    def _place(self, transformation: Transformation) -> None:
        """Say where the operator runs."""


def as_assigner(assigner: Any, what: str) -> WindowAssigner:
    if not isinstance(assigner, WindowAssigner):
        raise ArgumentTypeError(f"{what}: window_assigner must be a WindowAssigner, got {assigner!r}")
    return assigner


def either(documented: Any, other: Any, what: str) -> Any:
    if documented is not None and other is not None:
        raise ConfigurationError(f"{what}: result_type and output_type are the same thing; give one of them")
    return documented if other is None else other
