"""How an operation stands."""

from enum import StrEnum
from typing import Final

from memoriale.domain.jobs import JobStatus


class OperationStatus(StrEnum):
    """``queued`` until its turn comes; the last three are for good."""

    QUEUED = "queued"
    ACTIVE = "active"
    COMPLETED = "completed"
    ERRORED = "errored"
    CANCELLED = "cancelled"


ENDED: Final = frozenset(
    {OperationStatus.COMPLETED, OperationStatus.ERRORED, OperationStatus.CANCELLED}
)

OF_JOB: Final = {
    JobStatus.QUEUED: OperationStatus.QUEUED,
    JobStatus.ACTIVE: OperationStatus.ACTIVE,
    JobStatus.FAILED: OperationStatus.QUEUED,
    JobStatus.COMPLETED: OperationStatus.COMPLETED,
    JobStatus.ERRORED: OperationStatus.ERRORED,
    JobStatus.CANCELLED: OperationStatus.CANCELLED,
}
"""How an operation stands whose job stands so; a failed one waits for its next attempt."""
