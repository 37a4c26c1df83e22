"""What the files of an ONNX model's folder say is done, or refused."""

import shutil
from pathlib import Path
from typing import Any

import numpy
import pytest

from memoriale.adapters.embeddings.factory import make_embedder
from memoriale.adapters.embeddings.model_folder import MOST_TOKENS, read_folder
from memoriale.adapters.embeddings.onnx import OnnxEmbedder
from memoriale.domain.errors import InputError, UnavailableError
from tests.fixtures.onnx_models import POSITIONS, TinyModel, hidden, unit

POOLING = "1_Pooling/config.json"
PROMPTS = "config_sentence_transformers.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return TinyModel().write(tmp_path / "tiny")


@pytest.mark.parametrize(
    ("config", "pooled"),
    [
        (None, lambda tokens: tokens.mean(axis=0)),
        ({"pooling_mode_mean_tokens": True}, lambda tokens: tokens.mean(axis=0)),
        (
            {"pooling_mode_mean_tokens": False, "pooling_mode_mean_sqrt_len_tokens": True},
            lambda tokens: tokens.mean(axis=0),
        ),
        (
            {"pooling_mode_cls_token": True, "pooling_mode_max_tokens": False},
            lambda tokens: tokens[0],
        ),
        ({"pooling_mode": "cls"}, lambda tokens: tokens[0]),
        ({"pooling_mode": "max"}, lambda tokens: tokens.max(axis=0)),
        ({"pooling_mode": ["lasttoken"]}, lambda tokens: tokens[-1]),
        ({"pooling_mode_lasttoken": True}, lambda tokens: tokens[-1]),
    ],
)
def test_pooling_is_the_folders(tmp_path: Path, config: Any, pooled: Any) -> None:
    """Tokens become one vector as 1_Pooling says in its older or newer form; else their mean."""
    configs = {} if config is None else {POOLING: config}
    folder = TinyModel(configs=configs).write(tmp_path / "tiny")
    found = OnnxEmbedder(str(folder)).embed_query("the cat sat on the mat")
    expected = unit(pooled(hidden(folder, "the cat sat on the mat")))
    assert numpy.allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("configs", "tokens"),
    [
        ({}, POSITIONS),
        ({"sentence_bert_config.json": {"max_seq_length": 16}}, 16),
        ({"sentence_bert_config.json": {"max_seq_length": 500}}, POSITIONS),
        ({"tokenizer_config.json": {"model_max_length": 24}}, 24),
        ({"tokenizer_config.json": {"model_max_length": 10**30}}, POSITIONS),
        ({"config.json": {"max_position_embeddings": 66, "model_type": "roberta"}}, 64),
        (
            {
                "config.json": {
                    "max_position_embeddings": 66,
                    "model_type": "mpnet",
                    "pad_token_id": 0,
                }
            },
            65,
        ),
        ({"config.json": {"max_position_embeddings": 32_768}}, MOST_TOKENS),
        ({"config.json": {}}, 512),
    ],
)
def test_a_text_is_read_up_to_the_models_limit(tmp_path: Path, configs: Any, tokens: int) -> None:
    """The limit is the folder's, not the one left in tokenizer.json, and never beyond the
    positions of the model."""
    folder = TinyModel(configs=configs).write(tmp_path / "tiny")
    assert read_folder(str(folder), "x").tokens == tokens
    if tokens <= POSITIONS:
        long, beginning = "mat " * 100, unit(hidden(folder, "mat " * 100, tokens).mean(axis=0))
        assert numpy.allclose(OnnxEmbedder(str(folder)).embed_query(long), beginning, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "configs", "passage", "query"),
    [
        ("tiny", {}, "", ""),
        ("e5-tiny", {}, "passage: ", "query: "),
        ("tiny", {PROMPTS: {"prompts": {"query": "cat ", "document": "mat "}}}, "mat ", "cat "),
        ("e5-tiny", {PROMPTS: {"prompts": {"query": "cat "}}}, "passage: ", "cat "),
        ("e5-tiny", {PROMPTS: {"prompts": {"query": "", "document": ""}}}, "passage: ", "query: "),
        ("models--org--e5-tiny/snapshots/" + "a" * 40, {}, "passage: ", "query: "),
    ],
)
def test_prefixes(tmp_path: Path, name: str, configs: Any, passage: str, query: str) -> None:
    """Questions and passages get what the folder says, else what the model's name tells."""
    folder = TinyModel(configs=configs).write(tmp_path / name)
    embedder = OnnxEmbedder(str(folder))
    for prefix, found in (
        (passage, embedder.embed_passages(["stock"])[0]),
        (query, embedder.embed_query("stock")),
    ):
        expected = unit(hidden(folder, prefix + "stock").mean(axis=0))
        assert numpy.allclose(found, expected, atol=1e-6)


