"""A model as a folder of files: what exporters to ONNX and sentence-transformers write."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, Final

from memoriale.adapters.embeddings.digests import FilesDigest
from memoriale.adapters.embeddings.prefixes import Prefixes, prefixes_of
from memoriale.domain.errors import InputError
from memoriale.domain.text import shown

POOLINGS: Final = {
    "cls": "cls",
    "mean": "mean",
    # Differs from the mean by a factor, which goes with the vector's length.
    "mean_sqrt_len_tokens": "mean",
    "max": "max",
    "lasttoken": "last",
}
"""How a text's vector is made of its tokens' vectors, by the names in ``1_Pooling``."""
MOST_TOKENS: Final = 2_048
"""Of a text, whatever the model allows: what attention needs grows with the square."""
_USUAL_TOKENS: Final = 512
_FEWEST_TOKENS: Final = 8
_UNUSUAL: Final = re.compile(r"[^\w.+-]+")
_FLAG: Final = re.compile(r"pooling_mode_(\w+?)(_tokens?)?")
_INCLUDED: Final = frozenset({"Transformer", "Pooling", "Normalize"})
"""Kinds of modules that a model file and the embedder do the work of."""
_PAD_COUNTED: Final = frozenset({"camembert", "longformer", "mpnet", "roberta", "xlm-roberta"})
"""Kinds of models whose first position is the one after the padding's."""
_WEIGHTS: Final = re.compile(rb"\n\x08location\x12([\x01-\x7f])")
"""Before the name of another file with weights, in a model file."""


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """What a folder says about its model."""

    path: Path
    name: str
    model: Path
    """``model.onnx``."""
    tokenizer: Path
    pooling: str
    tokens: int
    """That are read of a text."""
    prefixes: Prefixes
    further: tuple[str, ...]
    """Modules after the pooling, which only a model file that pools by itself can hold."""
    _digest: FilesDigest

    def digest(self) -> str:
        """
        What the model's vectors depend on: files and settings, in 16 hexadecimal digits.

        Raises:
            OSError: A file cannot be read.
        """
        return self._digest.of([self.model, self.tokenizer, *_weights(self.model)])


def read_folder(named: str, setting: str) -> ModelFolder:
    """
    Reads a folder's small files.

    Args:
        named: The folder; ``~`` is the user's home.
        setting: What names it, for errors.

    Raises:
        InputError: There is no such folder, a file is missing, or one says what cannot be done.
    """
    path = Path(named).expanduser().resolve()
    if not path.is_dir():
        raise refused(setting, f"{shown(str(path))} is no folder", "a folder with model.onnx")
    model = _first(path, ("model.onnx", "onnx/model.onnx"), setting)
    tokenizer = _first(path, ("tokenizer.json", "onnx/tokenizer.json"), setting)
    modules = _modules(path, setting)
    pooling = _pooling(_object(path / modules.get("Pooling", "1_Pooling"), setting), setting)
    config = _object(path, setting)
    tokens = _tokens(path, config, setting)
    prompts = _object(path, setting, "config_sentence_transformers.json").get("prompts")
    name = model_name(path)
    prefixes = prefixes_of(name, prompts if isinstance(prompts, dict) else None)
    return ModelFolder(
        path=path,
        name=name,
        model=model,
        tokenizer=tokenizer,
        pooling=pooling,
        tokens=tokens,
        prefixes=prefixes,
        further=tuple(kind for kind in modules if kind not in _INCLUDED),
        _digest=FilesDigest(json.dumps([1, pooling, tokens, prefixes])),
    )


def model_name(folder: Path) -> str:
    """A model's name by its folder, also in a hub's cache, where folders are named by hashes."""
    in_cache = folder.parent.name == "snapshots"
    name = folder.parent.parent.name.rsplit("--", 1)[-1] if in_cache else folder.name
    return _UNUSUAL.sub("_", name) or "model"


