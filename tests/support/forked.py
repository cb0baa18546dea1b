"""Many short processes for the price of one: forks of a process that has imported everything and run nothing."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable

import pyarrow as pa


def import_the_rest() -> None:
    """Import what is imported when it is first needed, which each fork would do: 0.3 CPU seconds, most of a small job's.

    Arrow imports pandas with the first list of which it makes an array. Spark's workers have it before they are forked, too.
    """
    pa.array([0])


def forked(what: Callable[[], object]) -> int:
    """The exit status of a child that does something; below 0 for a signal."""
    child = os.fork()
    if child == 0:
        try:
            what()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
