"""The check of the hints by which subscribers of other processes are woken."""

from memoriale.adapters.composition import Infrastructure, Tenant
from memoriale.adapters.doctor.checks import Check
from memoriale.adapters.postgres.notifying import hint_arrives
from memoriale.domain.errors import MemorialeError

_MEANWHILE = "subscriptions of other processes look once a second instead"


def hints(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """A hint that one session sends reaches another one, with the rights of the reading role."""
    try:
        arrived = hint_arrives(infrastructure.datastore)
    except MemorialeError as error:
        return Check.warned("hints", f"{error.message} Until then {_MEANWHILE}")
    if arrived:
        return Check.passed("hints", "LISTEN and NOTIFY work for the reading role")
    return Check.warned(
        "hints",
        f"NOTIFY does not reach other sessions; {_MEANWHILE}. A pooler between them must give a "
        "session one server connection for good",
    )
