"""What every stream has: the operator that makes it, with a name, an id, a type and a parallelism."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from changelog_engine.types import TypeInformation, Types

from .. import _arguments
from .._differences import without_effect
from .._unsupported import NamesOfPyFlink
from ..common.execution_config import ExecutionConfig
from . import _operator_settings
from ._transformation import Chaining, Transformation

if TYPE_CHECKING:
    from .slot_sharing_group import SlotSharingGroup
    from .stream_execution_environment import StreamExecutionEnvironment


class NamedStream(NamesOfPyFlink):
    """The operator that makes a stream; see `DataStream`."""

    def __init__(
        self,
        environment: StreamExecutionEnvironment,
        transformation: Transformation,
        named: Transformation | None = None,
    ) -> None:
        self._environment = environment
        self._transformation = transformation
        environment._add(transformation)
        # What name(), uid() and set_parallelism() mean; the source where watermarks were added to it.
        self._named = named or transformation

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment that the stream belongs to."""
        return self._environment

    def get_execution_config(self) -> ExecutionConfig:
        """The environment's `ExecutionConfig`."""
        return self._environment.get_config()

    def get_type(self) -> TypeInformation:
        """The declared type of the elements; ``Types.PICKLED_BYTE_ARRAY()`` when none is declared."""
        return self._transformation.output_type or Types.PICKLED_BYTE_ARRAY()

    def get_name(self) -> str:
        """The name of the operator that makes the stream.

        Raises:
            InvalidJobError: the stream is keyed, partitioned or a union, which is no operator.
        """
        return self._operator("get_name").name

    def name(self, name: str) -> Self:
        """Set the name of the operator that makes the stream. People see it; nothing depends on it.

        Args:
            name: any text.

        Returns:
            This object.

        Raises:
            ConfigurationError: not a str.
            InvalidJobError: the stream is keyed, partitioned or a union, which is no operator; so with all
            methods that set something on it.
        """
        self._operator("name").name = _arguments.text(name, "DataStream.name: the name")
        return self

    def uid(self, uid: str) -> Self:
        """Set the stable id of the operator that makes the stream.

        State finds its operator by it when the program has changed, and the changelog shows it.

        Args:
            uid: unique in the job; two operators with the same one are an error at ``execute()``.

        Returns:
            This object.

        Raises:
            ConfigurationError: not a str.
        """
        self._operator("uid").uid = _arguments.text(uid, "DataStream.uid: the uid")
        return self

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Set the stable id of an operator without uid, such as one that an earlier version of the job had.

        Args:
            uid_hash: 32 hexadecimal digits, unique in the job. It is the id as it is; ``uid()`` goes before it.

        Returns:
            This object.

        Raises:
            ConfigurationError: something else.
        """
        _operator_settings.set_uid_hash(self._operator("set_uid_hash"), uid_hash, "DataStream.set_uid_hash")
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the parallelism of the operator that makes the stream.

        Args:
            parallelism: 1 to 32768; 1 for a source that is not parallel, such as a collection, and after
                `force_non_parallel`.

        Returns:
            This object.

        Raises:
            ConfigurationError: out of range.
        """
        _operator_settings.set_parallelism(
            self._operator("set_parallelism"), parallelism, "DataStream.set_parallelism"
        )
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups of the operator that makes the stream.

        It bounds the parallelism for ever.

        Args:
            max_parallelism: 1 to 32768; 1 after `force_non_parallel`.

        Returns:
            This object.

        Raises:
            ConfigurationError: out of range.
        """
        _operator_settings.set_max_parallelism(
            self._operator("set_max_parallelism"), max_parallelism, "DataStream.set_max_parallelism"
        )
        return self

    def force_non_parallel(self) -> Self:
        """Set parallelism and max parallelism of the operator that makes the stream to 1, for good.

        Returns:
            This object.
        """
        operator = self._operator("force_non_parallel")
        operator.parallelism = operator.max_parallelism = 1
        operator.parallel = False
        return self

    def set_description(self, description: str) -> Self:
        """Say what the operator that makes the stream does. Kept; nothing depends on it.

        Args:
            description: any text.

        Returns:
            This object.

        Raises:
            ConfigurationError: not a str.
        """
        _operator_settings.set_description(
            self._operator("set_description"), description, "DataStream.set_description"
        )
        return self

    @without_effect("output leaves at the end of an epoch")
    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Set how long elements may wait in a buffer. Kept, without effect: elements travel by epoch.

        Args:
            timeout_millis: in ms; 0 for no waiting, -1 for the default.

        Returns:
            This object.

        Raises:
            ConfigurationError: no whole number of at least -1.
        """
        _operator_settings.set_buffer_timeout(
            self._operator("set_buffer_timeout"), timeout_millis, "DataStream.set_buffer_timeout"
        )
        return self

    @without_effect("operators between two exchanges run in one task")
    def start_new_chain(self) -> Self:
        """Ask for a new chain that begins with this operator. Kept, without effect: chains follow exchanges.

        Returns:
            This object.
        """
        _operator_settings.set_chaining(self._operator("start_new_chain"), Chaining.HEAD)
        return self

    @without_effect("operators between two exchanges run in one task")
    def disable_chaining(self) -> Self:
        """Ask for a task of its own. Kept, without effect: chains follow exchanges.

        Returns:
            This object.
        """
        _operator_settings.set_chaining(self._operator("disable_chaining"), Chaining.NEVER)
        return self

    @without_effect("every subtask is a Spark task with one core")
    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self:
        """Ask to share slots with the operators of a group. Kept, without effect: Spark places tasks.

        Args:
            slot_sharing_group: a name or a `SlotSharingGroup`.

        Returns:
            This object.

        Raises:
            ConfigurationError: neither.
        """
        _operator_settings.set_slot_sharing_group(
            self._operator("slot_sharing_group"), slot_sharing_group, "DataStream.slot_sharing_group"
        )
        return self

    def _operator(self, method: str) -> Transformation:
        """The operator that a method means.

        Raises:
            InvalidJobError: there is none.
        """
        _operator_settings.check_operator(self._transformation, type(self).__name__, method)
        return self._named
