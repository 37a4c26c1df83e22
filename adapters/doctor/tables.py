"""The tables of the ledger as they are in the database, partitions among them."""

from dataclasses import dataclass
from typing import Final

from memoriale.adapters.doctor.declared import TABLES, TableRule
from memoriale.adapters.doctor.sessions import Catalogue

FAMILY: Final = (
    "WITH RECURSIVE family AS ("
    " SELECT c.oid, c.oid AS root FROM pg_class c"
    " WHERE c.relnamespace = 'ledger'::regnamespace AND c.relkind IN ('r', 'p', 'f')"
    " AND NOT EXISTS (SELECT FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent"
    " WHERE i.inhrelid = c.oid AND p.relnamespace = 'ledger'::regnamespace)"
    " UNION SELECT i.inhrelid, f.root FROM family f JOIN pg_inherits i ON i.inhparent = f.oid) "
)
"""Tables of the schema, and whatever inherits from one, wherever it lies."""

_TABLES: Final = (
    FAMILY + "SELECT c.oid, c.oid::regclass::text, r.relname, c.relispartition,"
    " c.relowner::regrole::text, c.relrowsecurity, c.relforcerowsecurity,"
    " c.relpersistence = 'p' AND c.relkind IN ('r', 'p')"
    " FROM family f JOIN pg_class c ON c.oid = f.oid JOIN pg_class r ON r.oid = f.root"
    " ORDER BY 3, 2"
)


@dataclass(frozen=True, slots=True)
class Table:
    """
    One table.

    Args:
        oid: Its number in the catalogue.
        name: With its schema.
        root: The table of the schema that it is, or is a part of.
        partition: Whether it is a partition.
        owner: Who owns it.
        row_security: Whether row security is enabled.
        forced: Whether it binds the owner too.
        durable: Whether it is an ordinary, logged table.
    """

    oid: int
    name: str
    root: str
    partition: bool
    owner: str
    row_security: bool
    forced: bool
    durable: bool

    @property
    def rule(self) -> TableRule | None:
        """How it is to be protected; None for one that no migration made."""
        return TABLES.get(self.root)

    @property
    def is_root(self) -> bool:
        """Whether it is the table itself, not a part of it."""
        return self.name == f"ledger.{self.root}"


def tables(catalogue: Catalogue) -> list[Table]:
    """The tables of the schema and their parts."""
    return [Table(*row) for row in catalogue.rows(_TABLES)]
