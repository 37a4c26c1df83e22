"""Who calls: identities, the acting person, rights, and ids that are never parsed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoriale.domain.errors import InputError, MissingRightError
from memoriale.domain.keys import Subject
from memoriale.domain.kinds import OWNER_TYPES
from memoriale.domain.principal import ALL_RIGHTS, Principal, Right, parse_rights

HOSTILE = [
    "' OR 1=1 --",
    "alice'; DROP TABLE ledger_events; --",
    "../../etc/passwd",
    "%_*?[]",
    "{{7*7}} ${x} $& $'",
    "team:resource\\",
    "\u202ecila",
    "а\u0301lice",
    "line\nbreak\ttab",
    " alice ",
    "ALICE",
    "null",
    "日本語 👩‍👩‍👧",
]
IDS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=20
).filter(lambda text: text.strip() != "")


def test_a_tenant_alone_is_a_principal() -> None:
    """A principal with nothing but a tenant owns nothing, and acts as the tenant."""
    principal = Principal(tenant="acme")
    assert principal.identities() == []
    assert principal.acting() == Subject("tenant", "acme")
    assert principal.identity("tenant") == Subject("tenant", "acme")


@pytest.mark.parametrize("tenant", ["", " ", "_global", "_deployment", "a b", None, 5, "x" * 65])
def test_a_principal_needs_a_tenant_of_its_own(tenant: Any) -> None:
    """A missing, malformed or reserved tenant is refused."""
    with pytest.raises(InputError) as refused:
        Principal(tenant=tenant)
    assert refused.value.field == "tenant"


def test_identities_are_all_owners_that_the_caller_is() -> None:
    """The caller is its user, agent, resource, session and team, and every further team, once."""
    principal = Principal(
        tenant="acme",
        user="alice",
        agent="support",
        resource="repo",
        session="s1",
        team="red",
        teams=("blue", "red"),
    )
    assert principal.identities() == [
        Subject("user", "alice"),
        Subject("agent", "support"),
        Subject("resource", "red:repo"),
        Subject("session", "s1"),
        Subject("team", "red"),
        Subject("team", "blue"),
    ]


@pytest.mark.parametrize("type_", OWNER_TYPES)
def test_an_identity_that_is_not_there_is_none(type_: str) -> None:
    """A principal is only what it names."""
    others = {name: "x" for name in OWNER_TYPES if name != type_}
    assert Principal(tenant="acme", **others).identity(type_) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("resource", "team", "id_"),
    [("repo", None, "repo"), ("repo", "red", "red:repo"), ("a:b", None, r"a\:b")],
)
def test_a_resource_lies_within_its_team(resource: str, team: str | None, id_: str) -> None:
    """A resource's id is its scope key, so one name in two teams is two owners."""
    principal = Principal(tenant="acme", resource=resource, team=team)
    assert principal.identity("resource") == Subject("resource", id_)


def test_a_resource_of_another_team_is_another_owner() -> None:
    """Further teams that may be read do not move a resource into them."""
    own = Principal(tenant="acme", resource="repo", team="red", teams=("blue",))
    assert Subject("resource", "blue:repo") not in own.identities()


def test_a_scope_key_over_256_bytes_is_refused() -> None:
    """A resource and its team together must still be an outside id."""
    with pytest.raises(InputError) as refused:
        Principal(tenant="acme", resource="r" * 200, team="t" * 200)
    assert (refused.value.code, refused.value.field) == ("too_long", "resource")


def test_the_first_identity_acts() -> None:
    """Without an actor the agent acts, else the user, the resource, the session, the team."""
    order = ["agent", "user", "resource", "session", "team"]
    given_: dict[str, Any] = {name: name[0] for name in OWNER_TYPES}
    acting = []
    for name in order:
        acting.append(Principal(tenant="acme", **given_).acting().type)
        del given_[name]
    assert acting == order


@pytest.mark.parametrize("kind", ["user", "agent", "service"])
def test_a_given_actor_acts(kind: str) -> None:
    """An actor that is named acts in place of the user, as the type that is said."""
    principal = Principal(tenant="acme", user="alice", actor="bob", actor_kind=kind)
    assert principal.acting() == Subject(kind, "bob")
    assert Subject(kind, "bob") not in principal.identities()


@pytest.mark.parametrize("kind", ["tenant", "", "User", None, ["user"]])
def test_other_kinds_of_actor_are_refused(kind: Any) -> None:
    """An actor is a user, an agent or a service."""
    with pytest.raises(InputError) as refused:
        Principal(tenant="acme", actor="bob", actor_kind=kind)
    error = refused.value
    assert (error.code, error.field) == ("bad_value", "actor_kind")
    assert error.allowed == ["user", "agent", "service"]


@pytest.mark.parametrize("id_", HOSTILE)
@pytest.mark.parametrize("name", [*OWNER_TYPES, "actor", "on_behalf_of"])
def test_hostile_ids_stay_what_they_are(name: str, id_: str) -> None:
    """An id is opaque: kept as given, whatever it looks like."""
    principal = Principal(tenant="acme", **{name: id_})  # type: ignore[arg-type]
    assert getattr(principal, name) == id_


