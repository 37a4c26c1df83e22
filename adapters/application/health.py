"""Where an installation is, and what a tenant's ledger holds."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from memoriale.adapters.composition import VIEW_NAMES, Infrastructure, Tenant
from memoriale.adapters.settings import without_password

if TYPE_CHECKING:
    from memoriale.adapters.application.tenant_log import TenantLog
    from memoriale.adapters.sealing.sealing import Sealing
    from memoriale.projections.stats.view import StatsView

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
        unsealed: Events of the memory log that no checkpoint covers.
        seals: For the memory and the access log its ``head``, how many events are ``sealed`` and
            ``unsealed``, and the ``problem`` that is in the way, if one is.
        anchors: For each outside place of checkpoints how many sealed events of this tenant it is
            ``behind``, its ``last_error``, and whether it holds another history (``in_conflict``).
        ahead_seconds: How far the last recorded time is ahead of the database clock.
        views: For each view its ``position`` before this call, and how many events it was
            ``behind``.
        jobs: Jobs that have not ended: ``id``, ``status``, and ``index`` of their last event.
        totals: Events by topic, current memories by kind, and the number of branches.
    """

    events: int
    unsealed: int
    seals: list[dict[str, Any]]
    anchors: list[dict[str, Any]]
    ahead_seconds: float
    views: list[dict[str, Any]]
    jobs: list[dict[str, Any]]
    totals: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


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
    seals = [_seal(tenant.sealing, log) for log in (tenant.log, tenant.access)]
    return Status(
        events=head,
        unsealed=seals[0]["unsealed"],
        seals=seals,
        anchors=_anchors(tenant),
        ahead_seconds=tenant.log.reader.ahead().total_seconds(),
        views=[
            {"view": name, "position": position, "behind": max(0, head - position)}
            for name, position in positions.items()
        ],
        jobs=jobs,
        totals=totals,
    )


def _seal(sealing: "Sealing", log: "TenantLog") -> dict[str, Any]:
    from memoriale.adapters.sealing.sealing import target_of

    extent = sealing.extent(target_of(log))
    return {
        "log": log.log.kind,
        "head": extent.head,
        "sealed": extent.sealed,
        "unsealed": extent.unsealed,
        "problem": None if extent.problem is None else extent.problem.message,
    }


def _anchors(tenant: Tenant) -> list[dict[str, Any]]:
    from memoriale.adapters.anchors.standing import present, standing

    checkpoints = present(tenant.anchors, tenant.sealing, (tenant.log, tenant.access))
    return [
        {
            "anchor": one.anchor,
            "behind": one.behind,
            "last_error": one.last_error,
            "in_conflict": one.in_conflict,
        }
        for one in standing(tenant.anchors, checkpoints)
    ]


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
