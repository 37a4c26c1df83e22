"""Embedders: the choice by setting, the one for tests, the default one, and their check."""

import logging
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy
import pytest

from memoriale.adapters.embeddings.factory import ALLOWED, make_embedder
from memoriale.adapters.embeddings.hashing import HashEmbedder
from memoriale.adapters.embeddings.token_shares import common, count_tokens, counts, weights
from memoriale.adapters.embeddings.wordllama import WordLlamaEmbedder, load
from memoriale.domain.errors import InputError, UnavailableError
from memoriale.projections.embedding import check_vectors, embed_passages, embed_query

HASHING = "memoriale.adapters.embeddings.hashing:make"


@pytest.fixture(scope="module")
def wordllama() -> WordLlamaEmbedder:
    return WordLlamaEmbedder()


@pytest.fixture(params=["wordllama", HASHING])
def embedder(request: pytest.FixtureRequest, wordllama: WordLlamaEmbedder) -> Any:
    return wordllama if request.param == "wordllama" else make_embedder(request.param)


TEXTS = ["the cat sat on the mat", "a cat on a mat", "stock prices fell", "上海天气", "🎉"]


def test_vectors_have_the_width_that_is_said(embedder: Any) -> None:
    """Passages give [number, width], a query [width], float32, of length 1."""
    vectors = embed_passages(embedder, TEXTS)
    assert vectors.shape == (len(TEXTS), embedder.width)
    assert vectors.dtype == numpy.float32
    query = embed_query(embedder, TEXTS[0])
    assert numpy.array_equal(query, vectors[0])
    known = vectors[vectors.any(axis=1)]
    assert len(known) >= 4
    assert numpy.allclose(numpy.linalg.norm(known, axis=1), 1, atol=1e-5)


def test_a_text_without_words_has_no_vector(embedder: Any) -> None:
    """An empty text gives zeros, without a warning of a division."""
    assert not embed_passages(embedder, ["", "word"])[0].any()
    assert embed_passages(embedder, []).shape == (0, embedder.width)


def test_a_vector_does_not_depend_on_its_neighbours(embedder: Any) -> None:
    """A text embedded alone, in a batch, or beside a very long one has one vector, bit by bit."""
    alone = [embed_query(embedder, text) for text in TEXTS]
    crowded = [*TEXTS, "long text " * 40_000, *["filler words"] * 700, *TEXTS]
    together = embed_passages(embedder, crowded)
    for number, vector in enumerate(alone):
        assert numpy.array_equal(together[number], vector)
        assert numpy.array_equal(together[number - len(TEXTS)], vector)


def test_near_texts_are_near(embedder: Any) -> None:
    """A text is nearer to one with the same words than to one about something else."""
    cat, mat, stock, *_ = embed_passages(embedder, TEXTS)
    assert cat @ mat > cat @ stock


def test_wordllama_pools_by_how_much_each_token_says(wordllama: WordLlamaEmbedder) -> None:
    """A vector is the mean of the tokens' vectors weighted by a / (a + share), less what all
    texts have in common, also for long texts."""
    tokenizer, table = load()
    weighted = weights(len(table))
    texts = ["one", "the quick brown fox " * 30, "many different words " * 3_000]
    for text, ours in zip(texts, wordllama.embed_passages(texts), strict=True):
        tokens = tokenizer.encode(text, add_special_tokens=False).ids
        mean = numpy.average(table[tokens], axis=0, weights=weighted[tokens])
        expected = mean - common(table, weighted)
        assert ours @ expected / numpy.linalg.norm(expected) == pytest.approx(1, abs=1e-5)


def test_the_table_of_token_shares_is_that_of_the_shipped_conversation() -> None:
    """The fixed table can be counted anew from what the project ships."""
    tokenizer, table = load()
    assert counts() == count_tokens(tokenizer)
    assert max(counts()) < len(table)


def test_a_megabyte_of_text_is_embedded(wordllama: WordLlamaEmbedder) -> None:
    """The longest content that is allowed has a vector."""
    assert wordllama.embed_query("longest content " * 65_536).any()


def test_loading_wordllama_leaves_logging_alone() -> None:
    """The package configures the root logger when imported; that is undone."""
    code = (
        "import logging; from memoriale.adapters.embeddings.wordllama import WordLlamaEmbedder;"
        "WordLlamaEmbedder().embed_query('x'); root = logging.getLogger();"
        "print(root.handlers, root.level == logging.WARNING)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert run.stdout == "[] True\n"
    assert logging.getLogger().level != logging.INFO


def test_naming_an_embedder_imports_no_model() -> None:
    """Making the default embedder is cheap: numpy and the model come with the first text."""
    code = (
        "import sys; from memoriale.adapters.embeddings.factory import ALLOWED, make_embedder;"
        "make_embedder('wordllama');"
        "print([m for m in ('numpy', 'wordllama', 'tokenizers', 'lancedb') if m in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert run.stdout == "[]\n"


def test_the_model_says_its_version(wordllama: WordLlamaEmbedder) -> None:
    """The identity of the model holds the version that its weights came with."""
    assert wordllama.model.startswith("wordllama-l2_supercat-256/")
    assert make_embedder(HASHING).model == "hashing-64/1"


class WithoutModel:
    width = 3


class WithoutMethods:
    model, width = "x", 3


def failing() -> Any:
    raise RuntimeError("no key")


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "WordLlama",
        "os.path",
        "no.such.module:make",
        "os:no_such_name",
        "os:sep",
        "os:getcwd",
        f"{__name__}:WithoutModel",
        f"{__name__}:WithoutMethods",
        f"{__name__}:failing",
        "a b:c",
        "../x:y",
    ],
)
def test_other_settings_are_refused(spec: str) -> None:
    """A setting that names no embedder says what this release allows."""
    with pytest.raises(InputError) as refusal:
        make_embedder(spec)
    assert refusal.value.field == "MEMORIALE_EMBEDDER"
    assert refusal.value.allowed == ALLOWED


class Wide(HashEmbedder):
    """Says 64 and gives 32."""

    def embed_passages(self, texts: Sequence[str]) -> Any:
        return super().embed_passages(texts)[:, :32]


@pytest.mark.parametrize("vectors", [[], [[0.0] * 64], [[float("nan")] * 64] * 2, None, "text"])
def test_vectors_are_checked(vectors: Any) -> None:
    """Count, width and finite numbers are checked before a vector is used."""
    with pytest.raises(UnavailableError) as failure:
        check_vectors(vectors, HashEmbedder(), 2)
    assert failure.value.code == "bad_vectors"


def test_a_query_of_another_width_is_refused() -> None:
    """A query's vector is checked like a passage's."""
    with pytest.raises(UnavailableError) as failure:
        embed_query(Wide(), "word")
    assert failure.value.code == "bad_vectors"


def test_an_error_of_ours_passes_through_the_embedder() -> None:
    """A typed error that an embedder raises is not wrapped."""

    class Refusing(HashEmbedder):
        def embed_query(self, text: str) -> Any:
            raise InputError("no", code="mine")

    with pytest.raises(InputError, match="no"):
        embed_query(Refusing(), "word")
