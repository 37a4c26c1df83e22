"""Tools: functions that a language model may call, in the formats of the model providers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from memoriale.domain.errors import InputError
from memoriale.domain.text import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDef:
    """
    A function that a language model may call.

    Args:
        name: Its name, of letters, digits and underscores.
        description: When to call it and what it answers.
        parameters: JSON schema of its arguments, an object.
        handler: Called with the arguments; answers a text or JSON values. Raises ``InputError``
            for an argument that is missing or not known.
    """

    name: str
    description: str
    parameters: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    handler: Callable[[Mapping[str, Any]], Any]

    def __post_init__(self) -> None:
        handler = self.handler

        def checked(given: Mapping[str, Any]) -> Any:
            self._check(given)
            return handler(given)

        object.__setattr__(self, "handler", checked)

    def _check(self, given: Mapping[str, Any]) -> None:
        """Refuses arguments that the schema does not have, or the want of one that it needs."""
        known = [*self.parameters.get("properties", {})]
        if not isinstance(given, Mapping):
            raise InputError(
                f"tool {self.name}: the arguments are {type(given).__name__}; give an object.",
                code="bad_value",
                field="arguments",
                value=type(given).__name__,
                allowed=known,
            )
        missing = [name for name in self.parameters.get("required", ()) if name not in given]
        unknown = [name for name in given if name not in known]
        for name, what in ((missing, "is missing"), (unknown, "is not known")):
            if name:
                raise InputError(
                    f"tool {self.name}: the argument {shown(name[0])!r} {what}.",
                    code="missing" if name is missing else "unknown_field",
                    field=shown(name[0]),
                    allowed=known,
                )

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
