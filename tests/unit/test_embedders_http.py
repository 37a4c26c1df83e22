"""The embedder behind HTTP, against a real server on the loopback interface."""

import socket
import time
import traceback
from pathlib import Path
from typing import Any

import numpy
import pytest

from memoriale.adapters.embeddings.endpoint import Endpoint
from memoriale.adapters.embeddings.factory import make_embedder
from memoriale.adapters.embeddings.hashing import HashEmbedder
from memoriale.adapters.embeddings.http import HttpEmbedder, Patience
from memoriale.adapters.embeddings.widths import KnownWidths
from memoriale.domain.errors import InputError, UnavailableError
from memoriale.projections.embedding import embed_passages, embed_query
from tests.fixtures.embedding_server import (
    Behaviour,
    EmbeddingServer,
    body,
    changed,
    hang_up,
    most,
    status,
)

QUICK = Patience(attempts=3, seconds=5.0, pause=0.001, longest=0.01)
CANARY = "a canary that no error may repeat"
KEY = "sk-a-secret-key"


def embedder_of(server: EmbeddingServer, name: str = "small", **given: Any) -> HttpEmbedder:
    given = {"passages": QUICK, "question": QUICK, **given}
    return HttpEmbedder(name, server.endpoint, **given)


def test_vectors_come_from_the_endpoint(embedding_server: EmbeddingServer) -> None:
    """Passages and questions get the endpoint's vectors, in the order of the texts."""
    embedder = embedder_of(embedding_server)
    texts = ["the cat sat", "stock prices fell", "上海天气"]
    expected = HashEmbedder(32).embed_passages(texts)
    assert numpy.allclose(embed_passages(embedder, texts), expected, atol=1e-6)
    assert numpy.allclose(embed_query(embedder, texts[0]), expected[0], atol=1e-6)
    assert (embedder.model, embedder.width) == ("openai/small/32", 32)
    last = embedding_server.asked[-1]
    assert (last.path, last.model) == ("/v1/embeddings", "small")
    assert last.authorization == f"Bearer {KEY}"


def test_without_a_key_none_is_sent(embedding_server: EmbeddingServer) -> None:
    """Endpoints of one's own need no key."""
    HttpEmbedder("small", Endpoint(f"{embedding_server.url}/"))
    assert embedding_server.asked[-1].authorization is None
    assert embedding_server.asked[-1].path == "/v1/embeddings"


def test_vectors_have_length_one(embedding_server: EmbeddingServer) -> None:
    """Vectors that the endpoint does not normalise are normalised; zeros stay zeros."""
    embedder = embedder_of(embedding_server)
    embedding_server.always = changed(lambda vs: [[7.0 * x for x in vs[0]], [0] * 32])
    vectors = embed_passages(embedder, ["one two three", "x"])
    assert numpy.linalg.norm(vectors[0]) == pytest.approx(1, abs=1e-6)
    assert not vectors[1].any()


def test_blank_texts_are_not_sent(embedding_server: EmbeddingServer) -> None:
    """A blank text has no vector, and endpoints refuse them."""
    embedder = embedder_of(embedding_server)
    vectors = embed_passages(embedder, ["", "word", " \n"])
    assert [bool(vector.any()) for vector in vectors] == [False, True, False]
    assert embedding_server.asked[-1].texts == ["word"]
    assert embed_passages(embedder, []).shape == (0, 32)


def test_texts_go_in_batches(embedding_server: EmbeddingServer) -> None:
    """A request holds at most 128 texts and about 100,000 characters."""
    embedder = embedder_of(embedding_server)
    embedding_server.asked.clear()
    texts = [f"text {number}" for number in range(300)] + ["long words " * 6_000] * 3
    vectors = embed_passages(embedder, texts)
    assert numpy.allclose(vectors, HashEmbedder(32).embed_passages(texts), atol=1e-5)
    sizes = [len(asked.texts) for asked in embedding_server.asked]
    assert sum(sizes) == 303
    assert max(sizes) == 128
    assert max(sum(map(len, asked.texts)) for asked in embedding_server.asked) < 110_000


@pytest.mark.parametrize("code", [400, 413, 422])
def test_too_many_texts_are_halved(embedding_server: EmbeddingServer, code: int) -> None:
    """An endpoint that takes fewer texts at once gets fewer."""
    embedder = embedder_of(embedding_server)
    embedding_server.always = most(10, 1_000_000, code)
    texts = [f"text {number}" for number in range(50)]
    expected = HashEmbedder(32).embed_passages(texts)
    assert numpy.allclose(embed_passages(embedder, texts), expected, atol=1e-6)


def test_a_text_that_is_too_long_is_cut(embedding_server: EmbeddingServer) -> None:
    """One long text among others is embedded by its beginning, and stops nothing."""
    embedder = embedder_of(embedding_server)
    embedding_server.always = most(1_000, 3_000, 400)
    vectors = embed_passages(embedder, ["first", "word " * 2_000, "last"])
    assert all(vector.any() for vector in vectors)


