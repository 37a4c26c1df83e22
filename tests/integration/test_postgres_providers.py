"""The ledger behind a connection string: opened late, with the given embeddings, and closed."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from memoriale.adapters.embeddings.hashing import HashEmbedder
from memoriale.adapters.providers.embedding import ModelEmbeddings
from memoriale.adapters.providers.postgres import (
    PostgresSemanticMemoryProvider,
    PostgresWorkingMemoryProvider,
)
from memoriale.domain.errors import InputError, UnavailableError
from memoriale.domain.resources.facts import MemoryFact
from memoriale.domain.resources.ref import ResourceRef
from tests.fixtures.postgres import Database

REF = ResourceRef("bot")
FACTS = [MemoryFact(content=text) for text in ("a red harbour", "a blue station", "a green hat")]
Type = Literal["query", "passage"]


class Watched:
    """Embeddings that keep what they were asked."""

    def __init__(self, width: int = 8, id: str = "watched-1") -> None:
        self.id, self.width = id, width
        self.asked: list[tuple[str, str]] = []

    def embed(self, texts: Sequence[str], *, type: Type = "passage") -> list[list[float]]:
        self.asked += [(type, text) for text in texts]
        # Texts are near when they end with the same letter.
        ends = [ord(text[-1]) % self.width for text in texts]
        return [[float(end == n) for n in range(self.width)] for end in ends]


Provider = Callable[..., PostgresSemanticMemoryProvider]


@pytest.fixture
def provider(database: Database, tmp_path: Path, tenant: str) -> Provider:
    def made(embeddings: Any = None, **given: Any) -> PostgresSemanticMemoryProvider:
        given = {"tenant": tenant, "home": tmp_path, "wait": 60, **given}
        return PostgresSemanticMemoryProvider(database.app_url, embeddings, **given)

    return made


def test_nothing_is_opened_before_it_is_used(tmp_path: Path, tenant: str) -> None:
    """A constructor touches neither database nor home; the first call says what is wrong."""
    nowhere = "postgresql://nobody@127.0.0.1:1/none?connect_timeout=1"
    with PostgresWorkingMemoryProvider(nowhere, tenant=tenant, home=tmp_path / "new") as made:
        assert not (tmp_path / "new").exists()
        with pytest.raises(UnavailableError):
            made.get(REF, "key")


@pytest.mark.parametrize(
    "given",
    [{"conninfo": ""}, {"conninfo": None}, {"tenant": ""}, {"tenant": "_x"}, {"embeddings": 3}],
    ids=str,
)
def test_wrong_arguments_are_refused_at_once(
    database: Database, tmp_path: Path, given: dict[str, Any]
) -> None:
    """An address, a tenant or embeddings that cannot be used are typed errors."""
    arguments = {"conninfo": database.app_url, "tenant": "acme", "home": tmp_path, **given}
    with pytest.raises(InputError):
        PostgresSemanticMemoryProvider(**arguments)


def test_a_closed_provider_says_so(provider: Provider) -> None:
    """Closing twice is allowed; a call afterwards is refused."""
    made = provider()
    made.remember(REF, FACTS[0])
    made.close()
    made.close()
    with pytest.raises(InputError) as refused:
        made.recall(REF, "harbour")
    assert refused.value.code == "closed"


def test_the_given_embeddings_make_the_vectors(provider: Provider) -> None:
    """Facts are embedded as passages and questions as queries, and a recall follows them."""
    watched = Watched()
    with provider(watched) as made:
        made.remember_many(REF, FACTS)
        for fact in FACTS:
            question = f"unheard of {fact.content[-1]}"
            assert made.recall(REF, question, top_k=1)[0].content == fact.content
            assert ("query", question) in watched.asked
    passages = [text for type, text in watched.asked if type == "passage"]
    assert sorted(passages) == sorted(fact.content for fact in FACTS)


def test_the_index_of_vectors_is_there_after_a_restart(provider: Provider) -> None:
    """A new process compares vectors before it has written anything, and embeds no fact again."""
    with provider(Watched()) as made:
        made.remember_many(REF, FACTS)
        before = made.recall(REF, "harbour")
    again = Watched()
    with provider(again) as made:
        assert made.has_vector_index
        assert made.recall(REF, "harbour") == before
    assert [text for type, text in again.asked if type == "passage"] == []


def test_another_width_is_refused_before_anything_is_written(
    provider: Provider, database: Database, tmp_path: Path, tenant: str
) -> None:
    """Embeddings of another width than the view's are refused by every call; nothing is stored,
    and those that fit go on."""
    with provider(Watched(8)) as made:
        made.remember_many(REF, FACTS)
        made.recall(REF, "harbour")
    with provider(Watched(9)) as made:
        for call in (lambda: made.remember(REF, FACTS[0]), lambda: made.recall(REF, "harbour")):
            with pytest.raises(UnavailableError) as refused:
                call()
            assert (refused.value.code, refused.value.allowed) == ("bad_vectors", "8 components")
    with provider(Watched(8)) as made:
        assert len(made.list_all(REF)) == len(FACTS)
        assert len(made.recall(REF, "harbour")) == len(FACTS)


@pytest.mark.parametrize(
    "vectors",
    [[], [[1.0], [2.0]], [[float("nan")] * 4], [["x"] * 4], [[]], None],
    ids=["nothing", "too many", "nan", "texts", "no components", "none"],
)
def test_embeddings_that_give_no_vectors_are_refused(provider: Provider, vectors: Any) -> None:
    """The first call says what they gave, and nothing is stored."""

    class Broken:
        id = "broken"

        def embed(self, texts: Sequence[str], *, type: Type = "passage") -> Any:
            return vectors

    with provider(Broken()) as made, pytest.raises(UnavailableError):
        made.remember(REF, FACTS[0])
    with provider() as made:
        assert list(made.list_all(REF)) == []


def test_embeddings_that_fail_later_lose_no_fact(provider: Provider) -> None:
    """A write waits for no model: what was remembered meanwhile is found by its words."""

    class Failing(Watched):
        broken = False

        def embed(self, texts: Sequence[str], *, type: Type = "passage") -> list[list[float]]:
            if self.broken:
                raise RuntimeError("the model went away")
            return super().embed(texts, type=type)

    failing = Failing()
    with provider(failing) as made:
        made.remember(REF, FACTS[0])
        failing.broken = True
        stored = made.remember(REF, MemoryFact(content="stored without a vector"))
        assert made.recall(REF, "stored vector", top_k=1)[0].id == stored.id


def test_both_providers_share_the_ledger(
    provider: Provider, database: Database, tmp_path: Path, tenant: str
) -> None:
    """Working memory and facts behind one address are forked together."""
    embeddings = ModelEmbeddings(HashEmbedder())
    with (
        PostgresWorkingMemoryProvider(database.app_url, tenant=tenant, home=tmp_path) as keys,
        provider(embeddings) as facts,
    ):
        keys.set(REF, "plan", 1)
        facts.remember(REF, FACTS[0])
        assert keys.forked_with == facts.forked_with
        facts.fork(REF, ResourceRef("kid"))
        assert keys.get(ResourceRef("kid"), "plan") == 1
