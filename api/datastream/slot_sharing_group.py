"""Slot sharing groups: resources that operators ask for. Spark gives every task a core, so they are only kept."""

from __future__ import annotations

import functools
from typing import Annotated, Any, Self

from changelog_engine.config.numbers import above_zero
from changelog_engine.errors import ConfigurationError, NotSupportedError

from .. import _arguments

__all__ = ["MemorySize", "SlotSharingGroup"]

_UNITS = (("tb", 1 << 40), ("gb", 1 << 30), ("mb", 1 << 20), ("kb", 1 << 10))


@_arguments.checked
@functools.total_ordering
class MemorySize:
    """A number of bytes, to be seen in several units; each rounded down.

    Args:
        bytes_size: the bytes, at least 0.

    Example:
        >>> size = MemorySize(bytes_size=3 * 1024 * 1024 + 1)
        >>> size.get_mebi_bytes(), size.get_kibi_bytes(), str(size), str(MemorySize.of_mebi_bytes(3))
        (3, 3072, '3145729 bytes', '3 mb')
    """

    def __init__(self, j_memory_size: Any = None, bytes_size: int | None = None) -> None:
        if j_memory_size is not None:
            raise NotSupportedError(
                "MemorySize: Java objects cannot be used in this engine; say MemorySize(bytes_size=...)"
            )
        self._bytes = _arguments.whole_number(bytes_size, "MemorySize: bytes_size", 0)

    @staticmethod
    def of_mebi_bytes(mebi_bytes: Annotated[int, _arguments.Whole(0)]) -> MemorySize:
        """A size in units of 1024 * 1024 bytes.

        Args:
            mebi_bytes: how many, at least 0.
        """
        return MemorySize(bytes_size=mebi_bytes << 20)

    def get_bytes(self) -> int:
        """The size in bytes."""
        return self._bytes

    def get_kibi_bytes(self) -> int:
        """The size in units of 1024 bytes."""
        return self._bytes >> 10

    def get_mebi_bytes(self) -> int:
        """The size in units of 1024^2 bytes."""
        return self._bytes >> 20

    def get_gibi_bytes(self) -> int:
        """The size in units of 1024^3 bytes."""
        return self._bytes >> 30

    def get_tebi_bytes(self) -> int:
        """The size in units of 1024^4 bytes."""
        return self._bytes >> 40

    def get_java_memory_size(self) -> Any:
        """There is no Java object behind it.

        Raises:
            NotSupportedError: always; use `get_bytes`.
        """
        raise NotSupportedError(
            "MemorySize.get_java_memory_size: there are no Java objects in this engine; use get_bytes()"
        )

    def __eq__(self, other: object) -> bool:
        """Whether the other one is as large."""
        return isinstance(other, MemorySize) and self._bytes == other._bytes

    def __hash__(self) -> int:
        """Hash of the bytes."""
        return hash(self._bytes)

    def __lt__(self, other: MemorySize) -> bool:
        """Whether the other one is larger."""
        if not isinstance(other, MemorySize):
            return NotImplemented
        return self._bytes < other._bytes

    def __str__(self) -> str:
        """In the largest unit that divides it."""
        for unit, size in _UNITS:
            if self._bytes and self._bytes % size == 0:
                return f"{self._bytes // size} {unit}"
        return f"{self._bytes} bytes"

    def __repr__(self) -> str:
        """As it is made."""
        return f"MemorySize(bytes_size={self._bytes})"


_Amount = Annotated[float, above_zero]
_Size = Annotated[MemorySize, _arguments.SuchAs("MemorySize.of_mebi_bytes(64)")]


