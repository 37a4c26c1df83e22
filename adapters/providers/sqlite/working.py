"""Working memory in a file of SQLite."""

import json
import os
from collections.abc import Hashable
from types import TracebackType
from typing import Self

from pydantic import JsonValue

from memoriale.adapters.providers.in_memory import not_empty
from memoriale.adapters.providers.sqlite.file import SQLiteFile
from memoriale.domain.resources.limits import (
    BOOKKEEPING,
    PAGE,
    check_after,
    check_key,
    check_page,
    check_value,
)
from memoriale.domain.resources.providers import WorkingPage
from memoriale.domain.resources.ref import ResourceRef
from memoriale.domain.text import check_tenant

_OWN = "tenant = ? and scope = ?"
# Of the keys in their order, those before and after the ones of bookkeeping.
_ORDINARY = f"substr(key, 1, {len(BOOKKEEPING)}) <> '{BOOKKEEPING}'"


class SQLiteWorkingMemoryProvider:
    """
    Working memory in a file that several processes may share (reference system C,
    ``SQLiteWorkingMemoryProvider``).

    Args:
        path: The file; made when it is not there.
        tenant: Whose resources are meant; another tenant of the same file sees nothing of them.

    Raises:
        UnavailableError: The file cannot be used.
    """

    def __init__(self, path: str | os.PathLike[str], *, tenant: str) -> None:
        self.tenant = check_tenant(tenant)
        self._file = SQLiteFile(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def get(self, ref: ResourceRef, key: str, default: JsonValue = None) -> JsonValue:
        """The value of a key, or the default."""
        check_key(key)
        with self._file.reading() as connection:
            found = connection.execute(
                f"select value from memoriale_working where {_OWN} and key = ?",
                (self.tenant, ref.key, key),
            ).fetchone()
        return default if found is None else json.loads(found["value"])

    def set(self, ref: ResourceRef, key: str, value: JsonValue) -> None:
        """Sets a key, whether it is there or not; stored on the disk when it returns."""
        check_key(key)
        text = json.dumps(check_value(value), ensure_ascii=False)
        with self._file.writing() as connection:
            connection.execute(
                "insert into memoriale_working (tenant, scope, key, value) values (?, ?, ?, ?) "
                "on conflict do update set value = excluded.value, inherited_from = null",
                (self.tenant, ref.key, key, text),
            )

    def list(self, ref: ResourceRef, *, after: str | None = None, limit: int = PAGE) -> WorkingPage:
        """Keys after one, in the order of their UTF-8 bytes; bookkeeping is left out."""
        after, limit = check_after(after), check_page(limit)
        with self._file.reading() as connection:
            rows = connection.execute(
                f"select key, value from memoriale_working where {_OWN} and key > ? "
                f"and {_ORDINARY} order by key limit ?",
                (self.tenant, ref.key, after or "", limit + 1),
            ).fetchall()
        page = {row["key"]: json.loads(row["value"]) for row in rows[:limit]}
        return WorkingPage(page, rows[limit - 1]["key"] if len(rows) > limit else None)

    def delete(self, ref: ResourceRef, key: str) -> bool:
        """Removes a key; whether it was there."""
        check_key(key)
        with self._file.writing() as connection:
            done = connection.execute(
                f"delete from memoriale_working where {_OWN} and key = ?",
                (self.tenant, ref.key, key),
            )
        return done.rowcount == 1

    @property
    def forked_with(self) -> Hashable:
        """Itself alone."""
        return id(self)

    def fork(self, parent: ResourceRef, child: ResourceRef) -> None:
        """Copies the parent's keys, in one transaction, to a child that has none."""
        with self._file.writing() as connection:
            if connection.execute(
                f"select 1 from memoriale_working where {_OWN} and {_ORDINARY}",
                (self.tenant, child.key),
            ).fetchone():
                raise not_empty(child)
            connection.execute(
                "insert into memoriale_working (tenant, scope, key, value, inherited_from) "
                f"select tenant, ?, key, value, scope from memoriale_working "
                f"where {_OWN} and {_ORDINARY}",
                (child.key, self.tenant, parent.key),
            )

    def inherited(self, parent: ResourceRef, child: ResourceRef) -> int:
        """How many keys the child has as it got them from the parent."""
        with self._file.reading() as connection:
            found = connection.execute(
                f"select count(*) from memoriale_working where {_OWN} and inherited_from = ?",
                (self.tenant, child.key, parent.key),
            ).fetchone()
        return int(found[0])

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
