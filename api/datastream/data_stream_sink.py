"""DataStreamSink: the handle of a sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._arguments import text
from .._differences import without_effect
from .._unsupported import NamesOfPyFlink
from . import _operator_settings
from ._transformation import Chaining, Transformation

if TYPE_CHECKING:
    from .slot_sharing_group import SlotSharingGroup


class DataStreamSink(NamesOfPyFlink):
    """The handle of a sink, from ``print()``, ``add_sink()`` or ``sink_to()``.

    Source: pyflink.datastream.DataStreamSink
    """

    def __init__(self, transformation: Transformation) -> None:
        self._transformation = transformation

    def name(self, name: str) -> DataStreamSink:
        """Set the sink's name, which people see.

        Args:
            name: any text.

        Returns:
            This object.

        Raises:
            ConfigurationError: not a str.
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
            ConfigurationError: not a str.
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
        _operator_settings.set_parallelism(
            self._transformation, parallelism, "DataStreamSink.set_parallelism"
        )
        return self

    def set_uid_hash(self, uid_hash: str) -> DataStreamSink:
        """Set the stable id of a sink without uid, such as one that an earlier version of the job had.

        Args:
            uid_hash: 32 hexadecimal digits, unique in the job. It is the id as it is; ``uid()`` goes before it.

        Returns:
            This object.

        Raises:
            ConfigurationError: something else.
        """
        _operator_settings.set_uid_hash(self._transformation, uid_hash, "DataStreamSink.set_uid_hash")
        return self

    def set_description(self, description: str) -> DataStreamSink:
        """Say what the sink does. Kept; nothing depends on it.

        Args:
            description: any text.

        Returns:
            This object.

        Raises:
            ConfigurationError: not a str.
        """
        _operator_settings.set_description(
            self._transformation, description, "DataStreamSink.set_description"
        )
        return self

    @without_effect("operators between two exchanges run in one task")
    def disable_chaining(self) -> DataStreamSink:
        """Ask for a task of its own. Kept, without effect: chains follow exchanges.

        Returns:
            This object.
        """
        _operator_settings.set_chaining(self._transformation, Chaining.NEVER)
        return self

    @without_effect("every subtask is a Spark task with one core")
    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> DataStreamSink:
        """Ask to share slots with the operators of a group. Kept, without effect: Spark places tasks.

        Args:
            slot_sharing_group: a name or a `SlotSharingGroup`.

        Returns:
            This object.

        Raises:
            ConfigurationError: neither.
        """
        _operator_settings.set_slot_sharing_group(
            self._transformation, slot_sharing_group, "DataStreamSink.slot_sharing_group"
        )
        return self
