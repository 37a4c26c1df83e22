"""The table of kinds, and the payload model that each kind has."""

from collections.abc import Iterator
from copy import copy

import pytest
from pydantic import ValidationError

from memoriale.domain.errors import InputError
from memoriale.domain.events import RememberedBody
from memoriale.domain.kinds import KINDS, RESERVED_KINDS, Kind, KindTable
from memoriale.domain.payloads import (
    Fact,
    Message,
    Note,
    Payload,
    payload_model,
    register_payload,
)
from memoriale.domain.payloads import base as payloads


class Recipe(Payload):
    """A kind that a program adds for itself."""

    servings: int | None = None


@pytest.fixture
def own_kind() -> Iterator[Kind]:
    """The kind ``recipe``, known for one test."""
    kinds, models = copy(KINDS._kinds), copy(payloads._MODELS)
    kind = Kind("recipe", ("user", "team"))
    KINDS.register(kind)
    yield kind
    KINDS._kinds = kinds
    payloads._MODELS.clear()
    payloads._MODELS.update(models)


@pytest.mark.parametrize(
    ("name", "owners", "model"),
    [
        ("note", ("user", "resource", "session", "agent"), Note),
        ("fact", ("user",), Fact),
        ("message", ("resource", "session", "user"), Message),
    ],
)
def test_the_kinds_that_ship(name: str, owners: tuple[str, ...], model: type[Payload]) -> None:
    """Each kind has its owners in order, is recalled, and has a payload model of its own."""
    assert KINDS.require(name) == Kind(name, owners, recalled=True)
    assert payload_model(name) is model


def test_every_kind_has_a_payload_model() -> None:
    """No kind is known that could not be stored."""
    assert [payload_model(name).model_config["frozen"] for name in KINDS.names()] == [
        True for _ in KINDS.names()
    ]


@pytest.mark.parametrize("name", ["poem", "", "Note", "note ", None, 5, ["note"], {}, "\ud800"])
def test_an_unknown_kind_is_refused_with_the_known_ones(name: str) -> None:
    """A kind that is not in the table is refused, with the list of those that are."""
    for look_up in (KINDS.require, payload_model):
        with pytest.raises(InputError) as refused:
            look_up(name)
        error = refused.value
        assert (error.code, error.field) == ("unknown_kind", "kind")
        assert error.allowed == KINDS.names()
        assert isinstance(error.value, str)


def test_kinds_are_listed_in_order_of_registration() -> None:
    """The first kind registered is the first listed."""
    table = KindTable()
    for name in ("b", "a", "c"):
        table.register(Kind(name, ("user",)))
    assert table.names() == ["b", "a", "c"]


def test_an_equal_row_may_be_registered_again() -> None:
    """A module that is loaded twice registers the same row twice without harm."""
    table = KindTable()
    table.register(Kind("recipe", ("user",)))
    table.register(Kind("recipe", ("user",)))
    assert table.names() == ["recipe"]


@pytest.mark.parametrize("name", [*sorted(RESERVED_KINDS), "note"])
def test_taken_and_reserved_names_are_refused(name: str) -> None:
    """A kind never takes the name of another row or of events that are no memories."""
    table = KindTable()
    table.register(Kind("note", ("user",)))
    with pytest.raises(InputError) as refused:
        table.register(Kind(name, ("agent",)))
    error = refused.value
    assert (error.code, error.field, error.value) == ("taken", "kind", name)
    assert table.names() == ["note"]


@pytest.mark.parametrize("name", ["", "my kind", "réz", "x" * 65, "a\n"])
def test_a_kind_is_stored_in_clear_so_its_name_is_a_code(name: str) -> None:
    """A name that cannot stand in a header is refused."""
    with pytest.raises(InputError) as refused:
        KindTable().register(Kind(name, ("user",)))
    assert (refused.value.code, refused.value.field) == ("bad_name", "kind")


@pytest.mark.parametrize("owners", [(), ("person",), ("user", "tenant")])
def test_a_kind_is_owned_by_owner_types(owners: tuple[str, ...]) -> None:
    """A row whose owners are none, or not types of owner, is refused when it is registered."""
    with pytest.raises(InputError) as refused:
        KindTable().register(Kind("recipe", owners))
    assert refused.value.field == "owners"


def test_a_program_can_add_a_kind_of_its_own(own_kind: Kind) -> None:
    """A registered kind is stored and read back with its own model and fields."""
    register_payload("recipe", Recipe)
    body = RememberedBody(payload=Recipe(kind="recipe", content="pesto", servings=4))
    stored = body.model_dump_json(exclude_defaults=True)
    again = RememberedBody.model_validate_json(stored)
    assert again == body
    assert type(again.payload) is Recipe


def test_a_kind_without_a_model_is_unknown_to_storage(own_kind: Kind) -> None:
    """A kind that has a row and no model yet is refused like an unknown one."""
    with pytest.raises(InputError) as refused:
        payload_model("recipe")
    assert (refused.value.code, refused.value.field) == ("unknown_kind", "kind")


def test_a_model_needs_a_kind_first() -> None:
    """A model for a kind that has no row is refused."""
    with pytest.raises(InputError) as refused:
        register_payload("poem", Recipe)
    assert refused.value.code == "unknown_kind"


def test_the_model_of_a_kind_is_never_replaced() -> None:
    """Another model for a kind that has one is refused: stored memories would change meaning."""
    register_payload("note", Note)
    try:
        with pytest.raises(InputError) as refused:
            register_payload("note", Recipe)
        assert (refused.value.code, refused.value.field) == ("taken", "kind")
    finally:
        payloads._MODELS["note"] = Note


@pytest.mark.parametrize(
    "stored",
    [
        {"payload": {"kind": "note", "content": "x", "subject": "y"}},
        {"payload": {"kind": "note"}},
        {"payload": {"content": "x"}},
        {"payload": {"kind": "note", "content": 5}},
        {"payload": {"kind": "note", "content": "x"}, "extra": 1},
    ],
)
def test_a_payload_holds_the_fields_of_its_kind_alone(stored: dict[str, object]) -> None:
    """A stored payload with a missing, unknown or ill-typed field is not read as something else."""
    with pytest.raises((ValidationError, InputError)):
        RememberedBody.model_validate(stored)
