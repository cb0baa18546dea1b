"""A JVM for Spark that starts while the driver imports, plans and opens the job's folder.

The first job of a process begins one where it is sure how PySpark would start it, without the script and the JVM that
Spark's launcher needs to write a command. ``gateway.py`` then gives it to PySpark.

Invariants:
    * PySpark gets it only where it asks for the same: options, variables and working directory. Else it ends, and PySpark
      starts its own.
    * A job that is refused leaves none.
    * Nothing here is an error: what does not work is left to PySpark, which says so.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, Popen, TimeoutExpired

from changelog_engine.config.paths import working_directory
from changelog_engine.errors import EnvironmentNotReadyError
from changelog_engine.java import check_java, find_java
from changelog_engine.spark.class_archive import spark_home
from changelog_engine.spark.jvm_options import EXTRA, ONE_PROCESS, JvmSettings, conf_folder, left_out
from changelog_engine.spark.session_options import session_environment, session_options

_TOLD = "_PYSPARK_DRIVER_CONN_INFO_PATH"
_MEMORY = "spark.driver.memory"
_OF_SPARK = ("SPARK_", "PYSPARK_", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "JAVA_TOOL_", "JDK_JAVA_", "_JAVA_")
_STAYS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP")
# What Spark's launcher looks at, beside the driver's memory.
_OF_THE_LAUNCHER = (
    "spark.driver.",
    "spark.remote",
    "spark.api.",
    "spark.connect.",
    "spark.submit.",
    "spark.launcher.",
)
_QUOTED = ("'", '"', "\\", "-Xmx", "-Dspark")  # what the launcher parses, or refuses
_OF_SPARK_ITSELF = (  # 4.2
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    *(
        f"--add-opens={package}=ALL-UNNAMED"
        for package in (
            *(
                f"java.base/java.{name}"
                for name in ("lang", "lang.invoke", "lang.reflect", "io", "net", "nio")
            ),
            *(f"java.base/java.util{name}" for name in ("", ".concurrent", ".concurrent.atomic")),
            *("java.base/jdk.internal.ref", "java.base/sun.nio.ch", "java.base/sun.nio.cs"),
            *("java.base/sun.security.action", "java.base/sun.util.calendar"),
            "java.security.jgss/sun.security.krb5",
        )
    ),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)
# As PySpark, which has Ctrl-C stop the driver alone.
_WITHOUT_CTRL_C = ("/bin/sh", "-c", 'trap "" INT; exec "$0" "$@"')
_PATIENCE_S = 5


@dataclass(frozen=True)
class EarlyJvm:
    """A JVM that was started ahead."""

    process: Popen[bytes]
    arguments: list[str]
    environment: dict[str, str]
    folder: str
    scratch: str  # the folder in which it tells where it listens

    @property
    def told(self) -> str:
        """The file in which it tells where it listens."""
        return os.path.join(self.scratch, "told")

    def end(self) -> None:
        """End it, and wait for that."""
        end_jvm(self.process)
        self.forget()

    def forget(self) -> None:
        """Remove what it told."""
        shutil.rmtree(self.scratch, ignore_errors=True)


def end_jvm(process: Popen[bytes]) -> None:
    """End a JVM, and wait for that."""
    process.terminate()
    try:
        process.wait(_PATIENCE_S)
    except TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin is not None:
        process.stdin.close()


_begun: list[EarlyJvm] = []  # at most one
_lock = threading.Lock()


@contextlib.contextmanager
def started_early(spark: Mapping[str, str], jars: bool, jvm: JvmSettings) -> Iterator[None]:
    """Within it, a JVM starts for a job; it ends with it where the job has not come to take it.

    Args:
        jars: whether the job has jars of its own.
    """
    if not jars and _is_plain(spark, jvm):
        with contextlib.suppress(OSError), _lock:
            if not _begun:
                _begun.append(_started(session_options(spark, jvm, makes=False)))
    try:
        yield
    finally:
        end()


def end() -> None:
    """End the one that nobody has taken, if there is one."""
    with _lock:
        if _begun:
            _begun.pop().end()


def take(command: list[str], environment: dict[str, str]) -> EarlyJvm | None:
    """The JVM, where it is the one that PySpark would start; None where there is none, and one that is another ends.

    Args:
        command: of PySpark: the script, and what it is given.
    """
    asked = {name: value for name, value in environment.items() if name != _TOLD}
    with _lock:
        if not _begun:
            return None
        begun = _begun[0]
        if (begun.arguments, begun.environment, begun.folder) != (command[1:], asked, working_directory()):
            _begun.pop().end()
            return None
        os.symlink(begun.told, environment[_TOLD])  # PySpark waits for a file at its end
        return _begun.pop()


def _is_plain(spark: Mapping[str, str], jvm: JvmSettings) -> bool:
    """Whether it is certain with what Spark's launcher would start a JVM, and that this process has none yet."""
    return (
        os.name == "posix"
        and "pyspark" not in sys.modules
        and ONE_PROCESS.fullmatch(spark.get("spark.master", "local")) is not None
        and not any(key.startswith(_OF_THE_LAUNCHER) and key != _MEMORY for key in spark)
        and not any(name.startswith(_OF_SPARK) and name not in _STAYS for name in os.environ)
        and not any(part in jvm.options for part in _QUOTED)
        and not os.path.exists(conf_folder())
        and len(_first_jars()) == 1
        and _is_java_itself()
    )