@_arguments.checked
class SlotSharingGroup:
    """A name, and the resources that its operators ask for; from ``SlotSharingGroup.builder(name)``.

    It is kept and has no effect: every subtask is a Spark task and gets one core of its executor.

    Example:
        >>> group = SlotSharingGroup.builder("big").set_cpu_cores(2.0).set_task_heap_memory_mb(100).build()
        >>> group.get_name(), group.get_cpu_cores(), str(group.get_task_heap_memory())
        ('big', 2.0, '100 mb')
    """

    def __init__(self, j_slot_sharing_group: Any) -> None:
        if not isinstance(j_slot_sharing_group, SlotSharingGroup.Builder):
            raise NotSupportedError(
                "SlotSharingGroup: Java objects cannot be used in this engine; say "
                "SlotSharingGroup.builder(name)...build()"
            )
        builder = j_slot_sharing_group
        self._name = builder._name
        self._cpu_cores = builder._cpu_cores
        self._memory = dict(builder._memory)
        self._external = dict(builder._external)

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        """Begin a group."""
        return SlotSharingGroup.Builder(name)

    def get_name(self) -> str:
        """Its name."""
        return self._name

    def get_managed_memory(self) -> MemorySize | None:
        """The managed memory; None when it was not set."""
        return self._memory.get("managed")

    def get_task_heap_memory(self) -> MemorySize | None:
        """The heap memory of tasks; None when it was not set."""
        return self._memory.get("heap")

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """The memory of tasks outside the heap; None when it was not set."""
        return self._memory.get("off heap")

    def get_cpu_cores(self) -> float | None:
        """The cores; None when they were not set."""
        return self._cpu_cores

    def get_external_resources(self) -> dict[str, float]:
        """External resources by name; a copy, empty by default."""
        return dict(self._external)

    def get_java_slot_sharing_group(self) -> Any:
        """There is no Java object behind it.

        Raises:
            NotSupportedError: always; use the other getters.
        """
        raise NotSupportedError(
            "SlotSharingGroup.get_java_slot_sharing_group: there are no Java objects in this engine; use "
            "get_name() and the other getters"
        )

    def _parts(self) -> tuple[Any, ...]:
        return self._name, self._cpu_cores, self._memory, self._external

    def __eq__(self, other: object) -> bool:
        """Whether the other one has the same name and resources."""
        return isinstance(other, SlotSharingGroup) and self._parts() == other._parts()

    def __hash__(self) -> int:
        """Hash of the name."""
        return hash(self._name)

    def __repr__(self) -> str:
        """Its name and resources."""
        return f"SlotSharingGroup({self._name!r})"

    @_arguments.checked
    class Builder:
        """Makes a `SlotSharingGroup`. CPU cores and heap memory come together, or neither."""

        def __init__(self, j_builder: Any) -> None:
            self._name: str = j_builder
            self._cpu_cores: float | None = None
            self._memory: dict[str, MemorySize] = {}
            self._external: dict[str, float] = {}

        def set_cpu_cores(self, cpu_cores: _Amount) -> Self:
            """Set the cores.

            Args:
                cpu_cores: how many, above 0.
            """
            self._cpu_cores = float(cpu_cores)
            return self

        def set_task_heap_memory(self, task_heap_memory: _Size) -> Self:
            """Set the heap memory of tasks.

            Args:
                task_heap_memory: above 0.
            """
            if task_heap_memory.get_bytes() == 0:
                raise ConfigurationError("SlotSharingGroup.Builder.set_task_heap_memory: it must be above 0")
            return self._keep("heap", task_heap_memory)

        def set_task_heap_memory_mb(self, task_heap_memory_mb: Annotated[int, _arguments.Whole(1)]) -> Self:
            """Set the heap memory of tasks in MB.

            Args:
                task_heap_memory_mb: above 0.
            """
            return self._keep("heap", MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: _Size) -> Self:
            """Set the memory of tasks outside the heap.

            Args:
                task_off_heap_memory: how much.
            """
            return self._keep("off heap", task_off_heap_memory)

        def set_task_off_heap_memory_mb(
            self, task_off_heap_memory_mb: Annotated[int, _arguments.Whole(0)]
        ) -> Self:
            """Set the memory of tasks outside the heap in MB.

            Args:
                task_off_heap_memory_mb: how much, at least 0.
            """
            return self._keep("off heap", MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: _Size) -> Self:
            """Set the managed memory.

            Args:
                managed_memory: how much.
            """
            return self._keep("managed", managed_memory)

        def set_managed_memory_mb(self, managed_memory_mb: Annotated[int, _arguments.Whole(0)]) -> Self:
            """Set the managed memory in MB.

            Args:
                managed_memory_mb: how much, at least 0.
            """
            return self._keep("managed", MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: _Amount) -> Self:
            """Set an external resource, such as ``gpu``; a second value for a name replaces the first.

            Args:
                value: how much, above 0.
            """
            self._external[name] = float(value)
            return self

        def build(self) -> SlotSharingGroup:
            """Make the group.

            Returns:
                The group; with resources, those of its memories that were not set are 0.

            Raises:
                ConfigurationError: one of CPU cores and heap memory is set and the other is not, or other
                    resources are set without them.
            """
            if self._cpu_cores is not None and "heap" in self._memory:
                for kind in ("off heap", "managed"):
                    self._memory.setdefault(kind, MemorySize(bytes_size=0))
                return SlotSharingGroup(self)
            if self._cpu_cores is None and not self._memory and not self._external:
                return SlotSharingGroup(self)
            raise ConfigurationError(
                f"slot sharing group {self._name!r}: set both the CPU cores and the task heap memory, or no "
                "resource at all"
            )

        def _keep(self, kind: str, size: MemorySize) -> Self:
            self._memory[kind] = size
            return self
