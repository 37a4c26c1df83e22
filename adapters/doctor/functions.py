"""The check of the functions: they are what the migrations made."""

from collections.abc import Iterator
from typing import Any, Final

from memoriale.adapters.composition import Infrastructure, Tenant
from memoriale.adapters.doctor.checks import Check
from memoriale.adapters.doctor.declared import FunctionRule, listed
from memoriale.adapters.doctor.declared import functions as declared
from memoriale.adapters.doctor.sessions import catalogue

SEARCH_PATH: Final = "search_path=ledger, pg_temp"
_FUNCTIONS: Final = (
    "SELECT p.proname::text, l.lanname::text, p.prosecdef, coalesce(p.proconfig, '{}'), p.prosrc,"
    " p.prokind::text FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang"
    " WHERE p.pronamespace = 'ledger'::regnamespace ORDER BY p.oid"
)


def functions(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """Bodies, rights and settings of the functions are those of the migrations; no other is
    there."""
    with catalogue(infrastructure) as read:
        rows = read.rows(_FUNCTIONS)
    wanted = declared()
    wrong = list(_wrong(rows, wanted))
    if wrong:
        todo = "see who changed it, then restore it as in the migrations"
        return Check.failed("functions", f"{listed(wrong)}; {todo}")
    return Check.passed("functions", f"{len(rows)}, each as its migration wrote it")


def _wrong(rows: list[tuple[Any, ...]], wanted: dict[str, FunctionRule]) -> Iterator[str]:
    seen: set[str] = set()
    for name, language, definer, settings, body, kind in rows:
        shown = f"ledger.{name}"
        if SEARCH_PATH not in settings:
            yield f"{shown} does not pin its search_path"
        rule = wanted.get(name)
        if rule is None or name in seen:
            rights = "with the rights of its owner" if definer else "with the caller's rights"
            yield f"a function {shown} that is not of the ledger runs {rights}"
        elif body != rule.body or (language, kind) != (rule.language, "f"):
            yield f"the body of {shown} differs from migration {rule.migration}"
        elif definer is not rule.definer or frozenset(settings) != rule.settings:
            yield f"SECURITY or SET of {shown} differs from migration {rule.migration}"
        seen.add(name)
    yield from (f"ledger.{name} is missing" for name in wanted if name not in seen)
