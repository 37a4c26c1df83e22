"""Checks of what guards the tables: triggers and row security, on every partition too."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from memoriale.adapters.composition import Infrastructure, Tenant
from memoriale.adapters.doctor.checks import Check
from memoriale.adapters.doctor.declared import POLICY, POLICY_RULE, listed
from memoriale.adapters.doctor.sessions import Catalogue, catalogue
from memoriale.adapters.doctor.tables import Table, tables

_TRIGGERS: Final = (
    "SELECT t.tgrelid, t.tgname::text, t.tgenabled::text, pg_get_triggerdef(t.oid)"
    " FROM pg_trigger t WHERE NOT t.tgisinternal AND t.tgrelid = ANY (%s) ORDER BY 2"
)
_POLICIES: Final = (
    "SELECT p.polrelid, p.polname::text, p.polcmd::text, p.polpermissive, p.polroles = '{0}',"
    " pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)"
    " FROM pg_policy p WHERE p.polrelid = ANY (%s) ORDER BY 2"
)
_REPAIR: Final = "see who changed it, then restore it as in the migrations"


def triggers(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """The triggers that refuse changes are there, unchanged, and fire in every session."""
    with catalogue(infrastructure) as read:
        found = tables(read)
        given = _by_table(read, _TRIGGERS, found)
        wrong = [finding for table in found for finding in _wrong_triggers(table, given[table.oid])]
        count = sum(len(each) for each in given.values())
    if wrong:
        return Check.failed("triggers", f"{listed(wrong)}; {_REPAIR}")
    return Check.passed("triggers", f"{count}, all as the migrations made them and ENABLE ALWAYS")


def row_security(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """Row security closes every table but for the tenant of the transaction."""
    with catalogue(infrastructure) as read:
        found = [table for table in tables(read) if table.rule and table.rule.by_tenant]
        given = _by_table(read, _POLICIES, found)
        wrong = [finding for table in found for finding in _wrong_policies(table, given[table.oid])]
    if wrong:
        return Check.failed("row security", f"{listed(wrong)}; {_REPAIR}")
    return Check.passed("row security", f"forced on {len(found)} tables, with their policies")


def _by_table(
    read: Catalogue, query: str, found: list[Table]
) -> defaultdict[int, list[tuple[Any, ...]]]:
    rows: defaultdict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for oid, *rest in read.rows(query, [[table.oid for table in found]]):
        rows[oid].append(tuple(rest))
    return rows


def _wrong_triggers(table: Table, given: list[tuple[Any, ...]]) -> Iterator[str]:
    wanted = dict(table.rule.triggers) if table.rule else {}
    for name, enabled, definition in given:
        rule = wanted.pop(name, None)
        if rule is None:
            yield f"trigger {name} on {table.name} is not of the ledger"
        elif definition != f"CREATE TRIGGER {name} {rule.format(table=table.name)}":
            yield f"trigger {name} on {table.name} was changed"
        elif enabled == "D":
            yield f"trigger {name} on {table.name} is disabled"
        elif enabled != "A":
            yield f"trigger {name} on {table.name} is not ENABLE ALWAYS"
    yield from (f"trigger {name} on {table.name} is missing" for name in wanted)


def _wrong_policies(table: Table, given: list[tuple[Any, ...]]) -> Iterator[str]:
    if not table.row_security:
        yield f"row security of {table.name} is disabled"
    if not table.forced:
        yield f"row security of {table.name} is not FORCEd"
    if POLICY not in [name for name, *_ in given]:
        yield f"policy {POLICY} on {table.name} is missing"
    for name, command, permissive, everybody, using, checked in given:
        if name != POLICY:
            yield f"policy {name} on {table.name} is not of the ledger"
        elif (
            (command, permissive, everybody, using) != ("*", True, True, POLICY_RULE)
            # Without a rule of its own, what is written is checked by the rule of reading.
            or checked not in (None, POLICY_RULE)
        ):
            yield f"policy {name} on {table.name} was changed"
