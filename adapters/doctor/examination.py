"""All checks of an installation, in order."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from memoriale.adapters.composition import Infrastructure, Tenant, build
from memoriale.adapters.doctor import (
    anchoring,
    functions,
    grants,
    hearing,
    ledger,
    logins,
    machine,
    objects,
    protection,
    refusals,
    signing,
    uniqueness,
)
from memoriale.adapters.doctor.checks import Check
from memoriale.adapters.settings import Settings
from memoriale.domain.errors import MemorialeError
from memoriale.domain.principal import Principal, Right

Making = Callable[[Infrastructure, Tenant], Check]

OF_THE_LEDGER: Final[dict[str, Making]] = {
    "database": ledger.database,
    "server version": ledger.server_version,
    "schema": ledger.schema,
    "keys": ledger.keys,
    "signing key": signing.signing_key,
    "anchors": anchoring.anchors,
    "roles": logins.roles,
    "login": logins.login,
    "separate logins": logins.separate_logins,
    "members": logins.members,
    "unbound": logins.unbound,
    "owners": objects.owners,
    "triggers": protection.triggers,
    "row security": protection.row_security,
    "uniqueness": uniqueness.uniqueness,
    "functions": functions.functions,
    "grants": grants.grants,
    "privileges": grants.privileges,
    "ways around": objects.ways_around,
    "copies": objects.copies,
    "refusals: append": refusals.append,
    "refusals: read": refusals.read,
    "refusals: project": refusals.project,
    "refusals: erase": refusals.erase,
    "refusals: logins": refusals.logins,
    "refusals: owner": refusals.owner,
    "durability": ledger.durability,
    "clock": ledger.clock,
    "hints": hearing.hints,
    "views": ledger.views,
}
"""What needs an open ledger, in the order in which it is looked at."""


def examine(settings: Settings, tenant: str) -> list[Check]:
    """
    Checks an installation part by part; what a failure hides is not tried.

    Args:
        settings: Of the installation; they assert the rights.
        tenant: Whose log and views are looked at. Right: ``operate``; its use is recorded in
            that tenant's access log where this can be written.

    Raises:
        MissingRightError: Without ``operate``.
    """
    caller = Principal(tenant=tenant, rights=settings.asserted_rights)
    caller.require(Right.OPERATE)
    first = [
        machine.python(),
        machine.packages(),
        machine.home(settings),
        machine.disk(settings),
        machine.embedder(settings),
    ]
    if not settings.home.is_dir():
        return [*first, *_not_tried("there is no home")]
    try:
        infrastructure = build(settings)
    except MemorialeError as error:
        return [*first, *_blamed(error)]
    try:
        services = Tenant(infrastructure, tenant)
        with suppress(MemorialeError):
            # A log that cannot be written is what the checks are about to tell.
            services.gate.allow(caller, "doctor", Right.OPERATE)
        return [*first, *_of_the_ledger(infrastructure, services)]
    finally:
        infrastructure.close()


def _of_the_ledger(infrastructure: Infrastructure, tenant: Tenant) -> list[Check]:
    checks = []
    try:
        for name, make in OF_THE_LEDGER.items():
            try:
                checks.append(make(infrastructure, tenant))
            except MemorialeError as error:
                checks.append(Check.failed(name, error.message))
        return checks
    finally:
        tenant.close()


def _blamed(error: MemorialeError) -> Iterator[Check]:
    """The check that a failure to open the ledger belongs to; the others were not made."""
    if error.field in ("keystore", "master_key"):
        name = "keys"
    elif error.code in ("not_migrated", "database_newer", "migration_changed"):
        name = "schema"
    else:
        name = "server version" if error.code == "server_too_old" else "database"
    yield Check.failed(name, error.message)
    yield from (c for c in _not_tried(f"the check {name!r} failed") if c.name != name)


def _not_tried(why: str) -> list[Check]:
    return [Check.not_tried(name, why) for name in OF_THE_LEDGER]
