"""ONNX models in folders, run by the real library."""

import os
import re
import shutil
import subprocess
import sys
import threading
from importlib import util
from pathlib import Path
from typing import Any

import numpy
import pytest

from memoriale.adapters.embeddings.factory import make_embedder
from memoriale.adapters.embeddings.onnx import OnnxEmbedder
from memoriale.adapters.embeddings.widths import KnownWidths
from memoriale.domain.errors import InputError, UnavailableError
from memoriale.projections.embedding import embed_passages, embed_query
from tests.contracts.embedder import TEXTS
from tests.fixtures.onnx_models import TinyModel, hidden, unit, vocabulary

POOLING = "1_Pooling/config.json"
PROMPTS = "config_sentence_transformers.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return TinyModel().write(tmp_path / "tiny")


def test_a_vector_does_not_depend_on_its_neighbours(folder: Path) -> None:
    """Bit by bit the same alone, in a crowd, and from many threads, of a quantised model too."""
    embedder = OnnxEmbedder(str(folder))
    alone = numpy.stack([embed_query(embedder, text) for text in TEXTS])
    together = embed_passages(embedder, [*TEXTS, "zzz 999 " * 50, *TEXTS[::-1]])
    assert (together[: len(TEXTS)] == alone).all()
    assert (together[len(TEXTS) + 1 :] == alone[::-1]).all()
    found = dict[int, Any]()

    def ask(number: int) -> None:
        found[number] = embed_passages(embedder, TEXTS)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all((vectors == alone).all() for vectors in found.values())


def test_blank_texts_have_no_vector(folder: Path) -> None:
    """A text of nothing but blanks gives zeros, also beside others and with a prefix."""
    shutil.copytree(folder, folder.with_name("e5-tiny"))
    for named in (folder, folder.with_name("e5-tiny")):
        embedder = OnnxEmbedder(str(named))
        vectors = embed_passages(embedder, ["", "cat", " \n\t"])
        assert [bool(vector.any()) for vector in vectors] == [False, True, False]
        assert not embed_query(embedder, " ").any()


def test_odd_texts_have_vectors(folder: Path) -> None:
    """NUL, lone surrogates' neighbours, signs that no token stands for, a megabyte: all finite."""
    embedder = OnnxEmbedder(str(folder))
    odd = ["\0", "🎉", "上海天气", "é" * 10, "a" * 1_000_000, "cat " * 250_000, "\u202e mat"]
    vectors = embed_passages(embedder, odd)
    assert numpy.allclose(numpy.linalg.norm(vectors[1:], axis=1), 1, atol=1e-5)
    assert vectors[2] @ embed_query(embedder, "上海") > vectors[2] @ embed_query(embedder, "cat")


@pytest.mark.parametrize(
    "inputs",
    [
        ["input_ids"],
        ["input_ids", "attention_mask"],
        ["input_ids", "attention_mask", "token_type_ids", "position_ids"],
    ],
)
def test_a_model_gets_the_inputs_that_it_takes(tmp_path: Path, inputs: list[str]) -> None:
    """Models that take fewer inputs, or positions as well, give the same vectors."""
    usual = TinyModel().write(tmp_path / "usual")
    other = TinyModel(inputs=inputs).write(tmp_path / "other")
    vectors = [embed_passages(OnnxEmbedder(str(path)), TEXTS) for path in (usual, other)]
    assert (vectors[0] == vectors[1]).all()


def test_a_model_that_pools_by_itself_is_taken_at_its_word(tmp_path: Path) -> None:
    """What is called sentence_embedding is not pooled again, whatever the folder says."""
    configs = {POOLING: {"pooling_mode": "cls"}, "modules.json": [{"type": "x.Dense", "path": ""}]}
    folder = TinyModel(output="sentence_embedding", configs=configs).write(tmp_path / "tiny")
    plain = TinyModel().write(tmp_path / "plain")
    found = OnnxEmbedder(str(folder)).embed_query("the cat")
    assert numpy.allclose(found, unit(hidden(plain, "the cat").mean(axis=0)), atol=1e-6)


