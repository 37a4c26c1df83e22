"""Checks of the rights: what is granted, and what every role of the cluster can do with it."""

from collections.abc import Iterator
from typing import Final

from memoriale.adapters.composition import Infrastructure, Tenant
from memoriale.adapters.doctor.checks import Check
from memoriale.adapters.doctor.declared import EXECUTE, TABLES, USAGE, listed
from memoriale.adapters.doctor.sessions import Catalogue, catalogue
from memoriale.adapters.doctor.tables import FAMILY, tables

Grant = tuple[str, str, str]
"""Object, right, and who holds it."""

_WHO: Final = (
    "CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee)::text END,"
    " a.privilege_type || CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END"
)
_RELATIONS: Final = (
    f"{FAMILY} SELECT c.oid::regclass::text, {_WHO} FROM family f JOIN pg_class c ON c.oid = f.oid,"
    " aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) a WHERE a.grantee <> c.relowner"
)
_COLUMNS: Final = (
    f"{FAMILY} SELECT c.oid::regclass::text || '.' || t.attname, {_WHO} FROM family f"
    " JOIN pg_class c ON c.oid = f.oid JOIN pg_attribute t ON t.attrelid = c.oid,"
    " aclexplode(t.attacl) a WHERE t.attacl IS NOT NULL AND a.grantee <> c.relowner"
)
_FUNCTIONS: Final = (
    f"SELECT 'ledger.' || p.proname, {_WHO} FROM pg_proc p,"
    " aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a"
    " WHERE p.pronamespace = 'ledger'::regnamespace AND a.grantee <> p.proowner"
)
_SCHEMA: Final = (
    f"SELECT 'schema ledger', {_WHO} FROM pg_namespace n,"
    " aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a"
    " WHERE n.nspname = 'ledger' AND a.grantee <> n.nspowner"
)
_DEFAULTS: Final = (
    f"SELECT 'what memoriale_owner makes', {_WHO} FROM pg_default_acl d, aclexplode(d.defaclacl) a"
    " WHERE d.defaclrole = 'memoriale_owner'::regrole AND a.grantee <> d.defaclrole"
)
# Memberships, PUBLIC and the server's own roles, such as pg_write_all_data, all count. Whom no
# rule binds, and who may act as the owner, are other checks.
_OTHERS: Final = (
    FAMILY + ", someone AS (SELECT r.oid, r.rolname FROM pg_roles r WHERE NOT r.rolsuper"
    " AND r.rolname !~ '^pg_' AND NOT pg_has_role(r.oid, 'memoriale_owner', 'MEMBER'))"
)
# Who is a member of a role that may write to a table, or read it, may do just that.
_WRITERS: Final = (
    f"{_OTHERS}, granted AS (SELECT * FROM unnest(%s::text[], %s::text[], %s::text[])"
    " AS g (relation, granted_right, role))"
    " SELECT DISTINCT s.rolname::text, c.oid::regclass::text FROM someone s, family f"
    " JOIN pg_class c ON c.oid = f.oid JOIN pg_class r ON r.oid = f.root, unnest(ARRAY["
    "'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER', 'REFERENCES']) AS w (wanted)"
    " WHERE (has_table_privilege(s.oid, c.oid, w.wanted) OR (w.wanted IN ('INSERT', 'UPDATE',"
    " 'REFERENCES') AND has_any_column_privilege(s.oid, c.oid, w.wanted)))"
    " AND NOT EXISTS (SELECT FROM granted g WHERE g.relation = r.relname"
    " AND g.granted_right = w.wanted AND pg_has_role(s.oid, g.role, 'MEMBER')) ORDER BY 1, 2"
)
_STRANGERS: Final = (
    f"{_OTHERS}, granted AS (SELECT * FROM unnest(%s::text[], %s::text[], %s::text[])"
    " AS g (relation, granted_right, role))"
    " SELECT s.rolname::text, c.oid::regclass::text FROM someone s, family f"
    " JOIN pg_class c ON c.oid = f.oid JOIN pg_class r ON r.oid = f.root"
    " WHERE r.relname <> 'migrations' AND has_any_column_privilege(s.oid, c.oid, 'SELECT')"
    " AND NOT EXISTS (SELECT FROM granted g WHERE g.relation = r.relname"
    " AND g.granted_right = 'SELECT' AND pg_has_role(s.oid, g.role, 'MEMBER')) ORDER BY 1, 2"
)
_CREATORS: Final = (
    f"{_OTHERS} SELECT s.rolname::text FROM someone s"
    " WHERE has_schema_privilege(s.oid, 'ledger', 'CREATE') ORDER BY 1"
)


def grants(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """Each role holds what the migrations grant it, and nobody else holds anything."""
    with catalogue(infrastructure) as read:
        found = tables(read)
        held = set(_held(read))
    wanted = set(_wanted())
    # Reads go through the whole table, so a part of it needs no grant and may have the same.
    wanted_of_parts = {
        (table.name, "SELECT", str(role))
        for table in found
        if table.rule and not table.is_root
        for role in table.rule.readers
    }
    extra = held - wanted - wanted_of_parts
    wrong = [f"{who} has {right} on {what}" for what, right, who in sorted(extra)]
    wrong += [f"{who} lacks {right} on {what}" for what, right, who in sorted(wanted - held)]
    if wrong:
        return Check.failed("grants", f"{listed(wrong)}; REVOKE or GRANT it as the owner")
    return Check.passed("grants", f"{len(wanted)}, as the migrations made them")


def privileges(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """No role of the cluster can write to a table, make objects in the schema, or read without
    a role of the ledger, by whatever way it came to that."""
    granted = [list(column) for column in zip(*_on_tables(), strict=True)]
    with catalogue(infrastructure) as read:
        wrong = [f"{who} can write to {what}" for who, what in read.rows(_WRITERS, granted)]
        wrong += [f"{who} can read {what}" for who, what in read.rows(_STRANGERS, granted)]
        wrong += [f"{who} can make objects in the schema" for (who,) in read.rows(_CREATORS)]
    if wrong:
        return Check.failed("privileges", f"{listed(wrong)}; REVOKE what it is a member of")
    return Check.passed(
        "privileges", "no role writes to a table of the record but the owner's members"
    )


def _held(read: Catalogue) -> Iterator[Grant]:
    for query in (_RELATIONS, _COLUMNS, _FUNCTIONS, _SCHEMA, _DEFAULTS):
        yield from ((what, right, who) for what, who, right in read.rows(query))


def _wanted() -> Iterator[Grant]:
    yield from ((f"ledger.{name}", right, role) for name, right, role in _on_tables())
    for name, roles in EXECUTE.items():
        yield from ((f"ledger.{name}", "EXECUTE", str(role)) for role in roles)
    yield from (("schema ledger", "USAGE", str(role)) for role in USAGE)


def _on_tables() -> Iterator[Grant]:
    for name, rule in TABLES.items():
        for right, roles in {"SELECT": rule.readers, **rule.writers}.items():
            yield from ((name, right, str(role)) for role in roles)
