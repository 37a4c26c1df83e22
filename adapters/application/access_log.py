"""The one place where rights are checked; refusals and uses of rights are recorded."""

from collections.abc import Callable
from uuid import uuid4

from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.domain.errors import MissingRightError
from memoriale.domain.events import (
    Body,
    Denied,
    DeniedHeader,
    Event,
    Exported,
    ExportedHeader,
    NewEvent,
    RightUsed,
    RightUsedHeader,
)
from memoriale.domain.principal import Principal, Right
from memoriale.domain.record import Columns


class Gate:
    """
    Lets calls of one tenant through, or refuses them.

    Args:
        open_log: Opens the tenant's access log; called at the first entry.
    """

    def __init__(self, open_log: Callable[[], TenantLog]) -> None:
        self._open_log = open_log

    def allow(self, principal: Principal, command: str, *rights: Right) -> None:
        """
        Checks the rights that a command needs and records the answer before it runs: every
        refusal, and every use of a right other than ``use``.

        Raises:
            MissingRightError: Names the right. The refusal is on record.
            UnavailableError: The access log cannot be written; the call does not run.
        """
        try:
            principal.require(*rights)
        except MissingRightError as error:
            header = DeniedHeader(command=command, right=str(error.allowed))
            self._append(principal, Denied(header=header, body=Body()))
            raise
        used = tuple(right.value for right in rights if right is not Right.USE)
        if used:
            header_used = RightUsedHeader(command=command, rights=used)
            self._append(principal, RightUsed(header=header_used, body=Body()))

    def exported(self, principal: Principal, header: ExportedHeader) -> None:
        """Records that memories left the ledger as a file."""
        self._append(principal, Exported(header=header, body=Body()))

    def _append(self, principal: Principal, event: Event) -> None:
        log = self._open_log()
        actor = log.identities.key(principal.acting())
        columns = Columns(
            **log.identities.stamp(principal, None, None).fields(),
            event_id=uuid4(),
            stream_id=uuid4(),
            stream_version=1,
            topic=type(event).TOPIC,
            schema_version=type(event).SCHEMA_VERSION,
            owner=actor.pseudonym,
            owner_type=actor.subject.type,
        )
        log.save([NewEvent(event, columns, (actor,))])
