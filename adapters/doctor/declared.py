"""
What the migrations leave behind: who may do what, and what guards each table. A migration that
changes one of these changes it here too; a fresh database that is not sound fails a test.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
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


UniqueKey = tuple[str, str]
"""Columns as in its definition, and its condition; empty for one over all rows."""


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
        keys: Its unique keys: columns, and the condition of a partial one.
        checks: Names of its CHECK constraints.
    """

    readers: tuple[Role, ...]
    triggers: dict[str, str]
    column: str = "tenant"
    by_tenant: bool = True
    writers: Mapping[str, tuple[Role, ...]] = field(default_factory=dict)
    keys: frozenset[UniqueKey] = frozenset()
    checks: frozenset[str] = frozenset()


def _keys(*columns: str, idempotency: bool = False) -> frozenset[UniqueKey]:
    partial = [("tenant, log_id, owner, idempotency_tag", "(idempotency_tag IS NOT NULL)")]
    return frozenset([*((one, "") for one in columns), *(partial if idempotency else [])])


def _checked(table: str, *columns: str) -> frozenset[str]:
    return frozenset(f"{table}_{column}_check" for column in columns)


_EVENT_CHECKS: Final = (
    "about_list clear_words finite_times known_visibility namespace_tags_list place sizes versions"
    " words_not_empty"
)
TABLES: Final = {
    "ledger_events": TableRule(
        _READERS,
        _APPEND_ONLY,
        keys=_keys(
            "tenant, log_id, index",
            "tenant, log_id, event_id",
            "tenant, log_id, stream_id, stream_version",
            idempotency=True,
        ),
        checks=frozenset(_EVENT_CHECKS.split()),
    ),
    "ledger_heads": TableRule(
        _READERS,
        {
            "append_only": f"BEFORE DELETE ON {{table}} {_ROW}",
            "only_grows": _ONLY_GROWS,
            "never_truncated": _NEVER_TRUNCATED,
        },
        keys=_keys("tenant, log_id"),
        checks=_checked("ledger_heads", "last_recorded_at", "next", "tenant"),
    ),
    "ledger_logs": TableRule(
        _READERS,
        _APPEND_ONLY,
        keys=_keys("tenant, log_kind, incarnation", "tenant, log_id, incarnation"),
        checks=_checked("ledger_logs", "created_at", "incarnation", "log_kind", "tenant"),
    ),
    # What it holds was folded from the log, and is thrown away at will.
    "ledger_owner_snapshots": TableRule(
        (*_READERS, Role.ERASE),
        {},
        writers={"INSERT": (Role.PROJECT,), "DELETE": (Role.PROJECT, Role.ERASE)},
        keys=_keys("tenant, log_id, owner, kind, branch, fold_version, index"),
        checks=_checked("ledger_owner_snapshots", "index", "tenant"),
    ),
    "ledger_probe": TableRule(
        _READERS,
        _APPEND_ONLY,
        keys=_keys("tenant"),
        checks=_checked("ledger_probe", "tenant"),
    ),
    # It repeats columns of the events and can be built anew.
    "ledger_subjects": TableRule(
        _READERS,
        {},
        keys=_keys("tenant, log_id, subject, index"),
        checks=_checked("ledger_subjects", "index", "tenant"),
    ),
    "migrations": TableRule(
        (*_READERS, Role.ERASE, Role.ADMIN),
        {},
        column="version",
        by_tenant=False,
        keys=_keys("version"),
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
    r"|ALTER FUNCTION (\w+)[^;]*?\bSET (\w+) = (\w+)"
)
_PARTS: Final = re.compile(r"\bLANGUAGE (\w+)(.*?)\bAS (\$\w*\$)(.*?)\3", re.DOTALL)
_SET: Final = re.compile(r"\bSET (\w+) = (.+?)(?=\s+SET\b|\s*$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FunctionRule:
    """A function as the last migration that made or altered it left it."""

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
            made, dropped, altered, setting, value = match.groups()
            if dropped:
                found.pop(dropped, None)
                continue
            name = f"{step.version:04}_{step.name}"
            if altered:
                before = found[altered]
                kept = {each for each in before.settings if not each.startswith(f"{setting}=")}
                settings = frozenset({*kept, f"{setting}={value}"})
                found[altered] = replace(before, migration=name, settings=settings)
                continue
            parts = _PARTS.search(step.sql, match.end())
            if parts is None:
                raise AssertionError(f"migration {step.name} has a function without a body")
            language, options, _, body = parts.groups()
            found[made] = FunctionRule(
                migration=name,
                language=language,
                definer="SECURITY DEFINER" in options,
                settings=frozenset(map("=".join, _SET.findall(options))),
                body=body,
            )
    return found


def listed(findings: Iterable[str], most: int = 12) -> str:
    """Findings in one line; of many the first ones and how many there are."""
    found = list(findings)
    more = f"; and {len(found) - most} more" if len(found) > most else ""
    return "; ".join(found[:most]) + more
