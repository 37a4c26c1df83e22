"""
What the migrations leave behind: who may do what, and what guards each table. A migration that
changes one of these changes it here too; a fresh database that is not sound fails a test.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from memoriale.adapters.postgres.migrate import migrations
from memoriale.adapters.postgres.roles import Role

SCHEMA: Final = "ledger"
POLICY: Final = "tenant_only"
POLICY_RULE: Final = (
    "((tenant = current_setting('ledger.tenant'::text, true)) AND (tenant <> ''::text))"
)

_READERS: Final = (Role.READ, Role.PROJECT)
_ROW: Final = "FOR EACH ROW EXECUTE FUNCTION ledger.refuse_change()"
_NEVER_CHANGED: Final = f"BEFORE DELETE OR UPDATE ON {{table}} {_ROW}"
_NEVER_TRUNCATED: Final = (
    "BEFORE TRUNCATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change()"
)
_ONLY_GROWS: Final = (
    "BEFORE UPDATE ON {table} FOR EACH ROW WHEN (((new.tenant <> old.tenant)"
    " OR (new.log_id <> old.log_id) OR (new.next <= old.next)"
    " OR (new.last_recorded_at IS NULL) OR (new.last_recorded_at <= old.last_recorded_at)))"
    " EXECUTE FUNCTION ledger.refuse_change()"
)
_APPEND_ONLY: Final = {"append_only": _NEVER_CHANGED, "never_truncated": _NEVER_TRUNCATED}


@dataclass(frozen=True, slots=True)
class TableRule:
    """
    How one table is protected; a partition of it in the same way.

    Args:
        readers: Roles that may select.
        triggers: By name, as PostgreSQL prints them; each enabled ALWAYS.
        column: A column that every row has.
        by_tenant: Whether row security closes it but for one tenant.
        writers: What is granted besides, and to whom; only where nothing of the record stands.
    """

    readers: tuple[Role, ...]
    triggers: dict[str, str]
    column: str = "tenant"
    by_tenant: bool = True
    writers: Mapping[str, tuple[Role, ...]] = field(default_factory=dict)


TABLES: Final = {
    "ledger_events": TableRule(_READERS, _APPEND_ONLY),
    "ledger_heads": TableRule(
        _READERS,
        {
            "append_only": f"BEFORE DELETE ON {{table}} {_ROW}",
            "only_grows": _ONLY_GROWS,
            "never_truncated": _NEVER_TRUNCATED,
        },
    ),
    "ledger_logs": TableRule(_READERS, _APPEND_ONLY),
    # What it holds was folded from the log, and is thrown away at will.
    "ledger_owner_snapshots": TableRule(
        (*_READERS, Role.ERASE),
        {},
        writers={"INSERT": (Role.PROJECT,), "DELETE": (Role.PROJECT, Role.ERASE)},
    ),
    "ledger_probe": TableRule(_READERS, _APPEND_ONLY),
    # It repeats columns of the events and can be built anew.
    "ledger_subjects": TableRule(_READERS, {}),
    "migrations": TableRule(
        (*_READERS, Role.ERASE, Role.ADMIN), {}, column="version", by_tenant=False
    ),
}

EXECUTE: Final[dict[str, tuple[Role, ...]]] = {
    "open_log": (Role.APPEND,),
    "append": (Role.APPEND,),
    "begin_incarnation": (Role.ADMIN,),
}
"""Functions that a role may call; no other function is for anybody but the owner."""

USAGE: Final = tuple(role for role in Role if role is not Role.OWNER)
"""Roles that may look into the schema."""

_FUNCTION: Final = re.compile(
    r"CREATE (?:OR REPLACE )?FUNCTION (\w+)\s*\(|DROP FUNCTION (?:IF EXISTS )?(\w+)"
)
_PARTS: Final = re.compile(r"\bLANGUAGE (\w+)(.*?)\bAS (\$\w*\$)(.*?)\3", re.DOTALL)
_SET: Final = re.compile(r"\bSET (\w+) = (.+?)(?=\s+SET\b|\s*$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FunctionRule:
    """A function as the last migration that made it wrote it."""

    migration: str
    language: str
    definer: bool
    settings: frozenset[str]
    body: str


def functions() -> dict[str, FunctionRule]:
    """The functions of the schema by name, read from the migrations of this release."""
    found: dict[str, FunctionRule] = {}
    for step in migrations():
        for match in _FUNCTION.finditer(step.sql):
            made, dropped = match.groups()
            if dropped:
                found.pop(dropped, None)
                continue
            parts = _PARTS.search(step.sql, match.end())
            if parts is None:
                raise AssertionError(f"migration {step.name} has a function without a body")
            language, options, _, body = parts.groups()
            found[made] = FunctionRule(
                migration=f"{step.version:04}_{step.name}",
                language=language,
                definer="SECURITY DEFINER" in options,
                settings=frozenset(f"{name}={value}" for name, value in _SET.findall(options)),
                body=body,
            )
    return found


def listed(findings: Iterable[str], most: int = 12) -> str:
    """Findings in one line; of many the first ones and how many there are."""
    found = list(findings)
    more = f"; and {len(found) - most} more" if len(found) > most else ""
    return "; ".join(found[:most]) + more
