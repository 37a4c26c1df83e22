"""Prompts: what was extracted names the version that was asked with, so none ever changes."""

import json
from hashlib import sha256
from pathlib import Path
from string import Template

from memoriale.adapters.extraction import prompting
from memoriale.adapters.extraction.extractors import EXTRACTORS
from memoriale.adapters.extraction.prompting import prompt

GOLDEN = Path(__file__).parents[1] / "golden" / "prompts.json"
FOLDER = Path(prompting.__file__).parent / "prompts"


def test_a_version_of_a_prompt_never_changes() -> None:
    """Another text is another version, in a file and a line of the golden file of its own."""
    found = {
        file.stem.replace("-", "/"): sha256(file.read_bytes()).hexdigest()
        for file in FOLDER.iterdir()
    }
    assert found == json.loads(GOLDEN.read_text())


def test_every_extractor_has_its_prompt() -> None:
    """Its version is there, and says today's date and the conversation."""
    for name, extractor in EXTRACTORS.items():
        asked = prompt(extractor.name, extractor.version)
        assert asked.code == f"{name}/{extractor.version}"
        assert {"today", "conversation"} <= set(Template(asked.text).get_identifiers())
