"""One view of one tenant that a runner keeps posted: taken over, posted, tidied, watched."""

import logging
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from memoriale.adapters.composition import Tenant
from memoriale.adapters.postgres.locks import AdvisoryLocks, view_key
from memoriale.domain.errors import MemorialeError
from memoriale.projections.allowance import Allowance, allowing

TAKEOVER_SECONDS: Final = 0.5
"""How often a runner that stands by tries to take over."""
SLICE_SECONDS: Final = 1.0
"""After which posting lets go of the view for a moment, so that readers may post too."""
EMBEDDING_SECONDS: Final = 30.0
"""That an embedder has for what is posted in one slice."""
LONGEST_PAUSE: Final = 1.0
"""Between two looks at a log that is at rest; writers of the same process wake the runner."""
LONGEST_BACK_OFF: Final = 5.0
_SHORTEST_PAUSE: Final = 0.01
_FIRST_BACK_OFF: Final = 0.25
_TIDYING_PAUSE: Final = 30.0
_log = logging.getLogger("memoriale.runner")


class State(StrEnum):
    """What a runner does with a view."""

    STARTING = "starting"
    STANDBY = "standby"
    ACTIVE = "active"
    FAILING = "failing"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Health:
    """
    How it stands with one view of one tenant.

    Args:
        tenant: Whose.
        view: Which.
        state: ``active``: this runner posts it; ``standby``: another one does; ``failing``: the
            last try failed; ``starting``, ``stopped``.
        position: Events applied when it was last posted here; None before.
        head: Events in the log at the last look; None before.
        error: Message of the last failure since it last went well.
        error_at: When that was, UTC.
        failures: Failures in a row.
    """

    tenant: str
    view: str
    state: State = State.STARTING
    position: int | None = None
    head: int | None = None
    error: str | None = None
    error_at: datetime | None = None
    failures: int = 0

    @property
    def lag(self) -> int | None:
        """Events that the view lacks, as far as this runner knows."""
        if self.position is None or self.head is None:
            return None
        return max(0, self.head - self.position)


class Duty:
    """
    One view of one tenant. Its runner calls ``step`` again and again, from one thread.

    Args:
        services: The tenant.
        view: Name of the view.
        locks: The runner's session; one runner of all holds the lock of this view.
    """

    def __init__(self, services: Tenant, view: str, locks: AdvisoryLocks) -> None:
        self.health = Health(services.name, view)
        self.due = 0.0
        """When ``step`` is to be called next, as told by ``time.monotonic()``."""
        self._log = services.log
        self._posted = services.view(view)
        self._locks = locks
        self._key = view_key(services.log.log_id, view)
        self._pause = _SHORTEST_PAUSE
        self._tidied = 0.0

    @property
    def at_rest(self) -> bool:
        """Whether it waits for nothing but new events."""
        return self.health.state is State.ACTIVE

    def step(self) -> None:
        """Does what is to be done now, for about a second at most, and sets ``due``."""
        try:
            pause = self._work()
        except MemorialeError as error:
            pause = self._failed(error)
        self.due = time.monotonic() + pause

    def stop(self) -> None:
        """Says that it is not worked on any more."""
        self.health = replace(self.health, state=State.STOPPED)

    def _work(self) -> float:
        if not self._locks.hold(self._key):
            self._set(State.STANDBY, head=None, position=None)
            return TAKEOVER_SECONDS
        head = self._log.head()
        if head == self.health.position:
            self._set(State.ACTIVE, head=head, position=head)
            self._tidy()
            self._pause = min(self._pause * 2, LONGEST_PAUSE)
            return self._pause
        # When the embedder fails rows are posted without vectors, and tidying makes up for it.
        with allowing(Allowance(EMBEDDING_SECONDS, optional=True)):
            position = self._posted.post(SLICE_SECONDS)
        self._pause = _SHORTEST_PAUSE
        self._set(State.ACTIVE, head=max(head, position), position=position)
        return 0.0 if position < head else self._pause

    def _set(self, state: State, *, head: int | None, position: int | None) -> None:
        if state is not self.health.state:
            _log.info("view %s of a tenant: %s", self.health.view, state)
        self.health = Health(self.health.tenant, self.health.view, state, position, head)

    def _tidy(self) -> None:
        now = time.monotonic()
        if now - self._tidied >= _TIDYING_PAUSE:
            self._posted.maintain()
            self._tidied = now

    def _failed(self, error: MemorialeError) -> float:
        failures = self.health.failures + 1
        self.health = replace(
            self.health,
            state=State.FAILING,
            error=error.message,
            error_at=datetime.now(UTC),
            failures=failures,
        )
        pause: float = min(_FIRST_BACK_OFF * 2 ** min(failures - 1, 20), LONGEST_BACK_OFF)
        _log.warning(
            "posting view %s failed (%s in a row), next try in %.2f s: %s",
            self.health.view,
            failures,
            pause,
            error.message,
        )
        return pause
