"""The cache of embeddings: what it keeps, whose it is, and what it puts up with."""

import os
import sqlite3
from uuid import UUID, uuid4

import numpy
import pytest

from memoriale.adapters.application.identities import Identities
from memoriale.adapters.embeddings.cache import EmbeddingCache, Entry
from memoriale.adapters.embeddings.hashing import HashEmbedder
from memoriale.domain.errors import UnavailableError
from memoriale.domain.keys import Subject
from memoriale.projections.embedding import OwnedEmbedder, embed_owned
from tests.fixtures.embedding_cache import CacheScene, Make, Owner

CANARY = "a canary in a cage"


def content(cache: EmbeddingCache) -> bytes:
    return b"".join(path.read_bytes() for path in cache.path.parent.iterdir())


def test_it_is_an_owned_embedder(make: Make) -> None:
    """The recall view hands it the owners of texts."""
    assert isinstance(make(), OwnedEmbedder)


def test_what_is_kept_is_not_computed(make: Make, owner: Owner) -> None:
    """A second embedder takes every vector from the cache, bit by bit."""
    alice, bob = owner("alice"), owner("bob")
    owners, texts = [alice, alice, bob, alice], ["one", "two", "three", "one"]
    first, second = make(), make()
    vectors = embed_owned(first, owners, texts)
    assert (first.computed, first.hits) == (3, 0)
    assert numpy.array_equal(vectors, HashEmbedder().embed_passages(texts))
    assert numpy.array_equal(embed_owned(second, owners, texts), vectors)
    assert (second.computed, second.hits) == (0, 4)


def test_only_what_is_missing_is_computed(make: Make, owner: Owner) -> None:
    """New texts among known ones are all that the model gets."""
    alice = owner("alice")
    embed_owned(make(), [alice] * 2, ["one", "two"])
    embedder = make()
    vectors = embed_owned(embedder, [alice] * 3, ["one", "new", "two"])
    assert (embedder.computed, embedder.hits) == (1, 2)
    assert numpy.array_equal(vectors, HashEmbedder().embed_passages(["one", "new", "two"]))


def test_a_text_without_a_vector_is_kept_too(make: Make, owner: Owner) -> None:
    """Zeros say that the model knows nothing of a text; it need not be asked again."""
    alice = owner("alice")
    embed_owned(make(), [alice], ["?!"])
    embedder = make()
    assert not embed_owned(embedder, [alice], ["?!"]).any()
    assert embedder.computed == 0


def test_equal_texts_of_two_owners_have_nothing_in_common(
    make: Make, cache: EmbeddingCache, owner: Owner
) -> None:
    """Neither keys nor values tell that two owners have the same text."""
    alice, bob = owner("alice"), owner("bob")
    embedder = make()
    embed_owned(embedder, [alice, bob], ["the same text"] * 2)
    assert embedder.computed == 1
    with sqlite3.connect(cache.path) as file:
        rows = file.execute("SELECT key, owner, value FROM vectors").fetchall()
    file.close()
    assert {UUID(bytes=row[1]) for row in rows} == {alice, bob}
    assert len({row[0] for row in rows}) == 2
    assert len({row[2][12:] for row in rows}) == 2


def test_models_do_not_mix(make: Make, cache: EmbeddingCache, owner: Owner) -> None:
    """Another model, or another width, finds nothing of the first."""
    alice = owner("alice")
    embed_owned(make(), [alice], ["one"])
    for other in (HashEmbedder(32), Renamed()):
        embedder = make(other)
        embed_owned(embedder, [alice], ["one"])
        assert embedder.computed == 1
    assert cache.count() == 3


class Renamed(HashEmbedder):
    def __init__(self) -> None:
        super().__init__()
        self.model = "another name"


def test_no_text_and_no_vector_stands_in_the_file(
    make: Make, cache: EmbeddingCache, identities: Identities
) -> None:
    """The file holds neither the text, nor the vector, nor the owner's name, nor a key."""
    person = identities.key(Subject("user", "alice-canary"))
    vector = embed_owned(make(), [person.pseudonym], [CANARY])
    found = content(cache)
    assert cache.count() == 1
    for secret in (CANARY.encode(), b"canary", vector.tobytes(), vector.tobytes()[:32], person.key):
        assert secret not in found


def test_the_file_is_private(make: Make, cache: EmbeddingCache, owner: Owner) -> None:
    """File 0600, folder 0700, whatever the umask."""
    before = os.umask(0)
    try:
        embed_owned(make(), [owner("alice")], ["one"])
    finally:
        os.umask(before)
    assert cache.path.stat().st_mode & 0o777 == 0o600
    assert cache.path.parent.stat().st_mode & 0o777 == 0o700


def test_an_owner_whose_key_is_gone_is_not_cached(
    make: Make, cache: EmbeddingCache, identities: Identities, cache_scene: CacheScene
) -> None:
    """His texts are embedded without an error; nothing is kept, and nothing kept is read."""
    person = identities.key(Subject("user", "alice"))
    embed_owned(make(), [person.pseudonym], ["one"])
    cache_scene.store.destroy(person.key_id)
    identities.key(Subject("user", "alice"))
    embedder = make()
    vectors = embed_owned(embedder, [person.pseudonym, uuid4()], ["one", "two"])
    assert numpy.array_equal(vectors, HashEmbedder().embed_passages(["one", "two"]))
    assert (embedder.computed, embedder.hits, cache.count()) == (2, 0, 1)


def test_purge(make: Make, cache: EmbeddingCache, owner: Owner) -> None:
    """Purging an owner removes his entries, and their bytes from the file, and nobody else's."""
    alice, bob = owner("alice"), owner("bob")
    embed_owned(make(), [alice, alice, bob], ["one", "two", "three"])
    with sqlite3.connect(cache.path) as file:
        values = [
            value
            for (value,) in file.execute(
                "SELECT value FROM vectors WHERE owner = ?", (alice.bytes,)
            )
        ]
    file.close()
    assert all(value in content(cache) for value in values)
    assert cache.purge(alice) == 2
    assert not any(value in content(cache) or value[40:72] in content(cache) for value in values)
    assert cache.purge(alice) == 0
    embedder = make()
    embed_owned(embedder, [alice, alice, bob], ["one", "two", "three"])
    assert (embedder.computed, embedder.hits) == (2, 1)


def test_purging_a_damaged_file_removes_it(cache: EmbeddingCache) -> None:
    """What cannot be purged entry by entry goes as a whole."""
    assert cache.purge(uuid4()) == 0
    cache.path.parent.mkdir()
    cache.path.write_bytes(b"no database " * 1_000)
    assert cache.purge(uuid4()) == 0
    assert not cache.path.exists()


def test_a_purge_that_cannot_be_done_says_so(cache: EmbeddingCache) -> None:
    """Only a purge may not fail silently."""
    cache.path.mkdir(parents=True)
    with pytest.raises(UnavailableError) as raised:
        cache.purge(uuid4())
    assert raised.value.code == "embedding_cache"


def test_more_keys_than_one_statement_takes(cache: EmbeddingCache) -> None:
    """Look-ups are split; any number of keys may be asked for."""
    entries = [Entry(os.urandom(32), uuid4(), os.urandom(20)) for _ in range(2_501)]
    cache.put(entries)
    found = cache.get([entry.key for entry in entries] + [os.urandom(32)])
    assert found == {entry.key: entry.value for entry in entries}
