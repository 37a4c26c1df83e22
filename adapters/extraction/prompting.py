"""Prompts: versioned files of this package, filled in without looking into what is put in."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template


@dataclass(frozen=True, slots=True)
class Prompt:
    """
    A prompt of a version. A change of its text is a new version and a new file.

    Args:
        name: What it is for.
        version: Counted from 1.
        text: With ``$names`` to be filled in.
    """

    name: str
    version: int
    text: str

    @property
    def code(self) -> str:
        """How it is named in the provenance of what was extracted, such as ``facts/1``."""
        return f"{self.name}/{self.version}"

    def filled(self, **values: str) -> str:
        """
        The prompt with its names replaced, each once: a ``$name`` inside a value stays as it is.

        Raises:
            KeyError: A name without a value.
        """
        return Template(self.text).substitute(values)


@cache
def prompt(name: str, version: int) -> Prompt:
    """The prompt of a name and version, from ``prompts/<name>-<version>.md``."""
    file = files("memoriale.adapters.extraction") / "prompts" / f"{name}-{version}.md"
    return Prompt(name, version, file.read_text(encoding="utf-8"))
