"""What an installation is, what it holds, and whether its parts are as they should be."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memoriale.adapters.composition import VIEW_NAMES, Infrastructure, Tenant, build
from memoriale.adapters.settings import Settings, without_password
from memoriale.domain.errors import MemorialeError

if TYPE_CHECKING:
    from memoriale.projections.stats.view import StatsView

OLDEST_SERVER: Final = 15
LEAST_FREE_BYTES: Final = 512 * 1024 * 1024
MOST_SECONDS_AHEAD: Final = 1.0
ROLES: Final = ("owner", "append", "read", "project", "erase", "admin")
PACKAGES: Final = (
    "memoriale",
    "eventsourcing",
    "psycopg",
    "lancedb",
    "duckdb",
    "pyarrow",
    "cryptography",
    "pydantic",
)
DURABLE: Final = ("fsync", "full_page_writes", "synchronous_commit")

# Checks that need an open ledger, in the order in which they are made.
_OF_THE_LEDGER: Final = (
    "database",
    "server version",
    "schema",
    "keys",
    "roles",
    "login",
    "separate logins",
    "durability",
    "clock",
    "views",
)
_OPEN_JOBS: Final = (
    "SELECT CAST(stream_id AS VARCHAR), arg_max(topic, index) AS last, max(index) FROM events"
    " WHERE starts_with(topic, 'job.') GROUP BY stream_id"
    " HAVING last NOT IN ('job.completed', 'job.failed', 'job.cancelled') ORDER BY 3"
)


@dataclass(frozen=True, slots=True)
class Installation:
    """
    Where an installation is.

    Args:
        home: Its folder.
        database: Administrator's URI of the embedded server; an outside one without password.
        postgres_version: Version of the server.
        tenant: The tenant that was asked for.
    """

    home: str
    database: str
    postgres_version: str
    tenant: str

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Status:
    """
    What a tenant's ledger holds.

    Args:
        events: Events in the memory log.
        unsealed: Events that no checkpoint covers.
        ahead_seconds: How far the last recorded time is ahead of the database clock.
        views: For each view its ``position`` before this call, and how many events it was
            ``behind``.
        jobs: Jobs that have not ended: ``id``, ``status``, and ``index`` of their last event.
        totals: Events by topic, current memories by kind, and the number of branches.
    """

    events: int
    unsealed: int
    ahead_seconds: float
    views: list[dict[str, Any]]
    jobs: list[dict[str, Any]]
    totals: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Check:
    """One part of an installation: its name, whether it is as it should be, and what was found."""

    name: str
    ok: bool
    detail: str


def installation(infrastructure: Infrastructure, tenant: Tenant) -> Installation:
    """
    Where an installation is; the tenant's log is made if it does not exist.

    Raises:
        UnavailableError: The database cannot be reached.
    """
    settings, server = infrastructure.settings, infrastructure.server
    outside = settings.database_url
    with infrastructure.datastore.read(tenant.log.tenant) as connection:
        version = connection.info.parameter_status("server_version") or ""
    if server is not None:
        database = server.superuser_url
    else:
        database = without_password(outside.get_secret_value() if outside else "")
    return Installation(str(settings.home), database, version, tenant.name)


def status(tenant: Tenant, wait: float) -> Status:
    """
    What a tenant's ledger holds; the stats view is caught up for it.

    Args:
        tenant: Whose.
        wait: Seconds that the stats view may take to catch up.

    Raises:
        UnavailableError: The database or a view cannot be used.
    """
    head = tenant.log.head()
    positions = {name: tenant.view(name).position() for name in VIEW_NAMES}
    totals, jobs = tenant.view("stats").run(lambda reading: _counted(reading.view), wait=wait)
    return Status(
        events=head,
        unsealed=head,
        ahead_seconds=tenant.log.reader.ahead().total_seconds(),
        views=[
            {"view": name, "position": position, "behind": max(0, head - position)}
            for name, position in positions.items()
        ],
        jobs=jobs,
        totals=totals,
    )


def doctor(settings: Settings, tenant: str) -> list[Check]:
    """
    Checks an installation part by part. A part that cannot be looked at is not ok.

    Args:
        settings: Of the installation.
        tenant: Whose log and views are looked at.
    """
    first = [_python(), _packages(), _home(settings), _disk(settings), _embedder(settings)]
    if not settings.home.is_dir():
        return [*first, *_not_looked_at("there is no home")]
    try:
        infrastructure = build(settings)
    except MemorialeError as error:
        return [*first, *_blamed(error)]
    try:
        return [*first, *_of_the_ledger(infrastructure, Tenant(infrastructure, tenant))]
    finally:
        infrastructure.close()


def _counted(view: "StatsView") -> tuple[dict[str, Any], list[dict[str, Any]]]:
    totals = view.totals()
    jobs = [
        {"id": stream, "status": topic.removeprefix("job."), "index": index}
        for stream, topic, index in view.query(_OPEN_JOBS)
    ]
    counted = {
        "events": totals.events,
        "memories": totals.memories,
        "branches": totals.branches,
    }
    return counted, jobs


def _python() -> Check:
    version = ".".join(str(part) for part in sys.version_info[:3])
    return Check("python", sys.version_info >= (3, 11), version)


def _packages() -> Check:
    from importlib.metadata import PackageNotFoundError, version

    found, missing = [], []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(f"{name} is missing")
    return Check("packages", not missing, ", ".join(missing + found))


def _home(settings: Settings) -> Check:
    home = settings.home
    if not home.is_dir():
        return Check("home", False, f"{home} does not exist; run memoriale init")
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        return Check("home", False, f"{home} cannot be written by this user")
    private = (home, settings.keys_folder, settings.views_folder)
    loose = [f"{path} is {_mode(path):04o}" for path in private if _mode(path) & 0o077]
    if loose:
        return Check("home", False, f"{'; '.join(loose)}; chmod 700 keeps others out")
    return Check("home", True, f"{home}, for its owner alone")


def _disk(settings: Settings) -> Check:
    place = settings.home
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    return Check("disk space", free >= LEAST_FREE_BYTES, f"{free // 2**20} MiB free at {place}")


def _embedder(settings: Settings) -> Check:
    from memoriale.adapters.application.posting import configured_embedder
    from memoriale.projections.embedding import embed_query

    try:
        embedder = configured_embedder(settings)
        embed_query(embedder, "Does this embedder work?")
    except MemorialeError as error:
        return Check("embedder", False, error.message)
    return Check("embedder", True, f"{embedder.model}, {embedder.width} dimensions")


def _of_the_ledger(infrastructure: Infrastructure, tenant: Tenant) -> list[Check]:
    makers: dict[str, Callable[[], Check]] = {
        "database": lambda: _database(infrastructure),
        "server version": lambda: _server_version(infrastructure),
        "schema": lambda: Check("schema", True, "as this release wants it"),
        "keys": lambda: _keys(infrastructure),
        "roles": lambda: _roles(infrastructure),
        "login": lambda: _login(infrastructure),
        "separate logins": lambda: _separate_logins(infrastructure),
        "durability": lambda: _durability(infrastructure),
        "clock": lambda: _clock(tenant),
        "views": lambda: _views(tenant),
    }
    checks = []
    try:
        for name in _OF_THE_LEDGER:
            try:
                checks.append(makers[name]())
            except MemorialeError as error:
                checks.append(Check(name, False, error.message))
        return checks
    finally:
        tenant.close()


def _database(infrastructure: Infrastructure) -> Check:
    _asked(infrastructure, "SELECT 1")
    kind = "outside" if infrastructure.server is None else "embedded"
    return Check("database", True, f"{kind}, {infrastructure.datastore.place}")


def _server_version(infrastructure: Infrastructure) -> Check:
    ((number,),) = _asked(infrastructure, "SELECT current_setting('server_version_num')::int")
    major, minor = divmod(number, 10_000)
    return Check("server version", major >= OLDEST_SERVER, f"PostgreSQL {major}.{minor}")


def _keys(infrastructure: Infrastructure) -> Check:
    stats, folder = infrastructure.keys.stats(), infrastructure.settings.keys_folder
    outside = infrastructure.settings.master_key
    files = [path for path in folder.iterdir() if path.is_file()]
    files += [outside] if outside is not None else []
    loose = [f"{path} is {_mode(path):04o}" for path in files if _mode(path) & 0o077]
    if loose:
        return Check("keys", False, f"{'; '.join(loose)}; chmod 600 keeps others out")
    return Check("keys", True, f"{folder}: {stats.persons} persons, {stats.periods} periods")


def _roles(infrastructure: Infrastructure) -> Check:
    wanted = [f"memoriale_{role}" for role in ROLES]
    rows = _asked(infrastructure, "SELECT rolname FROM pg_roles WHERE rolname = ANY (%s)", [wanted])
    found = {name for (name,) in rows}
    missing = [role for role in wanted if role not in found]
    detail = f"missing: {', '.join(missing)}; run memoriale migrate" if missing else "all six exist"
    return Check("roles", not missing, detail)


def _login(infrastructure: Infrastructure) -> Check:
    ((name, superuser),) = _asked(
        infrastructure, "SELECT rolname, rolsuper FROM pg_roles WHERE rolname = session_user"
    )
    if superuser:
        return Check("login", False, f"{name} is a superuser, whom no rule of the ledger binds")
    return Check("login", True, f"{name}, no superuser")


def _separate_logins(infrastructure: Infrastructure) -> Check:
    settings = infrastructure.settings
    detail = "memoriale_append and memoriale_read are taken by SET ROLE on one login"
    if infrastructure.server is None and settings.admin_url is None:
        detail += "; MEMORIALE_ADMIN_URL is not set, so migrate uses it too"
    return Check("separate logins", True, detail)


def _durability(infrastructure: Infrastructure) -> Check:
    names = ", ".join(f"current_setting('{name}')" for name in DURABLE)
    (values,) = _asked(infrastructure, f"SELECT {names}")
    off = [name for name, value in zip(DURABLE, values, strict=True) if value == "off"]
    if off:
        return Check("durability", False, f"off: {', '.join(off)}; a crash could lose memories")
    return Check("durability", True, f"on: {', '.join(DURABLE)}")


def _clock(tenant: Tenant) -> Check:
    seconds = tenant.log.reader.ahead().total_seconds()
    if seconds > MOST_SECONDS_AHEAD:
        detail = f"the log is {seconds:.0f} s ahead of the database clock, which was once wrong"
        return Check("clock", False, detail)
    return Check("clock", True, "the log is not ahead of the database clock")


def _views(tenant: Tenant) -> Check:
    head, told = tenant.log.head(), []
    for name in VIEW_NAMES:
        with tenant.view(name).read(wait=0.0) as reading:
            rebuilt = ", rebuilt just now" if reading.rebuilt else ""
            told.append(f"{name} at {reading.position} of {head}{rebuilt}")
    return Check("views", True, "; ".join(told))


def _asked(
    infrastructure: Infrastructure, query: str, parameters: Sequence[Any] = ()
) -> list[tuple[Any, ...]]:
    with infrastructure.datastore.appending() as connection:
        rows: list[tuple[Any, ...]] = connection.execute(query, parameters or None).fetchall()
        return rows


def _blamed(error: MemorialeError) -> Iterator[Check]:
    """The check that a failure to open the ledger belongs to; the others were not looked at."""
    if error.field in ("keystore", "master_key"):
        name = "keys"
    elif error.code in ("not_migrated", "database_newer", "migration_changed"):
        name = "schema"
    else:
        name = "server version" if error.code == "server_too_old" else "database"
    yield Check(name, False, error.message)
    yield from (c for c in _not_looked_at(f"the check {name!r} failed") if c.name != name)


def _not_looked_at(why: str) -> list[Check]:
    return [Check(name, False, f"not looked at: {why}") for name in _OF_THE_LEDGER]


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777 if path.exists() else 0
