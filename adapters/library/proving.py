"""The auditor's and the key holder's calls on a ledger: checkpoints, receipts, keys, restores."""

import logging
from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

from memoriale.adapters.library.analysis import Analysis
from memoriale.domain.errors import InputError
from memoriale.domain.governance import DEPLOYMENT_LOG, DEPLOYMENT_TENANT
from memoriale.domain.keys import Subject
from memoriale.domain.principal import Right
from memoriale.domain.text import check_outside_id, check_text, shown

if TYPE_CHECKING:
    from memoriale.adapters.anchors.outside import OutsideReader
    from memoriale.adapters.application.tenant_log import TenantLog
    from memoriale.adapters.bundling.collecting import BundleReport
    from memoriale.adapters.composition import Tenant
    from memoriale.adapters.notes.checkpoint import SignedCheckpoint
    from memoriale.adapters.proving.consistency import Consistency, Verifiers
    from memoriale.adapters.proving.receipts import ProvedEvent
    from memoriale.adapters.proving.reports import CheckpointReport, SigningKeyReport
    from memoriale.adapters.proving.verification import LogReport, Verification
    from memoriale.adapters.sealing.restoring import Restored
    from memoriale.adapters.sealing.sealing import Sealing
    from memoriale.adapters.sealing.signing_key import Rotation

_log = logging.getLogger("memoriale.anchors")

LOGS: Final = ("memory", "access")
Progress = Callable[[str, int, int], None]
"""Called with what is going on, how much is done and how much there is."""
Note = str | bytes
"""A checkpoint as it was published: a signed note."""


