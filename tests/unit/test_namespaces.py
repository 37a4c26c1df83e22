"""Paths and scope keys: whole segments, one key for each scope."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoriale.domain.errors import InputError
from memoriale.domain.namespaces import (
    MemoryScope,
    is_ancestor,
    normalise_path,
    resolve_scope,
    scope_key,
    scope_matches,
)
from memoriale.domain.record import MAX_NAMESPACE_DEPTH

SEGMENTS = st.lists(st.text("abo-. \\:", min_size=1, max_size=3), min_size=1, max_size=6)
PATHS = SEGMENTS.map("/".join)
UNTIDY = st.text("ao/", max_size=10)
PARTS = st.text(st.sampled_from("ab:\\") | st.characters(exclude_categories=["Cs"]), max_size=8)


@pytest.mark.parametrize(
    ("path", "prefixes"),
    [
        ("org/team/project", ["org", "org/team", "org/team/project"]),
        ("/org//team/", ["org", "org/team"]),
        ("org", ["org"]),
        ("", []),
        ("///", []),
    ],
)
def test_a_path_resolves_to_all_its_prefixes(path: str, prefixes: list[str]) -> None:
    """A path resolves to its prefixes, shortest first, without empty segments."""
    assert resolve_scope(path) == prefixes


@given(SEGMENTS)
def test_resolved_prefixes_grow_by_one_segment(segments: list[str]) -> None:
    """Prefix n holds the first n segments, so the last one is the path itself."""
    prefixes = resolve_scope("/".join(segments))
    assert [p.split("/") for p in prefixes] == [segments[: n + 1] for n in range(len(segments))]


@given(UNTIDY, UNTIDY)
def test_ancestors_are_exactly_the_resolved_prefixes(parent: str, child: str) -> None:
    """A path is an ancestor exactly when its tidy form is a prefix that the child resolves to."""
    tidy = resolve_scope(parent)
    assert is_ancestor(parent, child) == (bool(tidy) and tidy[-1] in resolve_scope(child))


@given(PATHS)
def test_every_path_is_its_own_ancestor(path: str) -> None:
    """A path lies at or below itself, with or without a trailing slash."""
    assert is_ancestor(path, path)
    assert is_ancestor(path + "/", path)


@given(UNTIDY, UNTIDY, UNTIDY)
def test_ancestry_is_transitive(first: str, second: str, third: str) -> None:
    """An ancestor of an ancestor is an ancestor."""
    if is_ancestor(first, second) and is_ancestor(second, third):
        assert is_ancestor(first, third)


@given(UNTIDY, UNTIDY)
def test_two_paths_that_are_ancestors_of_each_other_are_one(first: str, second: str) -> None:
    """Ancestry both ways means the same path."""
    if is_ancestor(first, second) and is_ancestor(second, first):
        assert resolve_scope(first) == resolve_scope(second)


@pytest.mark.parametrize(
    ("parent", "child"),
    [
        ("acme", "acme-corp"),
        ("acme-corp", "acme"),
        ("org", "organ"),
        ("org/team", "org/teams"),
        ("org/team", "org"),
        ("", "org"),
        ("/", "org"),
        ("org", ""),
        ("Org", "org"),
    ],
)
def test_siblings_and_empty_paths_are_no_ancestors(parent: str, child: str) -> None:
    """Ancestry goes by whole segments as given, and an empty path is nobody's ancestor."""
    assert not is_ancestor(parent, child)


def test_broad_memories_are_visible_from_narrow_queries_only() -> None:
    """A memory at org/team is visible from org/team/project, and not the reverse."""
    assert scope_matches("org/team", "org/team/project")
    assert not scope_matches("org/team/project", "org/team")


@given(UNTIDY.filter(lambda path: path.strip("/")))
def test_a_normalised_path_stays_as_it_is(path: str) -> None:
    """Normalising drops empty segments and nothing else, so doing it twice changes nothing."""
    once = normalise_path(path)
    assert once == resolve_scope(path)[-1] == normalise_path(once)


@pytest.mark.parametrize("path", ["", "/", "///", "/".join("a" * (MAX_NAMESPACE_DEPTH + 1))])
def test_a_path_has_1_to_32_segments(path: str) -> None:
    """A path without a segment, or with more than 32, is refused."""
    with pytest.raises(InputError) as refused:
        normalise_path(path)
    assert (refused.value.code, refused.value.field) == ("bad_namespace", "namespace")
    assert refused.value.value == path[:80]
    assert refused.value.allowed == "1 to 32 segments"


def test_32_segments_are_allowed() -> None:
    """The limit itself is allowed."""
    path = "/".join("a" * MAX_NAMESPACE_DEPTH)
    assert normalise_path(path) == path


@pytest.mark.parametrize(
    ("resource", "team", "key"),
    [
        ("r", None, "r"),
        ("r", "", "r"),
        ("r", "t", "t:r"),
        ("a:b", None, r"a\:b"),
        ("b", "a", "a:b"),
        ("r\\", "t\\", r"t\\:r\\"),
        (":", "\\", r"\\:\:"),
    ],
)
def test_a_scope_key_escapes_its_parts(resource: str, team: str | None, key: str) -> None:
    r"""Backslash and colon are escaped in each part, and an empty team is no team."""
    assert scope_key(resource, team) == key


@given(PARTS, PARTS | st.none(), PARTS, PARTS | st.none())
def test_no_two_scopes_share_a_key(
    resource: str, team: str | None, other: str, other_team: str | None
) -> None:
    """Equal keys mean the same resource of the same team."""
    same_scope = (resource, team or None) == (other, other_team or None)
    assert (scope_key(resource, team) == scope_key(other, other_team)) == same_scope


@given(st.lists(st.sampled_from([":", "\\", "a"]), max_size=5).map("".join))
def test_moving_the_colon_changes_the_key(text: str) -> None:
    """However a text is cut into team and resource, every cut has a key of its own."""
    cuts = {(text[:i], text[i:]) for i in range(1, len(text) + 1)} | {("", text)}
    assert len({scope_key(resource, team) for team, resource in cuts}) == len(cuts)


def test_a_scope_is_a_normal_path() -> None:
    """Equal paths are equal scopes, it knows what is above, and an empty one is refused."""
    scope = MemoryScope("/org//team/")
    assert (scope, scope.path) == ("org/team", "org/team")
    assert scope.ancestors() == ["org", "org/team"]
    assert scope.matches("org/team/project")
    assert not scope.matches("org")
    with pytest.raises(InputError) as refused:
        MemoryScope("//")
    assert refused.value.code == "bad_namespace"
