"""Tools: functions that a language model may call, in the formats of the model providers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDef:
    """
    A function that a language model may call.

    Args:
        name: Its name, of letters, digits and underscores.
        description: When to call it and what it answers.
        parameters: JSON schema of its arguments, an object.
        handler: Called with the arguments; answers a text or JSON values.
    """

    name: str
    description: str
    parameters: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    handler: Callable[[Mapping[str, Any]], Any]

    def as_openai(self) -> dict[str, Any]:
        """As an entry of ``tools`` of OpenAI's chat completions."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
        }
        return {"type": "function", "function": function}

    def as_anthropic(self) -> dict[str, Any]:
        """As an entry of ``tools`` of Anthropic's messages."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": self.parameters,
        }

    def as_mcp(self) -> dict[str, Any]:
        """As an entry of ``tools/list`` of the Model Context Protocol."""
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.parameters,
        }


def object_schema(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    """The JSON schema of a tool's arguments: an object with these properties and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [*required],
        "additionalProperties": False,
    }
