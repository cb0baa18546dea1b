"""ExternalizedCheckpointRetention: what becomes of checkpoints when a job is cancelled."""

from enum import Enum

__all__ = ["ExternalizedCheckpointRetention"]


class ExternalizedCheckpointRetention(Enum):
    """What happens to the job's checkpoints when it is cancelled. After a failure they are always kept."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2