def refused(setting: str, why: str, allowed: str) -> InputError:
    """
    The error of a folder that cannot be used.

    Args:
        setting: What names it.
        why: What is wrong.
        allowed: What would be right.
    """
    return InputError(
        f"MEMORIALE_EMBEDDER {shown(setting)!r}: {why}; needed is {allowed}.",
        code="bad_embedder",
        field="MEMORIALE_EMBEDDER",
        value=shown(setting),
        allowed=allowed,
    )


def _first(folder: Path, names: tuple[str, ...], setting: str) -> Path:
    found = next((folder / name for name in names if (folder / name).is_file()), None)
    if found is None:
        allowed = f"the file {' or '.join(names)} in it"
        raise refused(setting, f"the folder has no {names[0]}", allowed)
    return found


def _json(path: Path, setting: str) -> Any:
    """What a file holds; None without the file."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise refused(setting, f"{path.name} cannot be read ({error})", "valid JSON") from error


def _object(folder: Path, setting: str, name: str = "config.json") -> Mapping[str, Any]:
    found = _json(folder / name, setting)
    if found is not None and not isinstance(found, dict):
        raise refused(setting, f"{name} holds no object", "a JSON object")
    return found or {}


def _modules(folder: Path, setting: str) -> dict[str, str]:
    """Folders of a model's modules by kind, in their order."""
    found = _json(folder / "modules.json", setting) or []
    try:
        return {str(one["type"]).rsplit(".", 1)[-1]: str(one["path"]) for one in found}
    except (KeyError, TypeError):
        allowed = "a list of modules with type and path"
        raise refused(setting, "modules.json lists no modules", allowed) from None


def _pooling(config: Mapping[str, Any], setting: str) -> str:
    """The mean, unless the folder says otherwise."""
    named = config.get("pooling_mode")
    if named is None:
        flags = ((_FLAG.fullmatch(key), value) for key, value in config.items())
        modes = [match[1] for match, value in flags if match and value is True]
        # The older name of one of them, less its ending.
        modes = ["mean_sqrt_len_tokens" if mode == "mean_sqrt_len" else mode for mode in modes]
        if not config:
            modes = ["mean"]
    else:
        modes = [str(mode) for mode in (named if isinstance(named, list) else [named])]
    if len(modes) != 1 or modes[0] not in POOLINGS:
        why = f"its pooling is {shown(' and '.join(modes) or 'none')}"
        raise refused(setting, why, f"one of {', '.join(POOLINGS)}")
    if config.get("include_prompt") is False:
        raise refused(setting, "its pooling leaves out prompts", "a pooling over the whole text")
    return POOLINGS[modes[0]]


def _tokens(folder: Path, config: Mapping[str, Any], setting: str) -> int:
    own = _count(_object(folder, setting, "sentence_bert_config.json").get("max_seq_length"))
    told = _count(_object(folder, setting, "tokenizer_config.json").get("model_max_length"))
    positions = _count(config.get("max_position_embeddings"))
    if positions and config.get("model_type") in _PAD_COUNTED:
        padding = config.get("pad_token_id")
        positions -= padding + 1 if isinstance(padding, int) else 2
    known = [count for count in (own or told, positions) if count]
    return min([*known, MOST_TOKENS] if known else [_USUAL_TOKENS])


def _count(value: Any) -> int | None:
    # Tokenizers without a limit say 10 to the power of 30.
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and _FEWEST_TOKENS <= value <= 1_000_000 else None


def _weights(model: Path) -> set[Path]:
    """Files beside a model file that hold weights of it."""
    found = set[Path]()
    with model.open("rb") as file:
        if not model.stat().st_size:
            return found
        with mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            for match in _WEIGHTS.finditer(content):
                name = content[match.end() : match.end() + match[1][0]]
                path = model.parent / name.decode(errors="replace")
                if b"\0" not in name and path.is_file():
                    found.add(path)
    return found