def test_what_is_always_refused_ends(embedding_server: EmbeddingServer) -> None:
    """An endpoint that refuses everything is asked a few times, not once for each text."""
    embedder = embedder_of(embedding_server)
    embedding_server.asked.clear()
    embedding_server.always = status(400)
    with pytest.raises(UnavailableError):
        embed_passages(embedder, ["word " * 200] * 128)
    assert len(embedding_server.asked) < 12


@pytest.mark.parametrize(
    "failure", [status(429), status(429, Retry_After="1"), status(500), status(503), hang_up]
)
def test_passing_failures_are_tried_again(
    embedding_server: EmbeddingServer, failure: Behaviour
) -> None:
    """A busy or failing endpoint, or a connection that breaks, is asked again after a pause."""
    embedder = embedder_of(embedding_server)
    embedding_server.next(failure, failure)
    assert embed_passages(embedder, ["word"]).any()


def test_the_wish_of_the_endpoint_is_heeded(embedding_server: EmbeddingServer) -> None:
    """Retry-After lengthens a pause."""
    embedder = embedder_of(embedding_server, question=Patience(2, 5.0, 0.001, longest=0.3))
    embedding_server.next(status(429, Retry_After="60"))
    begun = time.monotonic()
    assert embed_query(embedder, "word").any()
    assert time.monotonic() - begun >= 0.3


@pytest.mark.parametrize(
    ("failure", "code", "requests"),
    [
        (status(500), "embedder_failed", 3),
        (status(429, "rate_limit_exceeded"), "embedder_failed", 3),
        (status(429, "insufficient_quota"), "embedder_failed", 1),
        (status(401, "invalid_api_key"), "embedder_failed", 1),
        (status(404, "model_not_found"), "embedder_failed", 1),
        (status(302, Location="http://127.0.0.1:9/elsewhere"), "embedder_failed", 1),
        (hang_up, "embedder_failed", 3),
        (body(b"<html>" + CANARY.encode()), "bad_vectors", 1),
        (body(b'{"data": null}'), "bad_vectors", 1),
        (body(b'{"data": [1]}'), "bad_vectors", 1),
        (body(b"[" * 100_000), "bad_vectors", 1),
        (body(b'{"data": [{"index": [], "embedding": []}]}'), "bad_vectors", 1),
        (body(b'{"data": [{"index": 7, "embedding": [1.0]}]}'), "bad_vectors", 1),
        (changed(lambda vectors: vectors[:-1]), "bad_vectors", 1),
        (changed(lambda vectors: [v[:-1] for v in vectors]), "bad_vectors", 1),
        (changed(lambda vectors: [[float("nan")] * 32]), "bad_vectors", 1),
        (changed(lambda vectors: [[1e300] * 32]), "bad_vectors", 1),
        (changed(lambda vectors: [[10**400] * 32]), "bad_vectors", 1),
        (changed(lambda vectors: [["x"] * 32]), "bad_vectors", 1),
        (changed(lambda vectors: [None]), "bad_vectors", 1),
    ],
)
def test_failures_are_typed_and_tell_nothing(
    embedding_server: EmbeddingServer, failure: Behaviour, code: str, requests: int
) -> None:
    """A failure has a code, is asked again only where that may help, and holds no text or key."""
    embedder = embedder_of(embedding_server)
    embedding_server.asked.clear()
    embedding_server.always = failure
    with pytest.raises(UnavailableError) as raised:
        embed_passages(embedder, [CANARY])
    assert raised.value.code == code
    assert raised.value.field == "MEMORIALE_EMBEDDER"
    assert len(embedding_server.asked) == requests
    told = "".join(traceback.format_exception(raised.value)) + str(raised.value.as_dict())
    assert CANARY not in told
    assert KEY not in told


def test_a_well_known_error_is_named(embedding_server: EmbeddingServer) -> None:
    """An error that one can do something about says what it is and where to look."""
    embedder = embedder_of(embedding_server)
    embedding_server.always = status(401, "invalid_api_key")
    with pytest.raises(UnavailableError, match=r"401 \(invalid_api_key\); check OPENAI_BASE_URL"):
        embed_query(embedder, "word")


def test_a_slow_endpoint_is_not_waited_for(embedding_server: EmbeddingServer) -> None:
    """An answer that does not come in time is a failure of its own code."""
    embedder = embedder_of(embedding_server, question=Patience(2, 0.1, 0.001))
    embedding_server.always = embedding_server.stuck
    with pytest.raises(UnavailableError) as raised:
        embed_query(embedder, "word")
    assert raised.value.code == "embedder_timeout"


def test_nobody_there(embedding_server: EmbeddingServer) -> None:
    """A refused connection says so, and an endpoint that comes back is used again."""
    embedder = embedder_of(embedding_server)
    embedding_server.stop()
    with pytest.raises(UnavailableError, match="cannot be reached: Connection refused"):
        embed_query(embedder, "word")
    embedding_server.start()
    assert embed_query(embedder, "word").any()


