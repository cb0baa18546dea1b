"""What programs of every kind use: types, configuration, time, job handles."""

from .completable_future import CompletableFuture
from .config_options import ConfigOption, ConfigOptions
from .configuration import Configuration
from .execution_config import ExecutionConfig
from .execution_mode import ExecutionMode
from .input_dependency_constraint import InputDependencyConstraint
from .job_client import JobClient
from .job_execution_result import JobExecutionResult
from .job_id import JobID
from .job_status import JobStatus
from .restart_strategy import RestartStrategies, RestartStrategyConfiguration
from .serialization import (
    ByteArraySchema,
    DeserializationSchema,
    Encoder,
    SerializationSchema,
    SimpleStringSchema,
)
from .time import Duration, Instant, Time
from .typeinfo import TypeInformation, Types
from .types import Row, RowKind
from .watermark_strategy import WatermarkStrategy

__all__ = [
    "ByteArraySchema",
    "CompletableFuture",
    "ConfigOption",
    "ConfigOptions",
    "Configuration",
    "DeserializationSchema",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "ExecutionMode",
    "InputDependencyConstraint",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobStatus",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "SerializationSchema",
    "SimpleStringSchema",
    "Time",
    "TypeInformation",
    "Types",
    "WatermarkStrategy",
]
