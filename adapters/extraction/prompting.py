"""Prompts: versioned files of this package, filled in without looking into what is put in."""

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from string import Template
from typing import Final

_REST: Final = "\nKnown "
"""Where the instructions of a prompt end, and what it tells begins."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """
    A prompt of a version. A change of its text is a new version and a new file.

    Args:
        name: What it is for.
        version: Counted from 1.
        text: With ``$names`` to be filled in.
        label: How one that a program brings along is named in the provenance.
    """

    name: str
    version: int
    text: str
    label: str | None = None

    @property
    def code(self) -> str:
        """How it is named in the provenance of what was extracted, such as ``facts/1``."""
        return self.label or f"{self.name}/{self.version}"

    def filled(self, **values: str) -> str:
        """
        The prompt with its names replaced, each once: a ``$name`` inside a value stays as it is.

        Raises:
            KeyError: A name without a value.
        """
        return Template(self.text).substitute(values)


def own_prompt(name: str, version: int, instructions: str) -> Prompt:
    """
    A prompt with other instructions than those of a version: what it tells of the conversation,
    and the form of the answer that it asks for, stay, so that the answer can still be read.

    Args:
        name, version: Of the prompt.
        instructions: Stand before the rest, as they are.
    """
    known = prompt(name, version)
    _, mark, rest = known.text.partition(_REST)
    assert mark, f"the prompt {known.code} says nothing of what is known"
    digest = sha256(instructions.encode()).hexdigest()[:16]
    text = instructions.replace("$", "$$") + "\n" + mark + rest
    return Prompt(name, version, text, f"{name}/own-{digest}")


@cache
def prompt(name: str, version: int) -> Prompt:
    """The prompt of a name and version, from ``prompts/<name>-<version>.md``."""
    file = files("memoriale.adapters.extraction") / "prompts" / f"{name}-{version}.md"
    return Prompt(name, version, file.read_text(encoding="utf-8"))
