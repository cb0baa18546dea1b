"""The worker's side of an epoch: the runtimes that this process holds, and what the driver tells it between two epochs.

They are a module global that tasks reach by import, because cloudpickle copies the globals of nested functions.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

from changelog_engine.operators.messages import Durable
from changelog_engine.spark.printed import flush_printed
from changelog_engine.spark.runtimes import Runtimes

_DAEMONS = ("pyspark.daemon", "changelog_engine.spark.daemon")


def commit(told: bytes) -> None:
    """Have sinks commit what is durable now; what fails there is told by the next task.

    Args:
        told: the fields of a Durable, as JSON.
    """
    RUNTIMES.commit(Durable(*json.loads(told)))
    flush_printed()


def _end_quietly() -> None:
    """When the JVM ends first, PySpark's daemon prints a traceback for each worker it can no longer write to: no news."""
    # None where a program was made without the import system
    spec = vars(sys.modules["__main__"]).get("__spec__")
    if spec is None or spec.name not in _DAEMONS:
        return
    print_exc = traceback.print_exc

    def print_others(*arguments: Any, **options: Any) -> None:
        if not isinstance(sys.exc_info()[1], BrokenPipeError):
            print_exc(*arguments, **options)

    traceback.print_exc = print_others


RUNTIMES = Runtimes()
_end_quietly()
