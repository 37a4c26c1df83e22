"""Checks of the logins: which there are, what they may become, and whom no rule binds."""

from collections.abc import Iterator
from typing import Final

from memoriale.adapters.composition import Infrastructure, Tenant
from memoriale.adapters.doctor.checks import Check
from memoriale.adapters.doctor.declared import listed
from memoriale.adapters.doctor.sessions import APPLICATION, Catalogue, catalogue, session
from memoriale.adapters.postgres.roles import VARIABLES, Role

_SOFTWARE: Final = (Role.APPEND, Role.READ, Role.PROJECT, Role.ERASE)
_ATTRIBUTES: Final = (
    "SELECT rolname::text, rolsuper, rolbypassrls, rolcreaterole, rolreplication, rolcanlogin"
    " FROM pg_roles WHERE rolname = ANY (%s) ORDER BY 1"
)
_FLAGS: Final = ("SUPERUSER", "BYPASSRLS", "CREATEROLE", "REPLICATION")
# Membership alone counts: from it SET ROLE follows, or a grant to oneself.
_MEMBERS: Final = (
    "SELECT r.rolname::text FROM pg_roles r WHERE NOT r.rolsuper AND r.rolname <> %s"
    " AND r.rolname !~ '^pg_' AND pg_has_role(r.oid, %s, 'MEMBER') ORDER BY 1"
)
_UNBOUND: Final = (
    "SELECT rolname::text FROM pg_roles WHERE rolsuper AND rolcanlogin AND oid <> 10 ORDER BY 1"
)
_BYPASSING: Final = (
    "SELECT r.rolname::text FROM pg_roles r WHERE r.rolbypassrls AND NOT r.rolsuper"
    " AND has_table_privilege(r.oid, 'ledger.ledger_events', 'SELECT') ORDER BY 1"
)
_SESSIONS: Final = (
    "SELECT count(*) FROM pg_stat_activity a JOIN pg_roles r ON r.oid = a.usesysid"
    " WHERE r.rolsuper AND a.datname = current_database() AND a.backend_type = 'client backend'"
    " AND a.application_name <> %s"
)
_ROLE_SETTINGS: Final = (
    "SELECT coalesce(s.setrole::regrole::text, 'the database'), c.setting FROM ("
    " SELECT NULLIF(setrole, 0) AS setrole, setdatabase, setconfig FROM pg_db_role_setting) AS s,"
    " unnest(s.setconfig) AS c (setting) WHERE s.setdatabase IN (0, (SELECT oid FROM pg_database"
    " WHERE datname = current_database())) ORDER BY 1, 2"
)
_HARMFUL: Final = (
    "session_replication_role=",
    "row_security=",
    "ledger.tenant=",
    "synchronous_commit=off",
    "role=",
)


