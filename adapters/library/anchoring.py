"""The auditor's and operator's calls about outside places of checkpoints."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memoriale.adapters.library.proving import Proving
from memoriale.domain.errors import InputError, MemorialeError
from memoriale.domain.principal import Right

if TYPE_CHECKING:
    from memoriale.adapters.anchors.standing import Pushed, Standing, Witnessed
    from memoriale.adapters.composition import Tenant
    from memoriale.adapters.sealing.publisher import Published


@dataclass(frozen=True, slots=True)
class PushReport:
    """
    What came of handing checkpoints to the anchors.

    Args:
        anchors: Each anchor.
        witnessed: Each log, with those who cosigned it; empty without witnesses.
    """

    anchors: "list[Pushed]"
    witnessed: "list[Witnessed]"

    @property
    def conflict(self) -> bool:
        """Whether an anchor holds another history."""
        return any(anchor.conflicts for anchor in self.anchors)

    @property
    def complete(self) -> bool:
        """Whether every place took every checkpoint, and enough of the witnesses cosigned."""
        missed = any(anchor.failed for anchor in self.anchors if anchor.kind != "witness")
        return not missed and all(log.ok for log in self.witnessed)

    @property
    def ok(self) -> bool:
        """Neither a conflict nor anything missing."""
        return self.complete and not self.conflict

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "ok": self.ok,
            "conflict": self.conflict,
            "complete": self.complete,
            "anchors": [anchor.as_dict() for anchor in self.anchors],
            "witnessed": [log.as_dict() for log in self.witnessed],
        }


class Anchoring(Proving):
    """The part of ``Ledger`` that takes checkpoints outside, and looks at what is there."""

    def anchors(self, *, tenant: str) -> "list[Standing]":
        """
        How each anchor stands with the logs of a tenant: what it took, what it lacks, what went
        wrong. Nothing outside is asked.

        Args:
            tenant: Whose logs.

        Returns:
            A report for each anchor, none where none is configured. Right: ``audit``.
        """
        from memoriale.adapters.anchors.standing import standing

        services = self.tenant(tenant)
        self._allow(services, "anchors", Right.AUDIT)
        return standing(self.infrastructure.anchors, self._checkpoints(services))

    def witness_keys(self, *, tenant: str) -> list[str]:
        """
        What whoever runs a witness must know: the verifier keys of a tenant's logs and of the
        deployment log.

        Args:
            tenant: Whose logs.

        Returns:
            Keys, ``name+hash+key``; the name is the log's origin. Right: ``audit``.

        Raises:
            UnavailableError: The signing key cannot be used.
        """
        from memoriale.adapters.anchors.standing import present_origin

        services, sealing = self.tenant(tenant), self.infrastructure.sealing
        self._allow(services, "anchors", Right.AUDIT)
        logs = (services.log, services.access, sealing.deployment_log())
        signers = [sealing.key.signers(present_origin(sealing, log))[-1] for log in logs]
        return [str(signer.verifier()) for signer in signers]

    def push(self, *, tenant: str) -> PushReport:
        """
        Seals the logs of a tenant and hands their checkpoints to every anchor now.

        Args:
            tenant: Whose logs.

        Returns:
            What came of it, for each anchor. Right: ``operate``.

        Raises:
            InputError: No anchor is configured.
            ViolationError: What was sealed before is not in a log any more.
            UnavailableError: The signing key, the database or the disk cannot be used.
        """
        from memoriale.adapters.anchors.publishing import push
        from memoriale.adapters.anchors.standing import pushed, witnessed
        from memoriale.adapters.sealing.sealing import target_of

        services, anchors = self.tenant(tenant), self.infrastructure.anchors
        self._allow(services, "witness-push", Right.OPERATE)
        if not anchors.places.places:
            raise _none_configured("anchor")
        logs = (services.log, services.access)
        for answer in self.infrastructure.sealing.seal(target_of(log) for log in logs):
            if isinstance(answer, MemorialeError):
                raise answer
        checkpoints = self._checkpoints(services)
        results = push(anchors, checkpoints)
        found = witnessed(anchors, checkpoints) if anchors.places.witnesses else []
        return PushReport(pushed(results), found)

    def witnessed(self, *, tenant: str) -> "list[Witnessed]":
        """
        Counts who cosigned the present checkpoints of a tenant's logs. Every cosignature is
        checked again; nothing outside is asked.

        Args:
            tenant: Whose logs.

        Returns:
            A report for each log. Right: ``audit``.

        Raises:
            InputError: No witness is configured.
        """
        from memoriale.adapters.anchors.standing import witnessed

        services, anchors = self.tenant(tenant), self.infrastructure.anchors
        self._allow(services, "witness-verify", Right.AUDIT)
        if not anchors.places.witnesses:
            raise _none_configured("witness")
        return witnessed(anchors, self._checkpoints(services))

    def _checkpoints(self, services: "Tenant") -> "list[Published]":
        """The present checkpoints of a tenant's logs, in their present incarnation."""
        from memoriale.adapters.anchors.standing import present

        shared = self.infrastructure
        return present(shared.anchors, shared.sealing, (services.log, services.access))


def _none_configured(what: str) -> InputError:
    return InputError(
        f"no {what} is configured; name one in MEMORIALE_ANCHORS.",
        code=f"no_{what}",
        field="MEMORIALE_ANCHORS",
    )
