"""Names that Java keeps until it ends, to delete the files then: Spark gives it one for each socket that results come by.

Such a socket is gone when its results are there, and Java never forgets its name: some 150 bytes of the heap for each epoch,
13 MB a day with one a second.

Java locks the set of names where it adds one, and nobody else can. So the set is not changed but replaced, and what was
added to it meanwhile is added to the new one in Java's own way.
"""

from __future__ import annotations

import functools
import logging
import os
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from changelog_engine.spark.jvm import LOST

log = logging.getLogger("changelog_engine")

_HOOK, _NAMES = "java.io.DeleteOnExitHook", "files"
_SOCKET = ".sock"


def forget_gone_sockets(context: SparkContext) -> None:
    """Have Java forget the names of sockets that are gone; that a Java lets nobody at them is told once."""
    try:
        _forget(context._jvm)
    except Py4JJavaError as error:
        _tell(" ".join(str(error).splitlines()[:2]))
    except LOST:  # the next epoch's failure says more
        pass


def _forget(jvm: Any) -> None:
    field = jvm.java.lang.Class.forName(_HOOK).getDeclaredField(_NAMES)
    field.setAccessible(True)
    before = field.get(None)
    if before is None:  # Java ends
        return
    known = _listed(jvm, before)
    kept = [name for name in known if not name.endswith(_SOCKET) or os.path.lexists(name)]
    names = jvm.java.util.LinkedHashSet()
    for name in kept:
        names.add(name)
    field.set(None, names)
    for name in _listed(jvm, before)[len(known) :]:
        jvm.java.io.File(name).deleteOnExit()


@functools.cache
def _tell(why: str) -> None:
    log.info(
        "Java keeps the name of a socket for each epoch, some 150 bytes, as nobody may change what it keeps: %s",
        why,
    )


def _listed(jvm: Any, names: Any) -> list[str]:
    return [name for name in str(jvm.java.lang.String.join("\n", names)).split("\n") if name]