def test_something_that_is_no_http(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address where something else listens is a failure like others."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = Endpoint(f"http://127.0.0.1:{listener.getsockname()[1]}")
        once = Patience(1, 0.1, 0.0)
        with pytest.raises(UnavailableError) as raised:
            HttpEmbedder("small", endpoint, question=once)
    assert raised.value.code == "embedder_timeout"


@pytest.mark.parametrize(
    ("name", "passage", "query"),
    [
        ("text-embedding-3-small", "word", "word"),
        ("nomic-embed-text:v1.5", "search_document: word", "search_query: word"),
        ("intfloat/e5-small-v2", "passage: word", "query: word"),
        ("intfloat/multilingual-e5-base", "passage: word", "query: word"),
        ("intfloat/multilingual-e5-large-instruct", "word", "word"),
    ],
)
def test_prefixes(embedding_server: EmbeddingServer, name: str, passage: str, query: str) -> None:
    """Models that tell passages from questions by a prefix get it."""
    embedder = embedder_of(embedding_server, name)
    embed_passages(embedder, ["word"])
    embed_query(embedder, "word")
    assert embedding_server.texts[-2:] == [passage, query]


def test_the_width_is_learnt_once(embedding_server: EmbeddingServer, tmp_path: Path) -> None:
    """A known width needs no request, so that a process can start while the endpoint is down."""
    path = tmp_path / "cache" / "widths.json"
    assert embedder_of(embedding_server, widths=KnownWidths(path)).width == 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    embedding_server.stop()
    assert embedder_of(embedding_server, widths=KnownWidths(path)).width == 32
    with pytest.raises(UnavailableError):
        embedder_of(embedding_server, "other", widths=KnownWidths(path))


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a": "b"}', "null"])
def test_a_damaged_file_of_widths_costs_a_request(
    embedding_server: EmbeddingServer, tmp_path: Path, content: str
) -> None:
    """What cannot be read is learnt again."""
    path = tmp_path / "widths.json"
    path.write_text(content)
    assert embedder_of(embedding_server, widths=KnownWidths(path)).width == 32


def test_another_model_behind_the_address(
    embedding_server: EmbeddingServer, tmp_path: Path
) -> None:
    """Vectors of another width are refused; the next process learns the new one."""
    widths = KnownWidths(tmp_path / "widths.json")
    embedder_of(embedding_server, widths=widths)
    embedding_server.width = 16
    embedder = embedder_of(embedding_server, widths=widths)
    assert embedder.width == 32
    with pytest.raises(UnavailableError) as raised:
        embed_passages(embedder, ["word"])
    assert raised.value.code == "bad_vectors"
    assert embedder_of(embedding_server, widths=widths).width == 16


@pytest.mark.parametrize("width", [0, 65_537])
def test_widths_out_of_bounds_are_refused(embedding_server: EmbeddingServer, width: int) -> None:
    """A first answer that can be no vector is refused."""
    embedding_server.always = changed(lambda vectors: [[1.0] * width])
    with pytest.raises(UnavailableError) as raised:
        embedder_of(embedding_server)
    assert raised.value.code == "bad_vectors"


@pytest.mark.parametrize(
    "url",
    [
        *("", "api.openai.com", "ftp://host/v1", "http://", "http://[::1", "http://host:port/"),
        *("https://user:secret@host/v1", "https://host/v1?key=secret", "http://host/ v1"),
        "http://host/\n",
    ],
)
def test_bad_addresses(url: str) -> None:
    """An address that is none, or that hides a secret, is refused without repeating it."""
    with pytest.raises(InputError) as refusal:
        Endpoint(url)
    assert refusal.value.field == "OPENAI_BASE_URL"
    assert "secret" not in str(refusal.value.as_dict())


@pytest.mark.parametrize("key", ["", "sk secret", "sk-secret\n", "sk-sécret"])
def test_bad_keys(key: str) -> None:
    """A key that cannot be sent is refused without showing it."""
    with pytest.raises(InputError) as refusal:
        Endpoint(key=key)
    assert refusal.value.field == "OPENAI_API_KEY"
    assert not key or key not in str(refusal.value.as_dict())


def test_a_key_is_never_shown() -> None:
    """An endpoint can be printed."""
    assert KEY not in repr(Endpoint(key=KEY))


def test_the_factory_makes_it(embedding_server: EmbeddingServer) -> None:
    """``openai:MODEL`` names a model of the endpoint, colons and slashes included."""
    embedder = make_embedder("openai:org/small:latest", endpoint=embedding_server.endpoint)
    assert embedder.model == "openai/org/small:latest/32"


@pytest.mark.parametrize("spec", ["openai:", "openai: x", "openai:a\nb", f"openai:{'x' * 201}"])
def test_bad_model_names(spec: str) -> None:
    """A name that can be none is refused before anything is sent."""
    with pytest.raises(InputError) as refusal:
        make_embedder(spec)
    assert refusal.value.field == "MEMORIALE_EMBEDDER"
