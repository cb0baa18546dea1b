"""Warnings that each subtask of an operator may give alike: the driver says such a one once, and of how many it came.

Workers may be many, and on other machines, where nobody looks at what they write.

Invariant: what is told outside a subtask's epoch, by another thread, or in an epoch that fails is logged there and then.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping

log = logging.getLogger("changelog_engine")


class _Thread(threading.local):
    found: dict[str, str] | None = None  # what its subtask warned of in this epoch


_thread = _Thread()


def warn(about: str, message: str, *values: object) -> None:
    """Warn of something once a job.

    Args:
        about: what is the same in each subtask that finds it.
        message: and its values, as ``logging`` takes them.
    """
    if _thread.found is None:
        log.warning(message, *values)
    else:
        _thread.found.setdefault(about, message % values)


@contextlib.contextmanager
def collected() -> Iterator[dict[str, str]]:
    """Within it this thread's warnings are kept, by what they are about."""
    found: dict[str, str] = {}
    _thread.found = found
    try:
        yield found
    except BaseException:
        for text in found.values():
            log.warning("%s", text)
        raise
    finally:
        _thread.found = None


def tell(warnings: Iterable[Mapping[str, str]], told: set[str]) -> None:
    """Log what subtasks warned of in an epoch.

    Args:
        told: what this job's warnings were about before; those that are new come to it.
    """
    new: dict[str, list[str]] = {}
    for each in warnings:
        for about, text in each.items():
            if about not in told:
                new.setdefault(about, []).append(text)
    told.update(new)
    for texts in new.values():
        log.warning("%s%s", texts[0], f" (so in {len(texts)} subtasks)" if len(texts) > 1 else "")
