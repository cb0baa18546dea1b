"""What stands here for Java's StreamExecutionEnvironment, and for the stream that it makes of a socket."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from changelog_engine.config.names import names_of

from ..common._java_objects import JavaConfiguration, JavaObject, no_java_method
from ..common.configuration import Configuration

if TYPE_CHECKING:
    from ._graph import Transformation
    from .stream_execution_environment import StreamExecutionEnvironment


_CONFIG = names_of(
    "enableObjectReuse disableObjectReuse setAutoWatermarkInterval getAutoWatermarkInterval setParallelism getParallelism "
    "setMaxParallelism getMaxParallelism setUseSnapshotCompression"
)
_CHECKPOINTS = names_of(
    "setCheckpointInterval getCheckpointInterval setCheckpointTimeout getCheckpointTimeout "
    "setMinPauseBetweenCheckpoints getMinPauseBetweenCheckpoints setMaxConcurrentCheckpoints "
    "getMaxConcurrentCheckpoints setTolerableCheckpointFailureNumber getTolerableCheckpointFailureNumber "
    "enableUnalignedCheckpoints disableUnalignedCheckpoints isCheckpointingEnabled"
)
_ENVIRONMENT = names_of(
    "setParallelism getParallelism setMaxParallelism getMaxParallelism enableCheckpointing getCheckpointInterval "
    "setBufferTimeout getBufferTimeout disableOperatorChaining isChainingEnabled"
)


class JavaExecutionConfig(JavaObject):
    """Java's ExecutionConfig of an environment."""

    java_class = "ExecutionConfig"
    same = _CONFIG


class JavaCheckpointConfig(JavaObject):
    """Java's CheckpointConfig of an environment."""

    java_class = "CheckpointConfig"
    same = _CHECKPOINTS


class JavaEnvironment(JavaObject):
    """Java's StreamExecutionEnvironment behind one of Python."""

    java_class = "StreamExecutionEnvironment"
    same = _ENVIRONMENT
    _python: StreamExecutionEnvironment

    def getConfiguration(self) -> JavaConfiguration:
        """The options of the environment as they are: what is set there holds for it."""
        live = Configuration()
        live._entries = self._python._settings.live_entries()
        return JavaConfiguration(live)

    def getConfig(self) -> JavaExecutionConfig:
        """The execution config of the environment."""
        return JavaExecutionConfig(self._python.get_config())

    def getCheckpointConfig(self) -> JavaCheckpointConfig:
        """The checkpoint config of the environment."""
        return JavaCheckpointConfig(self._python.get_checkpoint_config())

    def socketTextStream(
        self, hostname: str, port: int, delimiter: str = "\n", max_retry: int = 0
    ) -> JavaDataStream:
        """The lines that a server sends, for ``DataStream(...)``; see `StreamExecutionEnvironment._socket_text_stream`."""
        stream = self._python._socket_text_stream(hostname, port, delimiter, max_retry)
        return JavaDataStream(self._python, stream._transformation)


@dataclass(frozen=True)
class JavaDataStream:
    """A stream of Java's, which ``DataStream(...)`` takes."""

    environment: StreamExecutionEnvironment
    transformation: Transformation

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"'JavaDataStream' object has no attribute {name!r}")
        raise no_java_method("DataStream", name, "DataStream(stream), and the methods of that")
