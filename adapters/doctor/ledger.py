"""Checks of the database, the key store and the views."""

from collections.abc import Sequence
from typing import Any, Final

from memoriale.adapters.composition import VIEW_NAMES, Infrastructure, Tenant
from memoriale.adapters.doctor.checks import Check
from memoriale.adapters.doctor.machine import mode

OLDEST_SERVER: Final = 15
MOST_SECONDS_AHEAD: Final = 1.0
DURABLE: Final = ("fsync", "full_page_writes", "synchronous_commit")


def database(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """The database answers."""
    asked(infrastructure, "SELECT 1")
    kind = "outside" if infrastructure.server is None else "embedded"
    return Check.passed("database", f"{kind}, {infrastructure.datastore.place}")


def server_version(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """The server is not older than the ledger needs."""
    ((number,),) = asked(infrastructure, "SELECT current_setting('server_version_num')::int")
    major, minor = divmod(number, 10_000)
    return Check.of("server version", major >= OLDEST_SERVER, f"PostgreSQL {major}.{minor}")


def schema(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """The migrations are those of this release: nothing opens otherwise."""
    return Check.passed("schema", "as this release wants it")


def keys(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """The key store opens, and its files are their owner's alone."""
    stats, folder = infrastructure.keys.stats(), infrastructure.settings.keys_folder
    outside = infrastructure.settings.master_key
    files = [path for path in folder.iterdir() if path.is_file()]
    files += [outside] if outside is not None else []
    loose = [f"{path} is {mode(path):04o}" for path in files if mode(path) & 0o077]
    if loose:
        return Check.failed("keys", f"{'; '.join(loose)}; chmod 600 keeps others out")
    return Check.passed("keys", f"{folder}: {stats.persons} persons, {stats.periods} periods")


def durability(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """No setting lets a crash take what was acknowledged."""
    names = ", ".join(f"current_setting('{name}')" for name in DURABLE)
    (values,) = asked(infrastructure, f"SELECT {names}")
    off = [name for name, value in zip(DURABLE, values, strict=True) if value == "off"]
    if off:
        return Check.failed("durability", f"off: {', '.join(off)}; a crash could lose memories")
    return Check.passed("durability", f"on: {', '.join(DURABLE)}")


def clock(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """The log's last time is not ahead of the database clock."""
    seconds = tenant.log.reader.ahead().total_seconds()
    if seconds > MOST_SECONDS_AHEAD:
        detail = f"the log is {seconds:.0f} s ahead of the database clock, which was once wrong"
        return Check.failed("clock", detail)
    return Check.passed("clock", "the log is not ahead of the database clock")


def views(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """The views open."""
    head, told = tenant.log.head(), []
    for name in VIEW_NAMES:
        with tenant.view(name).read(wait=0.0) as reading:
            if reading.failure is not None:
                return Check.failed("views", reading.failure.message)
            rebuilt = ", rebuilt just now" if reading.rebuilt else ""
            told.append(f"{name} at {reading.position} of {head}{rebuilt}")
    return Check.passed("views", "; ".join(told))


def asked(
    infrastructure: Infrastructure, query: str, parameters: Sequence[Any] = ()
) -> list[tuple[Any, ...]]:
    """Rows of a question about the server, asked with the first login."""
    with infrastructure.datastore.appending() as connection:
        rows: list[tuple[Any, ...]] = connection.execute(
            query.encode(), parameters or None
        ).fetchall()
        return rows
