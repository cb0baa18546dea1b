"""Options of what a program brings along, and of Flink's execution that are kept and given back."""

from __future__ import annotations

from changelog_engine.config.option import (
    ChoiceOption,
    DurationOption,
    FlagOption,
    IntOption,
    Option,
    choices,
    options_in,
)

PYTHON_FILES = Option(
    "python.files", None, "Modules, folders and archives for the workers' import path, separated by commas."
)
PYTHON_ARCHIVES = Option(
    "python.archives",
    None,
    "Archives that are unpacked on the workers, separated by commas, each with # and its folder if it is to have another "
    "name.",
)
PYTHON_REQUIREMENTS = Option(
    "python.requirements",
    None,
    "A list for pip whose packages the workers get, and after a # a folder with the packages.",
)
PYTHON_EXECUTABLE = Option("python.executable", None, "The workers' interpreter; unset: the driver's.")
EXECUTION_MODE = ChoiceOption(
    "python.execution-mode",
    "process",
    "Functions run in worker processes in either mode. With thread, the first 32 records come one to an epoch.",
    choices=choices("process", "thread"),
)
JARS = Option("pipeline.jars", None, "Jar files for a Spark session that the job starts, separated by ';'.")
CLASSPATHS = Option("pipeline.classpaths", None, "As the option before it.")
JVM_OPTIONS = Option(
    "changelog.jvm.options",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "Options of Java, separated by blanks, for the JVM that a job starts with a local master. Not used when Java gets "
    "options by spark.driver.extraJavaOptions, SPARK_SUBMIT_OPTS or variables of its own.",
)
JVM_CLASS_ARCHIVE = FlagOption(
    "changelog.jvm.class-archive",
    True,
    "Keep Spark's classes for the next run in an archive of 80 MB in the cache folder, which the environment variable "
    "CHANGELOG_ENGINE_CACHE names; used as the option before it.",
)
SAVEPOINT_DIR = Option(
    "execution.checkpointing.savepoint-dir",
    None,
    "Folder or URI for savepoints that name no directory.",
    older=("state.savepoints.dir",),
)
BUFFER_TIMEOUT = DurationOption(
    "execution.buffer-timeout.interval",
    100,
    "Kept and given back; output leaves at the end of an epoch.",
    older=("execution.buffer-timeout",),
)
OPERATOR_CHAINING = FlagOption(
    "pipeline.operator-chaining.enabled",
    True,
    "Kept and given back; operators between two exchanges always run in one task.",
    older=("pipeline.operator-chaining",),
)
CHAINING_OF_DIFFERENT_MAX_PARALLELISM = FlagOption(
    "pipeline.operator-chaining.chain-operators-with-different-max-parallelism",
    True,
    "Kept and given back, as the option before it.",
)
BUFFER_TIMEOUT_ENABLED = FlagOption(
    "execution.buffer-timeout.enabled", True, "Kept; false: the buffer timeout is given back as -1."
)
CLOSURE_CLEANER_LEVEL = ChoiceOption(
    "pipeline.closure-cleaner-level",
    "RECURSIVE",
    "RECURSIVE, TOP_LEVEL or NONE. Kept and given back; functions are Python's.",
    choices=choices("RECURSIVE", "TOP_LEVEL", "NONE"),
)
FORCE_KRYO = FlagOption("pipeline.force-kryo", False, "Kept and given back; values are Python's.")
FORCE_AVRO = FlagOption("pipeline.force-avro", False, "As the option before it.")
GENERIC_TYPES = FlagOption("pipeline.generic-types", True, "As the option before it.")
AUTO_TYPE_REGISTRATION = FlagOption("pipeline.auto-type-registration", True, "As the option before it.")
SNAPSHOT_COMPRESSION = FlagOption(
    "execution.checkpointing.snapshot-compression", False, "Kept and given back; files are always compressed."
)
LATENCY_INTERVAL = DurationOption(
    "metrics.latency.interval", 0, "Kept and given back; the engine sends no latency markers."
)
TASK_CANCELLATION_INTERVAL = IntOption(
    "task.cancellation.interval",
    30_000,
    "In ms. Kept and given back; Spark ends tasks.",
    minimum=0,
    maximum=2**63 - 1,
)
TASK_CANCELLATION_TIMEOUT = IntOption(
    "task.cancellation.timeout", 180_000, "As the option before it.", minimum=0, maximum=2**63 - 1
)

PROGRAM_OPTIONS = options_in(globals())