@given(IDS, IDS)
def test_two_ids_are_two_persons(one: str, other: str) -> None:
    """Two ids that differ in any byte are two identities."""
    same = Principal(tenant="acme", user=one).identities() == (
        Principal(tenant="acme", user=other).identities()
    )
    assert same == (one == other)


@pytest.mark.parametrize("id_", ["", " ", "a\x00", "\ud800", "é" * 129, 5, b"alice", ["alice"]])
@pytest.mark.parametrize("name", [*OWNER_TYPES, "actor", "on_behalf_of"])
def test_what_is_no_id_is_refused_by_name(name: str, id_: Any) -> None:
    """An empty, over-long, unstorable or non-text id is refused under its name."""
    with pytest.raises(InputError) as refused:
        Principal(tenant="acme", **{name: id_})
    error = refused.value
    assert error.field == name
    assert error.value is not None
    assert error.allowed is not None


@pytest.mark.parametrize("teams", ["red", ("red", ""), (5,), None, 5])
def test_teams_are_several_ids(teams: Any) -> None:
    """Teams are a list of ids; a text is not taken apart into its letters."""
    with pytest.raises(InputError) as refused:
        Principal(tenant="acme", teams=teams)
    assert refused.value.field == "teams"


@pytest.mark.parametrize("name", ["purpose", "authentication"])
@pytest.mark.parametrize("value", ["", "free text", "é", "x" * 65, 5])
def test_what_is_stored_in_clear_is_a_code(name: str, value: Any) -> None:
    """Purpose and authentication are codes, because they are stored in clear."""
    with pytest.raises(InputError) as refused:
        Principal(tenant="acme", **{name: value})
    assert (refused.value.code, refused.value.field) == ("bad_name", name)


def test_a_namespace_is_normalised() -> None:
    """Empty segments of the principal's namespace vanish."""
    assert Principal(tenant="acme", namespace="/org//team/").namespace == "org/team"


@pytest.mark.parametrize("namespace", ["", "///", "a\x00", "/".join("a" * 33), 5])
def test_a_namespace_that_is_no_path_is_refused(namespace: Any) -> None:
    """A namespace has 1 to 32 segments of storable text."""
    with pytest.raises(InputError) as refused:
        Principal(tenant="acme", namespace=namespace)
    assert refused.value.field == "namespace"


def test_a_principal_is_changed_by_making_another() -> None:
    """Other values are checked like the first ones, and the old principal stays."""
    alice = Principal(tenant="acme", user="alice")
    bob = alice.with_(user="bob")
    assert (alice.user, bob.user, bob.tenant) == ("alice", "bob", "acme")
    with pytest.raises(InputError):
        alice.with_(user="")


def test_the_embedded_default_has_every_right() -> None:
    """A principal that says nothing about rights has all of them."""
    principal = Principal(tenant="acme")
    assert principal.rights == ALL_RIGHTS == frozenset(Right)
    principal.require(*Right)


@pytest.mark.parametrize("missing", list(Right))
def test_a_missing_right_is_named(missing: Right) -> None:
    """A call without a right that it needs is refused, and the error names that right."""
    principal = Principal(tenant="acme", rights=ALL_RIGHTS - {missing})
    principal.require(*(right for right in Right if right is not missing))
    with pytest.raises(MissingRightError) as refused:
        principal.require(Right.USE, missing)
    error = refused.value
    assert (error.exit_code, error.field, error.allowed) == (3, "rights", missing.value)
    assert error.value == sorted(right.value for right in principal.rights)


def test_no_rights_are_no_rights() -> None:
    """An empty set of rights allows nothing, not everything."""
    with pytest.raises(MissingRightError):
        Principal(tenant="acme", rights=frozenset()).require(Right.USE)


@pytest.mark.parametrize("rights", [{"root"}, {"USE"}, "use", None, {5}])
def test_a_principal_carries_known_rights_alone(rights: Any) -> None:
    """Rights that do not exist, or are no set of rights, are refused when the principal is made."""
    with pytest.raises(InputError) as refused:
        Principal(tenant="acme", rights=rights)
    assert refused.value.field == "rights"


def test_rights_are_read_by_name() -> None:
    """Rights are given by name or as themselves, in any iterable."""
    assert parse_rights(["use", Right.AUDIT]) == {Right.USE, Right.AUDIT}
    assert parse_rights(name for name in ("use", "audit")) == {Right.USE, Right.AUDIT}
    assert parse_rights([]) == frozenset()


@pytest.mark.parametrize("name", ["root", "", "USE", 5, None, "x" * 5000])
def test_an_unknown_right_is_refused_with_the_known_ones(name: Any) -> None:
    """A right that does not exist is refused, with the list of those that do."""
    with pytest.raises(InputError) as refused:
        parse_rights(["use", name])
    error = refused.value
    assert (error.code, error.field) == ("unknown_right", "rights")
    assert error.allowed == [right.value for right in Right]
    assert len(error.message) < 300
