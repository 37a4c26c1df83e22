"""Checks of what stands beside the tables: owners, ways around them, and where rows may go."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from memoriale.adapters.composition import Infrastructure, Tenant
from memoriale.adapters.doctor.checks import Check
from memoriale.adapters.doctor.declared import listed
from memoriale.adapters.doctor.sessions import Catalogue, catalogue
from memoriale.adapters.doctor.tables import FAMILY, Table, tables
from memoriale.adapters.postgres.roles import Role

_OWNERS: Final = (
    "SELECT what, pg_get_userbyid(owner)::text FROM ("
    " SELECT 'schema ledger' AS what, nspowner AS owner FROM pg_namespace WHERE nspname = 'ledger'"
    " UNION ALL SELECT oid::regclass::text, relowner FROM pg_class"
    " WHERE relnamespace = 'ledger'::regnamespace"
    " UNION ALL SELECT 'function ledger.' || proname, proowner FROM pg_proc"
    " WHERE pronamespace = 'ledger'::regnamespace"
    " UNION ALL SELECT 'type ' || oid::regtype::text, typowner FROM pg_type"
    " WHERE typnamespace = 'ledger'::regnamespace"
    " UNION ALL SELECT 'operator ' || oid::regoperator::text, oprowner FROM pg_operator"
    " WHERE oprnamespace = 'ledger'::regnamespace) AS owned ORDER BY 1"
)
_STRANGE: Final = (
    "SELECT CASE relkind WHEN 'v' THEN 'view ' WHEN 'm' THEN 'materialized view '"
    " WHEN 'S' THEN 'sequence ' WHEN 'f' THEN 'foreign table ' ELSE 'type ' END"
    " || oid::regclass::text FROM pg_class WHERE relnamespace = 'ledger'::regnamespace"
    " AND relkind NOT IN ('r', 'p', 'i', 'I', 't')"
    " UNION ALL SELECT 'operator ' || oid::regoperator::text FROM pg_operator"
    " WHERE oprnamespace = 'ledger'::regnamespace ORDER BY 1"
)
_RULES: Final = (
    f"{FAMILY} SELECT r.rulename::text, r.ev_class::regclass::text FROM pg_rewrite r"
    " JOIN family f ON f.oid = r.ev_class ORDER BY 2, 1"
)
_PARENTS: Final = (
    f"{FAMILY} SELECT i.inhrelid::regclass::text, i.inhparent::regclass::text FROM pg_inherits i"
    " JOIN family f ON f.oid = i.inhrelid"
    " WHERE i.inhparent NOT IN (SELECT oid FROM family) ORDER BY 1, 2"
)
_REFERENCES: Final = (
    f"{FAMILY} SELECT k.conrelid::regclass::text, k.confrelid::regclass::text FROM pg_constraint k"
    " WHERE k.contype = 'f' AND (k.confrelid IN (SELECT oid FROM family)"
    " OR k.conrelid IN (SELECT oid FROM family)) ORDER BY 1, 2"
)
# A view reads with the rights of its owner, unless it is told to use the caller's.
_VIEWS: Final = (
    FAMILY + ", reading AS (SELECT oid FROM family UNION SELECT r.ev_class FROM reading b"
    " JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = b.oid"
    " AND d.classid = 'pg_rewrite'::regclass JOIN pg_rewrite r ON r.oid = d.objid)"
    " SELECT c.oid::regclass::text, o.rolname::text, o.rolsuper OR o.rolbypassrls,"
    " c.relkind = 'm', coalesce((SELECT option_value::boolean FROM"
    " pg_options_to_table(c.reloptions) WHERE option_name = 'security_invoker'), false)"
    " FROM reading v JOIN pg_class c ON c.oid = v.oid JOIN pg_roles o ON o.oid = c.relowner"
    " WHERE c.relkind IN ('v', 'm') ORDER BY 1"
)
_EVENT_TRIGGERS: Final = (
    "SELECT evtname::text, evtowner::regrole::text FROM pg_event_trigger"
    " WHERE evtenabled <> 'D' ORDER BY 1"
)
_PUBLICATIONS: Final = (
    "SELECT pubname::text, count(*) FROM pg_publication_tables WHERE schemaname = 'ledger'"
    " GROUP BY 1 ORDER BY 1"
)
_SLOTS: Final = "SELECT slot_name::text, slot_type::text FROM pg_replication_slots ORDER BY 1"


@dataclass(frozen=True, slots=True)
class View:
    """A view over the ledger, over its tables or over another such view."""

    name: str
    owner: str
    bypasses: bool
    """Whether row security does not bind its owner."""
    stored: bool
    invoker: bool
    """Whether it reads with the rights of who asks."""

    @property
    def fault(self) -> str:
        """How it leads past row security; empty when it does not."""
        if self.stored:
            return f"materialized view {self.name} holds rows that row security does not reach"
        if self.bypasses and not self.invoker:
            return f"view {self.name} of {self.owner} reads the ledger past row security"
        return ""


def owners(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """Everything in the schema belongs to memoriale_owner."""
    with catalogue(infrastructure) as read:
        rows = read.rows(_OWNERS) + [(table.name, table.owner) for table in tables(read)]
    wrong = sorted({f"{what} belongs to {owner}" for what, owner in rows if owner != Role.OWNER})
    if wrong:
        return Check.failed("owners", f"{listed(wrong)}; ALTER … OWNER TO {Role.OWNER}")
    return Check.passed("owners", f"everything in the schema belongs to {Role.OWNER}")


def ways_around(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """No rule, view, parent, key or further object leads around the protection of a table."""
    with catalogue(infrastructure) as read:
        found = [View(*row) for row in read.rows(_VIEWS)]
        wrong = [*_ways_around(read), *(view.fault for view in found if view.fault)]
    harmless = [f"{view.name} of {view.owner}" for view in found if not view.fault]
    if wrong:
        return Check.failed("ways around", f"{listed(wrong)}; DROP what nobody needs")
    if harmless:
        detail = f"views over the ledger, with their owners' rights: {listed(harmless)}"
        return Check.warned("ways around", detail)
    return Check.passed("ways around", "no rule, view, parent or foreign key over the tables")


def copies(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """Where rows may go and what may run besides: publications, slots, event triggers."""
    with catalogue(infrastructure) as read:
        told = [
            f"publication {name} has {count} tables of the ledger"
            for name, count in read.rows(_PUBLICATIONS)
        ]
        told += [
            f"event trigger {name} of {owner} runs on changes of the schema"
            for name, owner in read.rows(_EVENT_TRIGGERS)
        ]
        slots = [f"{name} ({kind})" for name, kind in read.rows(_SLOTS)]
    noted = f"replication slots: {listed(slots)}" if slots else "no replication slot"
    if told:
        return Check.warned("copies", f"{listed(told)}; {noted}")
    return Check.passed("copies", f"{noted}, no publication, no event trigger")


def _ways_around(read: Catalogue) -> Iterator[str]:
    for table in tables(read):
        yield from _odd(table)
    yield from (f"{what} is not of the ledger" for (what,) in read.rows(_STRANGE))
    for name, table in read.rows(_RULES):
        yield f"rule {name} on {table} changes what statements do"
    for table, parent in read.rows(_PARENTS):
        yield f"{table} can be read through {parent}, whose rights hold then"
    for table, other in read.rows(_REFERENCES):
        yield f"{table} has a foreign key to {other}"


def _odd(table: Table) -> Iterator[str]:
    if table.rule is None:
        yield f"table {table.name} is not of the ledger"
    elif not table.is_root and not table.partition:
        yield f"table {table.name} adds rows to ledger.{table.root} by inheritance"
    if not table.durable:
        yield f"{table.name} is unlogged or foreign: a crash could empty it"
