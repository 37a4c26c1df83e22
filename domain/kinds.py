"""The table of kinds of memory: who owns one by default and whether recall finds it."""

from dataclasses import dataclass
from typing import Final

from memoriale.domain.errors import InputError
from memoriale.domain.text import check_code, shown

OWNER_TYPES: Final = ("user", "agent", "resource", "session", "team")
"""Types of owner that a principal can be, in the order of preference."""
RESERVED_KINDS: Final = frozenset({"branch", "session", "job", "hold", "retention", "request"})
"""Names that events other than memories carry in the kind column."""


@dataclass(frozen=True, slots=True)
class Kind:
    """
    One row of the table of kinds.

    Args:
        name: Stored in clear in every event of the kind.
        owners: Types that own one by default, the first that the caller has.
        recalled: Whether recall finds memories of this kind.
        follow_up: Type of the job that is asked for with each memory of this kind that was not
            made by its store.
    """

    name: str
    owners: tuple[str, ...]
    recalled: bool = True
    follow_up: str | None = None


class KindTable:
    """The kinds that this process knows. Programs add their own at start."""

    def __init__(self) -> None:
        self._kinds: dict[str, Kind] = {}

    def register(self, kind: Kind) -> None:
        """
        Adds a kind.

        Raises:
            InputError: The name cannot be stored in clear, is reserved, or is taken by another
                row; or an owner's type is not known.
        """
        check_code("kind", kind.name)
        if not kind.owners or not set(kind.owners) <= set(OWNER_TYPES):
            raise InputError(
                f"kind {kind.name!r} needs owners of the types {', '.join(OWNER_TYPES)}.",
                code="bad_value",
                field="owners",
                value=shown(kind.owners),
                allowed=list(OWNER_TYPES),
            )
        if kind.name in RESERVED_KINDS or self._kinds.setdefault(kind.name, kind) != kind:
            raise InputError(
                f"kind {kind.name!r} is registered already; choose another name.",
                code="taken",
                field="kind",
                value=kind.name,
            )

    def require(self, name: str) -> Kind:
        """
        The row of a kind.

        Raises:
            InputError: ``unknown_kind``, with the list of known ones.
        """
        if isinstance(name, str) and name in self._kinds:
            return self._kinds[name]
        raise InputError(
            f"unknown kind {shown(name)!r}; known are {', '.join(self.names())}.",
            code="unknown_kind",
            field="kind",
            value=shown(name),
            allowed=self.names(),
        )

    def names(self) -> list[str]:
        """Known kinds in the order of registration."""
        return list(self._kinds)


_TABLE: Final = (
    Kind("note", ("user", "resource", "session", "agent")),
    Kind("fact", ("user",)),
    Kind("message", ("resource", "session", "user")),
    Kind("profile_field", ("user",), recalled=False),
    Kind("entity", ("user",)),
    Kind("entity_fact", ("user",)),
    Kind("entity_event", ("user",)),
    Kind("relationship", ("user",)),
    Kind("decision", ("agent", "session")),
    Kind("learning", ("user", "agent")),
    Kind("correction", ("agent", "user"), follow_up="learnings.retire_contradicted"),
    Kind("procedure", ("user", "agent"), recalled=False),
    Kind("summary", ("session",), recalled=False),
    Kind("file_entry", ("agent", "user"), recalled=False),
    Kind("node", ("user",)),
    Kind("edge", ("user",)),
    Kind("working", ("resource",), recalled=False),
    Kind("semantic", ("resource",)),
    Kind("item", ("user", "agent")),
)

KINDS: Final = KindTable()
for _kind in _TABLE:
    KINDS.register(_kind)
