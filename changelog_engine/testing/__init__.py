"""Tests of users' jobs without Spark: a harness for one operator, a source that follows a script, jobs in this process."""

from changelog_engine.testing.capture import without_spark
from changelog_engine.testing.harness import HarnessSnapshot, KeyedCoHarness, KeyedHarness, OperatorHarness
from changelog_engine.testing.log_rows import Mutation
from changelog_engine.testing.scripted_source import (
    At,
    Checkpoint,
    Crash,
    Pause,
    ScriptedCrashError,
    ScriptedSource,
    Watermark,
)

__all__ = [
    "At",
    "Checkpoint",
    "Crash",
    "HarnessSnapshot",
    "KeyedCoHarness",
    "KeyedHarness",
    "Mutation",
    "OperatorHarness",
    "Pause",
    "ScriptedCrashError",
    "ScriptedSource",
    "Watermark",
    "without_spark",
]
