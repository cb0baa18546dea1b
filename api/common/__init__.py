"""What programs of every kind use: types, configuration, time, job handles.

Source: pyflink.common
"""

from api._unsupported import module_getattr
from api.common.completable_future import CompletableFuture
from api.common.configuration import Configuration
from api.common.execution_config import ExecutionConfig
from api.common.execution_mode import ExecutionMode
from api.common.input_dependency_constraint import InputDependencyConstraint
from api.common.job_client import JobClient
from api.common.job_execution_result import JobExecutionResult
from api.common.job_id import JobID
from api.common.job_status import JobStatus
from api.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
from api.common.serialization import (
    DeserializationSchema,
    Encoder,
    SerializationSchema,
    SimpleStringSchema,
)
from api.common.time import Duration, Instant, Time
from api.common.typeinfo import TypeInformation, Types
from api.common.types import Row, RowKind
from api.common.watermark_strategy import WatermarkStrategy

__all__ = [
    "CompletableFuture",
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

__getattr__ = module_getattr(
    __name__,
    {
        "AvroRowDeserializationSchema",
        "AvroRowSerializationSchema",
        "ConfigOptions",
        "CsvRowDeserializationSchema",
        "CsvRowSerializationSchema",
        "JsonRowDeserializationSchema",
        "JsonRowSerializationSchema",
    },
)
