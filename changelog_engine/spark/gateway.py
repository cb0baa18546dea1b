"""How PySpark comes to its JVM: the one that was started early, else one that it starts itself."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen
from typing import Any

import pyspark.java_gateway
from pyspark import SparkContext

from changelog_engine.java import find_java
from changelog_engine.spark import early_jvm
from changelog_engine.spark.jvm_options import ONE_PROCESS, left_out

java_gateway: Any = pyspark.java_gateway
_HOME = Path(__file__).with_name("jvm")


@contextlib.contextmanager
def own_gateway(master: str, options: str) -> Iterator[list[Popen[bytes]]]:
    """Within it, PySpark takes the JVM that was started early, or starts one; gives those that it came to.

    That of a local master it starts without those of Spark's own options of which Java warns. No option of Java takes
    another one back, so Spark's scripts find a Java that leaves these out.

    One to which PySpark has not come when this is left with an error, such as Ctrl-C, ends: it would not find the folder any
    more in which it tells where it listens, and stay for good.

    Args:
        options: of the driver's JVM.
    """
    popen, java = java_gateway.Popen, _HOME / "bin" / "java"
    unwanted = left_out(options) if ONE_PROCESS.fullmatch(master) and os.access(java, os.X_OK) else ()
    jvms: list[Popen[bytes]] = []
    with contextlib.ExitStack() as opened:

        def start(command: list[str], *, env: dict[str, str], **rest: Any) -> Any:
            """What PySpark calls to start a JVM."""
            begun = early_jvm.take(command, env)
            if begun is not None:
                opened.callback(begun.forget)
                jvms.append(begun.process)
                return begun.process
            if unwanted:
                env |= {
                    "JAVA_HOME": str(_HOME),
                    "CHANGELOG_ENGINE_JAVA": find_java()[0],
                    "CHANGELOG_ENGINE_JAVA_HOME": env.get("JAVA_HOME", ""),
                    "CHANGELOG_ENGINE_LEFT_OUT": " ".join(unwanted),
                }
            jvms.append(popen(command, env=env, **rest))
            return jvms[-1]

        java_gateway.Popen = start
        opened.callback(setattr, java_gateway, "Popen", popen)
        try:
            yield jvms
        except BaseException:
            if SparkContext._gateway is None:
                for jvm in jvms:
                    early_jvm.end_jvm(jvm)
            raise
