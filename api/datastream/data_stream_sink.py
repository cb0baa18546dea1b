"""DataStreamSink: the handle of a sink."""

from __future__ import annotations

from api._arguments import parallelism as checked_parallelism
from api._arguments import text
from api._unsupported import NamesOfPyFlink
from api.datastream._transformation import Transformation


class DataStreamSink(NamesOfPyFlink):
    """The handle of a sink, from ``print()``, ``add_sink()`` or ``sink_to()``.

    Source: pyflink.datastream.DataStreamSink
    """

    _not_here = frozenset({"disable_chaining", "set_description", "set_uid_hash", "slot_sharing_group"})

    def __init__(self, transformation: Transformation) -> None:
        self._transformation = transformation

    def name(self, name: str) -> DataStreamSink:
        """Set the sink's name, which people see.

        Args:
            name: any text.

        Returns:
            This object.

        Raises:
            ConfigurationError: no text.
        """
        self._transformation.name = text(name, "DataStreamSink.name: the name")
        return self

    def uid(self, uid: str) -> DataStreamSink:
        """Set the sink's stable id.

        Args:
            uid: unique in the job.

        Returns:
            This object.

        Raises:
            ConfigurationError: no text.
        """
        self._transformation.uid = text(uid, "DataStreamSink.uid: the uid")
        return self

    def set_parallelism(self, parallelism: int) -> DataStreamSink:
        """Set the sink's parallelism.

        Args:
            parallelism: 1 to 32768.

        Returns:
            This object.

        Raises:
            ConfigurationError: out of range.
        """
        what = f"DataStreamSink.set_parallelism of {self._transformation.name!r}"
        self._transformation.parallelism = checked_parallelism(parallelism, what)
        return self
