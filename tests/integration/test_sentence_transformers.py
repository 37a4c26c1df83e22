"""The real library sentence-transformers, where it is installed, with a small model."""

import logging
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy
import pytest

from memoriale.adapters.embeddings.factory import make_embedder
from memoriale.adapters.embeddings.model_folder import read_folder
from memoriale.adapters.embeddings.sentence_transformers import SentenceTransformersEmbedder
from memoriale.adapters.embeddings.widths import KnownWidths
from memoriale.domain.errors import InputError, UnavailableError
from memoriale.projections.embedding import Embedder, embed_passages, embed_query
from tests.contracts.embedder import TEXTS, EmbedderContract
from tests.fixtures.onnx_models import POSITIONS, tokenizer, vocabulary

pytestmark = [
    pytest.mark.skipif(
        find_spec("sentence_transformers") is None,
        reason="memoriale[sentence-transformers] is not installed; it brings PyTorch",
    ),
    # PyTorch and what stands on it warn of their own.
    pytest.mark.filterwarnings("default"),
]


def write(folder: Path, seed: int = 1, prompts: dict[str, str] | None = None) -> Path:
    """A BERT of one layer and random weights, as the library saves it."""
    from importlib import import_module

    torch: Any = import_module("torch")
    transformers: Any = import_module("transformers")
    library: Any = import_module("sentence_transformers")
    torch.manual_seed(seed)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary()),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=POSITIONS,
        initializer_range=1.0,
    )
    plain = folder.with_name(f"{folder.name}-plain")
    transformers.BertModel(config).save_pretrained(plain)
    words = tokenizer()
    words.no_padding()
    words.no_truncation()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=POSITIONS,
    ).save_pretrained(plain)
    model = library.SentenceTransformer(str(plain), device="cpu")
    model.prompts = {**model.prompts, **(prompts or {})}
    model.save(str(folder))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "tiny")


class TestSentenceTransformersEmbedder(EmbedderContract):
    """A model in a folder."""

    @pytest.fixture(autouse=True)
    def _folder(self, folder: Path) -> None:
        self.folder = folder

    def make(self) -> Embedder:
        return SentenceTransformersEmbedder(str(self.folder))


def test_vectors_are_the_librarys(folder: Path) -> None:
    """Texts have the vectors that the library gives them; blank ones have none."""
    from importlib import import_module

    library: Any = import_module("sentence_transformers")
    expected = library.SentenceTransformer(str(folder)).encode(TEXTS, normalize_embeddings=True)
    embedder = make_embedder(f"sentence-transformers:{folder}")
    assert numpy.allclose(embed_passages(embedder, TEXTS), expected, atol=1e-5)
    assert not embed_passages(embedder, ["", " \n"]).any()
    assert embed_query(embedder, "cat " * 250_000).any()


def test_own_prompts(tmp_path: Path) -> None:
    """A model's prompts stand before questions and passages."""
    prompts = {"query": "cat ", "document": "mat "}
    embedder = SentenceTransformersEmbedder(str(write(tmp_path / "asked", prompts=prompts)))
    plain = SentenceTransformersEmbedder(str(write(tmp_path / "plain")))
    assert numpy.allclose(embedder.embed_query("sat"), plain.embed_query("cat sat"), atol=1e-5)
    passages = (embedder.embed_passages(["sat"]), plain.embed_passages(["mat sat"]))
    assert numpy.allclose(*passages, atol=1e-5)


def test_other_weights_are_another_model(folder: Path, tmp_path: Path) -> None:
    """The name holds the folder's own name and a digest of its files, and no path."""
    names = [
        SentenceTransformersEmbedder(str(path)).model
        for path in (
            folder,
            write(tmp_path / "2" / "tiny", seed=2),
            shutil.copytree(folder, tmp_path / "3" / "tiny"),
        )
    ]
    assert names[0] == names[2] != names[1]
    assert all(name.startswith("sentence-transformers/tiny/") for name in names)


@pytest.mark.parametrize(
    "name", ["model.safetensors", "tokenizer.json", "config.json", "1_Pooling/config.json"]
)
def test_a_damaged_file(folder: Path, tmp_path: Path, name: str) -> None:
    """A model that cannot be read is unavailable; one that was used before keeps its name."""
    widths = KnownWidths(tmp_path / "widths.json")
    before = SentenceTransformersEmbedder(str(folder), widths=widths)
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UnavailableError) as failure:
        SentenceTransformersEmbedder(str(folder))
    assert failure.value.code == "embedder_failed"
    after = SentenceTransformersEmbedder(str(folder), widths=widths)
    assert (after.model, after.width) == (before.model, before.width)
    with pytest.raises(UnavailableError):
        after.embed_query("cat")
    (folder / name).write_bytes(whole)
    assert after.embed_query("cat").any()


@pytest.mark.parametrize("name", ["/no/such/folder", "./nothing", "~/nothing/of/the/kind"])
def test_no_such_folder(name: str) -> None:
    """A path without a folder is refused before anything is looked for elsewhere."""
    with pytest.raises(InputError) as refusal:
        make_embedder(f"sentence-transformers:{name}")
    assert (refusal.value.code, refusal.value.field) == ("bad_embedder", "MEMORIALE_EMBEDDER")


def test_reading_a_model_writes_nothing(
    folder: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """No progress bars and remarks among a program's output, and loggers stay as they were."""
    level = logging.getLogger("sentence_transformers").level
    capfd.readouterr()
    assert SentenceTransformersEmbedder(str(folder)).embed_query("cat").any()
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []
    assert logging.getLogger("sentence_transformers").level == level


def test_both_libraries_read_the_same_settings(folder: Path) -> None:
    """What the library saves of pooling and limits is understood for ONNX models as well."""
    (folder / "model.onnx").write_bytes(b"")
    found = read_folder(str(folder), "onnx:tiny")
    assert (found.pooling, found.tokens, found.further) == ("mean", POSITIONS, ())
