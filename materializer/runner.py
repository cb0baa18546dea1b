"""What runs the tasks of materializations and truncations: this process, processes of its own, or Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class TaskRunner(Protocol):
    """Runs functions of plain tasks; see materializer.processes and changelog_engine.spark.background.

    ``stop`` is safe from any thread, ``map`` is called by one at a time. Tasks run in any order, side by side or not.

    Attributes:
        parallel: whether they may run side by side, or go on after ``stop``.
    """

    parallel: bool

    def ready(self) -> bool:
        """Whether it can run tasks now; waits for machines that may come, until it is stopped."""

    def map(self, function: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
        """Call a function with each task.

        Args:
            function: of a module, so that it pickles; leaves nothing half done when its process is killed.

        Raises:
            ChangelogEngineError: what the function raised, the first in the order of tasks; or a task was lost, or ``stop``
                was called.
        """

    def stop(self) -> None:
        """End the tasks at once; when it returns none runs on this machine, and ``map`` starts no more."""

    def let_end(self) -> None:
        """As ``stop``, but what cannot be ended for certain runs to its end, and ``map`` returns or raises after that."""


class _Here:
    """See TaskRunner: in this process, one task after the other."""

    parallel = False

    def ready(self) -> bool:
        """Always."""
        return True

    def map(self, function: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
        return [function(task) for task in tasks]

    def stop(self) -> None:
        """Nothing runs beside the caller."""

    def let_end(self) -> None:
        """As ``stop``."""


HERE: TaskRunner = _Here()
