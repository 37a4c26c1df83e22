"""The check of the keys and limits of the tables: without them two appends could take one place."""

from collections.abc import Iterator
from typing import Final

from memoriale.adapters.composition import Infrastructure, Tenant
from memoriale.adapters.doctor.checks import Check
from memoriale.adapters.doctor.declared import UniqueKey, listed
from memoriale.adapters.doctor.sessions import catalogue
from memoriale.adapters.doctor.tables import Table, tables

_UNIQUE: Final = (
    "SELECT i.indrelid, pg_get_indexdef(i.indexrelid), coalesce(pg_get_expr(i.indpred, i.indrelid),"
    " ''), i.indexrelid::regclass::text, i.indisvalid AND i.indisready AND i.indimmediate"
    " FROM pg_index i WHERE i.indisunique AND i.indrelid = ANY (%s) ORDER BY 4"
)
# Whether a constraint is enforced is a column of its own from PostgreSQL 18 on.
_CHECKS: Final = (
    "SELECT c.conrelid, c.conname::text, c.convalidated"
    " AND coalesce((to_jsonb(c) ->> 'conenforced')::boolean, true)"
    " FROM pg_constraint c WHERE c.contype = 'c' AND c.conrelid = ANY (%s) ORDER BY 2"
)


def uniqueness(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """Every unique key and every CHECK of the migrations is there and holds for all rows."""
    with catalogue(infrastructure) as read:
        found = [table for table in tables(read) if table.rule]
        oids = [[table.oid for table in found]]
        unique, checks = read.rows(_UNIQUE, oids), read.rows(_CHECKS, oids)
    wrong: list[str] = []
    for table in found:
        keys = {
            _key(text, where) for oid, text, where, _, whole in unique if oid == table.oid and whole
        }
        wrong += _missing_keys(table, keys)
        wrong += [
            f"unique index {name} is not valid"
            for oid, _, _, name, whole in unique
            if oid == table.oid and not whole
        ]
        held = {name: holds for oid, name, holds in checks if oid == table.oid}
        wrong += _missing_checks(table, held)
    if wrong:
        return Check.failed(
            "uniqueness",
            f"{listed(wrong)}; see who changed it, then restore it as in the migrations",
        )
    counted = f"{len(unique)} unique keys and {len(checks)} checks"
    return Check.passed("uniqueness", f"{counted}, those of the migrations among them")


def _key(definition: str, condition: str) -> UniqueKey:
    columns = definition.partition(" USING btree (")[2].partition(")")[0]
    return columns, condition


def _missing_keys(table: Table, given: set[UniqueKey]) -> Iterator[str]:
    assert table.rule is not None
    for columns, condition in sorted(table.rule.keys - given):
        where = f" where {condition}" if condition else ""
        yield f"the unique key of {table.name} over {columns}{where} is missing"


def _missing_checks(table: Table, given: dict[str, bool]) -> Iterator[str]:
    assert table.rule is not None
    for name in sorted(table.rule.checks):
        if name not in given:
            yield f"CHECK {name} of {table.name} is missing"
        elif not given[name]:
            yield f"CHECK {name} of {table.name} does not hold for all rows"
