"""Facts out of a provider's rows, for those who bring their own."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from memoriale.domain.errors import InputError
from memoriale.domain.resources.facts import RememberedFact, SourceRef, Verification
from memoriale.domain.text import shown
from memoriale.domain.times import parse_time, to_utc

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def fact_from_row(row: Mapping[str, Any], *, score: float | None = None) -> RememberedFact:
    """
    The fact of a row (reference system C, ``factFromRow``).

    Nothing was looked up in a ledger, so a fact with a source is ``unchecked``, never verified.

    Args:
        row: ``id``, ``content``, ``remembered_at`` (an aware time, RFC 3339 text, or
            milliseconds since 1970) and, where they are known, ``source_sandbox_id`` with
            ``source_entry_index``, and ``evidence``. Other columns are ignored.
        score: How well it answers, 0..1.

    Raises:
        InputError: A column is missing or holds something else.
    """
    columns = _columns(row)
    missing = [name for name in ("id", "content", "remembered_at") if name not in columns]
    if missing:
        raise InputError(
            f"the row has no column {missing[0]}.",
            code="missing",
            field=missing[0],
            allowed="id, content, remembered_at, source_sandbox_id, source_entry_index, evidence",
        )
    source = _source(row)
    return RememberedFact(
        id=str(row["id"]),
        content=row["content"],
        source_ref=source,
        evidence=_column(row, "evidence"),
        remembered_at=_time(row["remembered_at"]),
        verification=Verification.UNCHECKED if source else Verification.UNSOURCED,
        score=score,
    )


def _source(row: Mapping[str, Any]) -> SourceRef | None:
    sandbox, index = _column(row, "source_sandbox_id"), _column(row, "source_entry_index")
    if (sandbox is None) != (index is None):
        absent = "source_sandbox_id" if sandbox is None else "source_entry_index"
        raise InputError(
            f"the row has half a source: {absent} is missing.", code="missing", field=absent
        )
    return None if sandbox is None else SourceRef(sandbox, index)


def _column(row: Mapping[str, Any], name: str) -> Any:
    return row[name] if name in _columns(row) else None


def _columns(row: Mapping[str, Any]) -> set[str]:
    # Asked for by name: rows of sqlite3 iterate over their values.
    return set(row.keys())


def _time(value: Any) -> datetime:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return _EPOCH + timedelta(milliseconds=value)
        except (OverflowError, ValueError):
            raise InputError(
                f"remembered_at is {shown(value)}; give milliseconds since 1970.",
                code="bad_time",
                field="remembered_at",
                value=shown(value),
            ) from None
    return to_utc(parse_time("remembered_at", value))
