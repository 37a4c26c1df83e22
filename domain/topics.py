"""The topics that may be decoded. A stored topic that is not here is refused, never imported."""

from collections.abc import Mapping
from typing import Final

from memoriale.domain.branch_events import BRANCH_TYPES
from memoriale.domain.events import TOPICS, Event
from memoriale.domain.governance import GOVERNANCE_TYPES
from memoriale.domain.holds import HOLD_TOPICS
from memoriale.domain.jobs import JOB_TYPES
from memoriale.domain.sessions import SESSION_TYPES

BRANCH_TOPICS: Final[Mapping[str, type[Event]]] = {cls.TOPIC: cls for cls in BRANCH_TYPES}
GOVERNANCE_TOPICS: Final[Mapping[str, type[Event]]] = {cls.TOPIC: cls for cls in GOVERNANCE_TYPES}
JOB_TOPICS: Final[Mapping[str, type[Event]]] = {cls.TOPIC: cls for cls in JOB_TYPES}
SESSION_TOPICS: Final[Mapping[str, type[Event]]] = {cls.TOPIC: cls for cls in SESSION_TYPES}

KNOWN_TOPICS: Final[Mapping[str, type[Event]]] = {
    **TOPICS,
    **BRANCH_TOPICS,
    **HOLD_TOPICS,
    **GOVERNANCE_TOPICS,
    **JOB_TOPICS,
    **SESSION_TOPICS,
}
"""Every topic that this release can read."""
