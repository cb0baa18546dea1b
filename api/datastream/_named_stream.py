"""What every stream has: the operator that makes it, with a name, an id, a type and a parallelism."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from api import _arguments
from api._unsupported import NamesOfPyFlink
from api.common.execution_config import ExecutionConfig
from api.datastream._transformation import Transformation
from changelog_engine.errors import ConfigurationError
from changelog_engine.graph.nodes import NodeKind
from changelog_engine.types import TypeInformation, Types

if TYPE_CHECKING:
    from api.datastream.stream_execution_environment import StreamExecutionEnvironment


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
        """The name of the operator that makes the stream."""
        return self._named.name

    def name(self, name: str) -> Self:
        """Set the name of the operator that makes the stream. People see it; nothing depends on it.

        Args:
            name: any text.

        Returns:
            This object.

        Raises:
            ConfigurationError: no text.
        """
        self._named.name = _arguments.text(name, "DataStream.name: the name")
        return self

    def uid(self, uid: str) -> Self:
        """Set the stable id of the operator that makes the stream.

        State finds its operator by it when the program has changed, and the changelog shows it.

        Args:
            uid: unique in the job; two operators with the same one are an error at ``execute()``.

        Returns:
            This object.

        Raises:
            ConfigurationError: no text.
        """
        self._named.uid = _arguments.text(uid, "DataStream.uid: the uid")
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the parallelism of the operator that makes the stream.

        Args:
            parallelism: 1 to 32768; 1 for a source that is not parallel, such as a collection.

        Returns:
            This object.

        Raises:
            ConfigurationError: out of range.
        """
        what = f"DataStream.set_parallelism of {self._named.name!r}"
        value = _arguments.parallelism(parallelism, what)
        if value != 1 and self._named.kind is NodeKind.SOURCE and not self._named.function.parallel:
            raise ConfigurationError(
                f"{what}: the parallelism of a source that is not parallel must be 1, got {value}"
            )
        self._named.parallelism = value
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups of the operator that makes the stream.

        It bounds the parallelism for ever.

        Args:
            max_parallelism: 1 to 32768.

        Returns:
            This object.

        Raises:
            ConfigurationError: out of range.
        """
        what = f"DataStream.set_max_parallelism of {self._named.name!r}"
        self._named.max_parallelism = _arguments.max_parallelism(max_parallelism, what)
        return self
