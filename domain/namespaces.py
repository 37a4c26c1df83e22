"""Hierarchical paths such as ``org/team/project``, and keys of a scope."""

from typing import Self

from memoriale.domain.errors import InputError
from memoriale.domain.record import MAX_NAMESPACE_DEPTH


def normalise_path(path: str) -> str:
    """
    A path without empty segments: ``/org//team/`` is ``org/team``.

    Raises:
        InputError: No segment is left, or there are more than 32.
    """
    segments = [segment for segment in path.split("/") if segment]
    if not 1 <= len(segments) <= MAX_NAMESPACE_DEPTH:
        raise InputError(
            f"namespace {path[:80]!r} has {len(segments)} segments; give 1 to "
            f"{MAX_NAMESPACE_DEPTH}, such as org/team.",
            code="bad_namespace",
            field="namespace",
            value=path[:80],
            allowed=f"1 to {MAX_NAMESPACE_DEPTH} segments",
        )
    return "/".join(segments)


class MemoryScope(str):
    """
    A path in its normal form: ``MemoryScope("/org//team/")`` is ``org/team``. It is a text, so
    that it can be given wherever a namespace is.

    Raises:
        InputError: No segment is left, or there are more than 32.
    """

    __slots__ = ()

    def __new__(cls, path: str) -> Self:
        return super().__new__(cls, normalise_path(path))

    @property
    def path(self) -> str:
        """The path as a plain text."""
        return str(self)

    def ancestors(self) -> list["MemoryScope"]:
        """Every path at which memories are visible from here, shortest first, itself the last."""
        return [MemoryScope(path) for path in resolve_scope(self)]

    def matches(self, query: str) -> bool:
        """Whether a memory that is stored here is visible from a path."""
        return scope_matches(self, query)


def resolve_scope(path: str) -> list[str]:
    """
    Every prefix of a path, shortest first, the path itself included.

    ``org/team/project`` gives ``org``, ``org/team``, ``org/team/project``; empty segments
    vanish, and an empty path gives an empty list (reference system A, ``resolveScope``).
    """
    segments = [segment for segment in path.split("/") if segment]
    return ["/".join(segments[: depth + 1]) for depth in range(len(segments))]


def is_ancestor(parent: str, child: str) -> bool:
    """
    Whether ``child`` is ``parent`` or lies below it, by whole segments: ``org`` is no ancestor
    of ``organ`` (reference system A, ``isAncestor``, but with paths normalised first, so
    ``org/`` and ``org`` are one). An empty path is nobody's ancestor.
    """
    above, below = resolve_scope(parent), resolve_scope(child)
    return bool(above) and below[: len(above)] == above


def scope_matches(stored: str, query: str) -> bool:
    """
    Whether a memory stored at one path is visible from another: broad ones are visible to
    narrower queries, never the reverse (reference system A, ``scopeMatches``).
    """
    return is_ancestor(stored, query)


def scope_key(resource: str, team: str | None = None) -> str:
    r"""
    One key for a resource, of a team if one is given: ``team:resource`` with ``\`` and ``:``
    escaped in each part, so that no two scopes share a key (reference system C, ``scopeKey``).
    An empty team is no team.
    """
    parts = [team, resource] if team else [resource]
    return ":".join(part.replace("\\", "\\\\").replace(":", "\\:") for part in parts)
