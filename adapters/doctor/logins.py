"""Checks of the logins: which there are, and what they may become."""

from typing import Final

from memoriale.adapters.composition import Infrastructure, Tenant
from memoriale.adapters.doctor.checks import Check
from memoriale.adapters.doctor.ledger import asked

ROLES: Final = ("owner", "append", "read", "project", "erase", "admin")


def roles(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """The roles of the ledger exist."""
    wanted = [f"memoriale_{role}" for role in ROLES]
    rows = asked(infrastructure, "SELECT rolname FROM pg_roles WHERE rolname = ANY (%s)", [wanted])
    found = {name for (name,) in rows}
    missing = [role for role in wanted if role not in found]
    detail = f"missing: {', '.join(missing)}; run memoriale migrate" if missing else "all six exist"
    return Check.of("roles", not missing, detail)


def login(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """The first login is no superuser."""
    ((name, superuser),) = asked(
        infrastructure, "SELECT rolname, rolsuper FROM pg_roles WHERE rolname = session_user"
    )
    if superuser:
        return Check.failed("login", f"{name} is a superuser, whom no rule of the ledger binds")
    return Check.passed("login", f"{name}, no superuser")


def separate_logins(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """Which roles share a login."""
    settings = infrastructure.settings
    detail = "memoriale_append and memoriale_read are taken by SET ROLE on one login"
    if infrastructure.server is None and settings.admin_url is None:
        detail += "; MEMORIALE_ADMIN_URL is not set, so migrate uses it too"
    return Check.passed("separate logins", detail)