class Proving(Analysis):
    """The part of ``Ledger`` that proves what the logs held, and when."""

    def checkpoint(self, *, tenant: str) -> "list[CheckpointReport]":
        """
        Seals the logs of a tenant, and the deployment log which notes it.

        Args:
            tenant: Whose.

        Returns:
            The checkpoints of the memory, the access and the deployment log. Keep one outside:
            from then on nobody can change what it covers unseen. Right: ``audit``.

        Raises:
            ViolationError: What was sealed before is not in a log any more.
            UnavailableError: The signing key, the database or the disk cannot be used.
        """
        from memoriale.adapters.proving.reports import reported
        from memoriale.adapters.sealing.sealing import target_of

        services = self.tenant(tenant)
        self._allow(services, "checkpoint", Right.AUDIT)
        sealed = self._sealing.seal(target_of(log) for log in (services.log, services.access))
        return [reported(answer) for answer in sealed]

    def receipt(self, index: int, *, tenant: str, log: str = "memory") -> "ProvedEvent":
        """
        Proves that an event is in a log, for whoever trusts the installation's public key.

        Args:
            index: Its place.
            tenant: Whose.
            log: ``memory`` or ``access``.

        Returns:
            The event's place and, in ``proof``, a file in C2SP's tlog-proof format that holds
            path, checkpoint and leaf. Right: ``audit``.

        Raises:
            InputError: The log has no such index.
            IncompleteError: No checkpoint covers it yet.
            ViolationError: It is not the event that was sealed.
        """
        from memoriale.adapters.proving.receipts import prove

        services = self.tenant(tenant)
        self._allow(services, "receipt", Right.AUDIT)
        return prove(self._log(services, log), self._sealing, index)

    def bundle(
        self,
        out: "str | PathLike[str]",
        *,
        tenant: str,
        states: bool = True,
        progress: Progress | None = None,
    ) -> "BundleReport":
        """
        Seals the logs of a tenant and writes them into one file that a stranger can check with
        ``memoriale-verify`` alone: events, sealed bodies, tree, and every checkpoint. The bodies
        stay sealed, so the file tells nobody what was remembered.

        Args:
            out: A file, or a folder for it. One that stands there is replaced in one step.
            tenant: Whose.
            states: Whether the sealed bodies go into it; without them their hashes are not
                checked.
            progress: Called while it works.

        Returns:
            Where it is, and what it holds. Right: ``audit``.

        Raises:
            InputError: There can be no file at ``out``.
            ViolationError: What was sealed before is not in a log any more.
            UnavailableError: The signing key, the database or the disk cannot be used.
        """
        from memoriale.adapters.bundling.collecting import bundle

        services = self.tenant(tenant)
        self._allow(services, "bundle", Right.AUDIT)
        logs = (services.log, services.access)
        return bundle(self._sealing, logs, out, states=states, progress=progress)

    def consistency(
        self, old: Note, new: Note, *, tenant: str, verifiers: Sequence[str] = ()
    ) -> "Consistency":
        """
        Proves that a log only grew between two checkpoints.

        Args:
            old: The earlier checkpoint, a signed note.
            new: The later one, of the same log.
            tenant: In whose access log the call is recorded.
            verifiers: Public keys to trust instead of this installation's, ``name+hash+key``.

        Returns:
            Both checkpoints and the proof. Right: ``audit``.

        Raises:
            InputError: They are no checkpoints, or not in this order.
            ViolationError: A signature does not hold, or history was rewritten.
        """
        from memoriale.adapters.proving.consistency import compare
        from memoriale.adapters.proving.trust import trusted

        self._allow(self.tenant(tenant), "consistency", Right.AUDIT)
        return compare(old, new, self._sealing, trusted(self._sealing.key, verifiers))

    def verify(
        self,
        *,
        tenant: str | None = None,
        checkpoints: Sequence[Note] = (),
        verifiers: Sequence[str] = (),
        all_tenants: bool = False,
        anchors: bool = True,
        progress: Progress | None = None,
    ) -> "list[LogReport]":
        """
        Re-reads every event of both logs, recomputes hashes, places and roots, and compares
        them with every checkpoint of this machine, of the anchors, and with those that are given.

        Args:
            tenant: Whose.
            checkpoints: Signed notes that were kept elsewhere.
            verifiers: Public keys to trust for these instead of this installation's.
            all_tenants: Every log that the deployment log knows, and that log itself: one that
                vanished shows.
            anchors: Read back what anchors hold; one that cannot be asked is in ``unreached``.
            progress: Called while it works.

        Returns:
            A report for each log, memory before access. Right: ``audit``.

        Raises:
            InputError: A checkpoint that cannot be read.
            ViolationError: A checkpoint whose signature does not hold.
            UnavailableError: ``foreign_origin``: a checkpoint of none of these logs.
        """
        from memoriale.adapters.proving.trust import trusted
        from memoriale.adapters.proving.verification import Verification, not_of_these_logs

        chosen = [] if all_tenants and tenant is None else self._chosen(tenant, shared=True)
        for services in chosen or [self.tenant(self.settings.tenant)]:
            self._allow(services, "verify", Right.AUDIT)
        given = self._opened_notes(checkpoints, trusted(self._sealing.key, verifiers))
        outside = [signed.checkpoint for signed in given]
        reader = self._outside() if anchors else None
        verification = Verification(self._sealing, outside, reader)
        if all_tenants:
            reports = self._verified_all(verification, progress)
        else:
            logs = [log for services in chosen for log in (services.log, services.access)]
            reports = [verification.check(log, named(progress, log.log.kind)) for log in logs]
            reports += self._vanished(verification, logs)
        for checkpoint in outside:
            if checkpoint not in verification.used:
                raise not_of_these_logs(checkpoint)
        return reports

    def restored(
        self,
        reason: str,
        *,
        tenant: str | None = None,
        checkpoints: Sequence[Note] = (),
        actor: str | None = None,
    ) -> "list[Restored]":
        """
        Declares that the database came back from a backup. Every log goes on in a new
        incarnation, under a new origin, and the deployment log says how many sealed events are
        gone, going by the checkpoints of this machine, of the anchors, and those that are given.

        Args:
            reason: Why; sealed.
            tenant: In whose access log the call is recorded; default: that of the settings.
            checkpoints: The last checkpoints that were kept elsewhere, signed notes.
            actor: Outside id of the user who says so.

        Returns:
            For each log its new incarnation and what was lost. Right: ``admin``.

        Raises:
            UnavailableError: The administrator's login cannot be used.
        """
        from memoriale.adapters.proving.reports import reported
        from memoriale.adapters.sealing.restoring import declare, targets

        self._allow(self.tenant(tenant or self.settings.tenant), "restored", Right.ADMIN)
        check_text("reason", reason)
        by = self._actor(actor)
        given = self._opened_notes(checkpoints, self._sealing.key.verifiers)
        held, unreached = self._outside().newest()
        for why in unreached.values():
            _log.warning("a restore is declared without an anchor: %s", why)
        logs = declare(
            self._sealing,
            self.infrastructure.logins.admin or self.infrastructure.logins.first,
            reason,
            outside=[*held, *(signed.checkpoint for signed in given)],
            actor=by,
        )
        for answer in self._sealing.seal(targets(logs)):
            reported(answer)
        return logs

    def signing_keys(self, *, tenant: str | None = None) -> "list[SigningKeyReport]":
        """
        Every public key that ever signed a checkpoint here, oldest first; the last one signs.

        Args:
            tenant: In whose access log the call is recorded; default: that of the settings.

        Returns:
            Each as a verifier key, ``name+hash+key``, to be given to auditors. Right: ``admin``.
        """
        from memoriale.adapters.proving.reports import signing_keys

        self._allow(self.tenant(tenant or self.settings.tenant), "key-list", Right.ADMIN)
        return signing_keys(self._sealing.key)

    def rotate_signing_key(
        self, *, tenant: str | None = None, lost: bool = False, actor: str | None = None
    ) -> "Rotation":
        """
        Signs checkpoints with a new key from now on. The present checkpoints are signed with
        both keys, so that whoever trusts the former one can go over to the new one.

        Args:
            tenant: In whose access log the call is recorded; default: that of the settings.
            lost: The former key is gone; then only the new one signs.
            actor: Outside id of the user who does it.

        Returns:
            Both public keys. Right: ``admin``.

        Raises:
            UnavailableError: The former key cannot be used and is not said to be lost.
        """
        self._allow(self.tenant(tenant or self.settings.tenant), "key-rotate", Right.ADMIN)
        by = self._actor(actor)
        return self._sealing.rotate(lost=lost, actor=by)

    def _outside(self) -> "OutsideReader":
        from memoriale.adapters.anchors.outside import OutsideReader

        return OutsideReader(self.infrastructure.anchors, self._sealing.key.verifiers)

    @property
    def _sealing(self) -> "Sealing":
        return self.infrastructure.sealing

    def _log(self, services: "Tenant", name: str) -> "TenantLog":
        if name not in LOGS:
            raise InputError(
                f"there is no {shown(name)} log to prove from; take memory or access.",
                code="unknown_log",
                field="log",
                value=shown(name),
                allowed=[*LOGS],
            )
        return services.log if name == "memory" else services.access

    def _actor(self, actor: str | None) -> Subject:
        if actor is None:
            return Subject("tenant", DEPLOYMENT_TENANT)
        return Subject("user", check_outside_id("actor", actor))

    def _opened_notes(
        self, notes: Sequence[Note], verifiers: "Verifiers"
    ) -> "list[SignedCheckpoint]":
        from memoriale.adapters.proving.consistency import signed_by_log

        return [signed_by_log(note, verifiers) for note in notes]

    def _vanished(
        self, verification: "Verification", logs: "Sequence[TenantLog]"
    ) -> "list[LogReport]":
        """Logs of the same tenants that the deployment log knows and the database does not."""
        from memoriale.adapters.sealing.deployment import KnownLog

        here = {(log.tenant, log.log.kind): log.log_id for log in logs}
        deployment = self._sealing.deployment
        known = [
            one for tenant in {log.tenant for log in logs} for one in deployment.of_tenant(tenant)
        ]
        reports = [
            verification.vanished(one, here.get((one.tenant, one.kind)))
            for one in known
            if one.log_id not in here.values()
        ]
        own = self._sealing.deployment_log()
        if verification.deployment_is_gone(own):
            lost = KnownLog(DEPLOYMENT_TENANT, DEPLOYMENT_LOG, own.log_id, own.log.incarnation)
            reports.append(verification.vanished(lost))
        return reports

    def _verified_all(
        self, verification: "Verification", progress: Progress | None
    ) -> "list[LogReport]":
        """Every log that the deployment log knows, and that log itself last."""
        from memoriale.adapters.application.tenant_log import TenantLog
        from memoriale.adapters.postgres.logs import find_log

        shared, reports = self.infrastructure, []
        logs = list(self._sealing.deployment.logs())
        for known in logs:
            found = find_log(shared.datastore, known.tenant, known.kind)
            if found is None or found.log_id != known.log_id:
                reports.append(verification.vanished(known, found.log_id if found else None))
                continue
            log = TenantLog(shared.datastore, shared.keys, known.tenant, known.kind)
            try:
                reports.append(verification.check(log, named(progress, known.tenant)))
            finally:
                log.close()
        own = self._sealing.deployment_log()
        reports += verification.vanished_elsewhere([own.log_id, *(log.log_id for log in logs)])
        return [*reports, verification.check(own, named(progress, DEPLOYMENT_LOG))]


def named(progress: Progress | None, what: str) -> Any:
    """The progress of one part of a call."""
    if progress is None:
        return None
    return lambda done, total: progress(what, done, total)