def test_the_name_changes_with_what_vectors_depend_on(tmp_path: Path) -> None:
    """Other weights, pooling, limit, prefixes or tokenizer are another model; the place on disk
    and a README are not."""
    variants = {
        "plain": TinyModel(),
        "weights": TinyModel(seed=2),
        "pooling": TinyModel(configs={POOLING: {"pooling_mode": "cls"}}),
        "limit": TinyModel(configs={"sentence_bert_config.json": {"max_seq_length": 16}}),
        "prompts": TinyModel(configs={PROMPTS: {"prompts": {"query": "cat "}}}),
        "tokenizer": TinyModel(),
    }
    names = {}
    for kind, model in variants.items():
        folder = model.write(tmp_path / kind / "tiny")
        if kind == "tokenizer":
            path = folder / "tokenizer.json"
            path.write_text(re.sub('"lowercase": ?true', '"lowercase": false', path.read_text()))
        names[kind] = OnnxEmbedder(str(folder)).model
    assert len(set(names.values())) == len(variants)
    assert all(name.startswith("onnx/tiny/") and name.endswith("/32") for name in names.values())
    moved = TinyModel(configs={"README.md": "moved"}).write(tmp_path / "elsewhere" / "tiny")
    assert OnnxEmbedder(str(moved)).model == names["plain"]


def test_weights_in_a_file_beside_are_part_of_the_name(tmp_path: Path) -> None:
    """Of a model whose weights lie beside it, other weights are another model."""
    first = TinyModel(weights_beside=True).write(tmp_path / "1" / "tiny")
    second = TinyModel(weights_beside=True, seed=2).write(tmp_path / "2" / "tiny")
    assert (first / "model.onnx").read_bytes() == (second / "model.onnx").read_bytes()
    embedders = [OnnxEmbedder(str(folder)) for folder in (first, second)]
    assert embedders[0].model != embedders[1].model
    assert not (embedders[0].embed_query("cat") == embedders[1].embed_query("cat")).all()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:200])


def damaged(folder: Path, name: str) -> None:
    cut(folder / name)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_damaged_file_of_an_unknown_model(folder: Path, name: str) -> None:
    """A model that was never used and cannot be read is unavailable, and the error names it."""
    damaged(folder, name)
    with pytest.raises(UnavailableError) as failure:
        OnnxEmbedder(str(folder))
    assert (failure.value.code, failure.value.field) == ("embedder_failed", "MEMORIALE_EMBEDDER")
    assert str(folder) in failure.value.message


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_known_model_keeps_its_name_while_it_is_damaged(
    folder: Path, tmp_path: Path, name: str
) -> None:
    """A new process knows model and width, embedding fails, and mended files are read again."""
    widths = KnownWidths(tmp_path / "widths.json")
    before = OnnxEmbedder(str(folder), widths=widths)
    whole = (folder / name).read_bytes()
    damaged(folder, name)
    after = OnnxEmbedder(str(folder), widths=widths)
    assert (after.model, after.width) == (before.model, before.width)
    for _ in range(2):
        with pytest.raises(UnavailableError) as failure:
            after.embed_query("cat")
        assert failure.value.code == "embedder_failed"
    (folder / name).write_bytes(whole)
    assert (after.embed_query("cat") == before.embed_query("cat")).all()


def test_another_model_in_the_same_folder_is_another_model(folder: Path, tmp_path: Path) -> None:
    """One that is put there later has its own name; a process that began with the former one
    and has not read it yet mixes nothing."""
    widths = KnownWidths(tmp_path / "widths.json")
    OnnxEmbedder(str(folder), widths=widths)
    before = OnnxEmbedder(str(folder), widths=widths)
    TinyModel(width=16, seed=3).write(folder)
    with pytest.raises(UnavailableError, match="start this process again"):
        before.embed_query("cat")
    after = OnnxEmbedder(str(folder), widths=widths)
    assert (after.width, after.embed_query("cat").shape) == (16, (16,))
    assert after.model != before.model
    assert [*widths.beginning(f"onnx:{folder}#").values()] == [16]