def test_the_model_file_may_lie_in_a_folder_of_its_own(folder: Path) -> None:
    """onnx/model.onnx is found too, and the vectors are the same."""
    before = OnnxEmbedder(str(folder)).embed_query("cat")
    (folder / "onnx").mkdir()
    (folder / "model.onnx").rename(folder / "onnx" / "model.onnx")
    assert (OnnxEmbedder(str(folder)).embed_query("cat") == before).all()


@pytest.mark.parametrize(
    ("configs", "why"),
    [
        ({POOLING: {"pooling_mode": "weightedmean"}}, "weightedmean"),
        ({POOLING: {"pooling_mode": ["cls", "mean"]}}, "cls and mean"),
        ({POOLING: {"word_embedding_dimension": 32}}, "none"),
        ({POOLING: {"pooling_mode": "mean", "include_prompt": False}}, "leaves out prompts"),
        ({POOLING: "[]"}, "holds no object"),
        ({"config.json": "{"}, "config.json cannot be read"),
        ({"config.json": "[]"}, "config.json holds no object"),
        ({"modules.json": '{"type": 1}'}, "lists no modules"),
        ({"modules.json": "[1]"}, "lists no modules"),
    ],
)
def test_settings_that_cannot_be_used(tmp_path: Path, configs: Any, why: str) -> None:
    """A folder that asks for what cannot be done is refused, with what is allowed."""
    folder = TinyModel(configs=configs).write(tmp_path / "tiny")
    with pytest.raises(InputError, match=why) as refusal:
        OnnxEmbedder(str(folder))
    assert (refusal.value.code, refusal.value.field) == ("bad_embedder", "MEMORIALE_EMBEDDER")
    assert refusal.value.allowed


@pytest.mark.parametrize("missing", ["", "model.onnx", "tokenizer.json"])
def test_what_is_missing_is_named(folder: Path, missing: str) -> None:
    """A folder or a file that is not there is an error of whoever configured it."""
    shutil.rmtree(folder) if not missing else (folder / missing).unlink()
    with pytest.raises(InputError, match=missing or "is no folder") as refusal:
        make_embedder(f"onnx:{folder}")
    assert (refusal.value.code, refusal.value.field) == ("bad_embedder", "MEMORIALE_EMBEDDER")


@pytest.mark.parametrize("spec", ["onnx:", "onnx: x", "onnx:a\nb", "onnx:" + "x" * 5_000])
def test_no_folder_is_named(spec: str) -> None:
    """A name that can be no folder's is refused."""
    with pytest.raises(InputError) as refusal:
        make_embedder(spec)
    assert refusal.value.code == "bad_embedder"


def test_modules_after_the_pooling_must_be_in_the_model(tmp_path: Path) -> None:
    """Without the layer that follows the pooling the vectors would be wrong ones."""
    modules = [{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]
    folder = TinyModel(configs={"modules.json": modules}).write(tmp_path / "tiny")
    with pytest.raises(UnavailableError, match="Dense"):
        OnnxEmbedder(str(folder))