def roles(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """The roles of the ledger exist, and none can log in or has a right beyond its grants."""
    with catalogue(infrastructure) as read:
        rows = read.rows(_ATTRIBUTES, [[str(role) for role in Role]])
    missing = sorted(set(Role) - {name for name, *_ in rows})
    if missing:
        return Check.failed("roles", f"missing: {', '.join(missing)}; run memoriale migrate")
    wrong = [
        f"{name} has {flag}"
        for name, *values in rows
        for flag, value in zip((*_FLAGS, "LOGIN"), values, strict=True)
        if value
    ]
    if wrong:
        return Check.failed("roles", f"{listed(wrong)}; ALTER ROLE … takes it away")
    return Check.passed("roles", "all six exist, none can log in")


def login(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """Nobody as whom the software runs is a superuser or can make itself one."""
    names = login_names(infrastructure)
    migrator = names.pop(Role.ADMIN, None)
    with catalogue(infrastructure) as read:
        rows = read.rows(_ATTRIBUTES, [sorted({*names.values(), *filter(None, [migrator])})])
    powers = {
        name: [flag for flag, value in zip(_FLAGS, values, strict=False) if value]
        for name, *values in rows
    }
    for name in sorted(set(names.values())):
        if "SUPERUSER" in powers[name]:
            return Check.failed("login", f"{name} is a superuser, whom no rule of the ledger binds")
        if powers[name]:
            detail = f"{name} has {', '.join(powers[name])}; ALTER ROLE {name} NO… takes it away"
            return Check.failed("login", detail)
    told = f"{', '.join(sorted(set(names.values())))}: no superuser"
    if migrator is not None and "SUPERUSER" in powers[migrator]:
        told += f"; {migrator}, who migrates, is one"
    return Check.passed("login", told)


def separate_logins(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """Which roles have a login of their own, and that no other login can take them."""
    given = infrastructure.logins
    names = login_names(infrastructure)
    alone = [role for role in (Role.PROJECT, Role.ERASE, Role.ADMIN) if given.own(role)]
    with catalogue(infrastructure) as read:
        able = {role: {name for (name,) in read.rows(_MEMBERS, [role, role])} for role in alone}
    wrong = [
        f"{names[Role.APPEND]} can take {role} too; REVOKE {role} FROM {names[Role.APPEND]}"
        for role in alone
        if names[Role.APPEND] != names[role] and names[Role.APPEND] in able[role]
    ]
    if wrong:
        return Check.failed("separate logins", listed(wrong))
    falling = [role for role in (Role.PROJECT, Role.ERASE, Role.ADMIN) if role not in alone]
    if falling:
        unset = ", ".join(VARIABLES[role] for role in falling)
        detail = f"{unset} not set: {', '.join(falling)} by SET ROLE on {names[Role.APPEND]}"
        return Check.warned("separate logins", detail)
    detail = ", ".join(f"{role} as {names[role]}" for role in (Role.APPEND, *alone))
    return Check.passed("separate logins", detail)


def members(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """Nobody can act as the owner of the tables but administrators, whom it lists."""
    names = login_names(infrastructure)
    migrator = names.pop(Role.ADMIN, None)
    with catalogue(infrastructure) as read:
        owners = [name for (name,) in read.rows(_MEMBERS, [Role.OWNER, Role.OWNER])]
        admins = [name for (name,) in read.rows(_MEMBERS, [Role.ADMIN, Role.ADMIN])]
        others = sorted({*_members(read)} - set(names.values()) - {migrator, *owners})
    strangers = [name for name in owners if name not in (Role.ADMIN, migrator)]
    wrong = [name for name in strangers if name in names.values() or name not in admins]
    # Without a login of its own for it, whoever migrated cannot be told from a stranger.
    if migrator is None:
        wrong = [name for name in wrong if name in names.values()]
    if wrong:
        who = ", ".join(wrong)
        detail = f"{who} can act as {Role.OWNER}; REVOKE {Role.OWNER}, {Role.ADMIN} FROM {who}"
        return Check.failed("members", detail)
    told = [f"{', '.join(strangers)} can act as {Role.OWNER} too"] if strangers else []
    told += [f"roles of the software are held by further logins: {listed(others)}"] * bool(others)
    if told:
        return Check.warned("members", "; ".join(told))
    return Check.passed("members", f"nobody but who migrates can act as {Role.OWNER}")


def unbound(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """Logins that row security does not bind, and settings that would switch protection off."""
    with catalogue(infrastructure) as read:
        bypassing = [name for (name,) in read.rows(_BYPASSING)]
        settings = [
            f"{who} has {setting}"
            for who, setting in read.rows(_ROLE_SETTINGS)
            if setting.lower().startswith(_HARMFUL)
        ]
        superusers = [name for (name,) in read.rows(_UNBOUND)]
        ((connected,),) = read.rows(_SESSIONS, [APPLICATION])
    wrong = [f"{name} has BYPASSRLS and can read the events" for name in bypassing] + settings
    if wrong:
        return Check.failed("unbound", f"{listed(wrong)}; ALTER ROLE … takes it away")
    told = [f"superusers besides the first: {listed(superusers)}"] if superusers else []
    told += [f"{connected} sessions of superusers in this database"] if connected else []
    if told:
        return Check.warned("unbound", "; ".join(told))
    return Check.passed("unbound", "no login but the first superuser is above row security")


def login_names(infrastructure: Infrastructure) -> dict[Role, str]:
    """Who logs in for each role; ``ADMIN`` is left out where no login was given for it."""
    names: dict[Role, str] = {}
    by_url: dict[str, str] = {}
    for role in (*_SOFTWARE, Role.ADMIN):
        url = infrastructure.logins.of(role)
        if role is Role.ADMIN and infrastructure.logins.own(role) is None:
            continue
        if url not in by_url:
            with session(url) as connection:
                ((name,),) = connection.execute("SELECT session_user::text").fetchall()
            by_url[url] = str(name)
        names[role] = by_url[url]
    return names


def _members(read: Catalogue) -> Iterator[str]:
    for role in _SOFTWARE:
        yield from (name for (name,) in read.rows(_MEMBERS, [role, role]) if name != Role.ADMIN)