def _java() -> str:
    """Java's own path, as the launcher has it: what is first on PATH may be another program, which looks at its name."""
    java = find_java()[0]
    return java if os.environ.get("JAVA_HOME") else os.path.realpath(java)


def _is_java_itself() -> bool:
    """Whether Spark can use this Java, and it is Java itself, not a shim that starts one."""
    try:
        check_java(runs=False)
        return (
            bool(os.environ.get("JAVA_HOME")) or Path(_java()).parents[1].joinpath("lib", "modules").is_file()
        )
    except (OSError, IndexError, EnvironmentNotReadyError):
        return False


def _first_jars() -> list[str]:
    """What Spark's launcher puts before all other jars."""
    return glob.glob(os.path.join(glob.escape(spark_home()), "jars", "slf4j-api-*.jar"))


def _started(options: Mapping[str, str]) -> EarlyJvm:
    """A JVM, as Spark's launcher would start it for a session."""
    variables = session_environment(options, os.environ)
    environment = {**os.environ, **variables, "SPARK_CONNECT_MODE": "0"}
    arguments = [word for key, value in options.items() for word in ("--conf", f"{key}={value}")]
    begun_in, scratch = os.getcwd(), tempfile.mkdtemp()
    arguments.append("pyspark-shell")
    told = os.path.join(scratch, "told")
    try:
        process = Popen(
            [*_WITHOUT_CTRL_C, *java_command(options), *arguments],
            stdin=PIPE,
            env={**environment, **launched_environment(), _TOLD: told},
        )
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    return EarlyJvm(process, arguments, environment, begun_in, scratch)


def java_command(options: Mapping[str, str]) -> list[str]:
    """The command with which Spark's launcher starts a session's JVM, without what that is given to do."""
    home, unwanted = spark_home(), left_out(options[EXTRA])
    classes = os.pathsep.join([conf_folder(), *_first_jars(), os.path.join(home, "jars", "*")])
    return [
        _java(),
        "-cp",
        classes,
        f"-Xmx{options[_MEMORY]}",
        *options[EXTRA].split(),
        *(option for option in _OF_SPARK_ITSELF if option not in unwanted),
        "org.apache.spark.deploy.SparkSubmit",
    ]


def launched_environment() -> dict[str, str]:
    """The variables that Spark's scripts set."""
    return {
        "PYTHONHASHSEED": "0",
        "SPARK_CONF_DIR": conf_folder(),
        "SPARK_ENV_LOADED": "1",
        "SPARK_HOME": spark_home(),
        "SPARK_SCALA_VERSION": "2.13",
    }