def test_inputs_that_an_embedder_has_not(tmp_path: Path) -> None:
    """A model that wants more than text is refused by what it wants."""
    inputs = ["input_ids", "pixel_values"]
    folder = TinyModel(inputs=inputs).write(tmp_path / "tiny")
    with pytest.raises(InputError, match="pixel_values"):
        OnnxEmbedder(str(folder))


def test_an_output_of_an_odd_shape(tmp_path: Path) -> None:
    """A model that returns no vectors of tokens or texts is unavailable, with the shape."""
    folder = TinyModel(output="odd").write(tmp_path / "tiny")
    with pytest.raises(UnavailableError, match=r"shape \[1, 1, \d+, 32\]") as failure:
        OnnxEmbedder(str(folder))
    assert failure.value.code == "bad_vectors"


def test_a_failing_run(folder: Path) -> None:
    """A token that the model has no vector for is a typed error without the text."""
    path = folder / "tokenizer.json"
    number = str(vocabulary()["cat"])
    path.write_text(path.read_text().replace(f'"cat": {number}', '"cat": 99999'))
    embedder = OnnxEmbedder(str(folder))
    with pytest.raises(UnavailableError) as failure:
        embedder.embed_passages(["mat", "the secret cat", "stock"])
    assert failure.value.code == "embedder_failed"
    assert "secret" not in failure.value.message
    assert embedder.embed_query("mat").any()


def test_the_package_is_missing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra the setting is refused, with what to install."""
    found = util.find_spec

    def find_spec(name: str) -> Any:
        return None if name == "onnxruntime" else found(name)

    monkeypatch.setattr("memoriale.adapters.embeddings.onnx.find_spec", find_spec)
    with pytest.raises(InputError, match=r"pip install memoriale\[onnx\]") as refusal:
        make_embedder(f"onnx:{folder}")
    assert refusal.value.code == "missing_package"


def run(code: str) -> str:
    """What a program prints; it ends well and has nothing to say of its own."""
    # Newer releases of Python warn of every fork beside a thread, also of one that has ended.
    command = [sys.executable, "-W", "ignore::DeprecationWarning:__main__", "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def test_naming_a_known_model_reads_none(folder: Path, tmp_path: Path) -> None:
    """When the width is known, the libraries come with the first text, and write nothing."""
    path = tmp_path / "widths.json"
    OnnxEmbedder(str(folder), widths=KnownWidths(path))
    found = run(
        "import sys; from pathlib import Path;"
        "from memoriale.adapters.embeddings.factory import make_embedder;"
        "from memoriale.adapters.embeddings.widths import KnownWidths;"
        f"e = make_embedder('onnx:{folder}', widths=KnownWidths(Path({str(path)!r})));"
        "print([m for m in ('numpy', 'onnxruntime', 'tokenizers') if m in sys.modules]);"
        "print(e.embed_query('cat').shape)"
    )
    assert found == "[]\n(32,)\n"


def test_a_process_ends_while_it_embeds(folder: Path) -> None:
    """Texts that nobody waits for any more hold no process up, and it ends well."""
    run(
        "import threading, time; from memoriale.adapters.embeddings.onnx import OnnxEmbedder;"
        f"e = OnnxEmbedder({str(folder)!r});"
        "call = lambda: e.embed_passages(['cat ' * 60] * 10_000_000);"
        "threading.Thread(target=call, daemon=True).start(); time.sleep(0.3)"
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_model_goes_on_in_a_forked_process(folder: Path) -> None:
    """A server that forks after its first question can ask in its children."""
    found = run(
        "import os; from memoriale.adapters.embeddings.onnx import OnnxEmbedder;"
        f"e = OnnxEmbedder({str(folder)!r}); before = e.embed_passages(['cat', 'mat'] * 50);"
        "child = os.fork();"
        "same = bool((e.embed_passages(['cat', 'mat'] * 50) == before).all());"
        "child or os._exit(0 if same else 1); print(os.waitpid(child, 0)[1], same)"
    )
    assert found == "0 True\n"
