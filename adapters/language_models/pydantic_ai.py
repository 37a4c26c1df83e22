"""Language models through pydantic-ai: those behind an OpenAI-compatible endpoint, and others."""

import asyncio
import importlib
from collections.abc import AsyncIterator, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from memoriale.adapters.embeddings.endpoint import DEFAULT_URL, Endpoint
from memoriale.adapters.language_models.failures import STUMBLES, as_ours, no_answer
from memoriale.domain.chat import ChatMessage, ModelReply, model_code

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.providers import Provider
    from pydantic_ai.settings import ModelSettings

T = TypeVar("T")
OPENAI: Final = "openai"


class PydanticAiModel:
    """
    A language model that pydantic-ai knows. Each call is one request: nothing is asked again
    behind the caller's back, so that calls can be counted. Safe to share between threads.

    Errors hold neither what was sent, nor a key, nor what the endpoint said.

    Args:
        name: As pydantic-ai names models: ``provider:model``. ``openai:MODEL`` asks for chat
            completions at the endpoint; every other provider has settings of its own.
        endpoint: Where ``openai:`` asks.

    Raises:
        ImportError: A package is missing.
        pydantic_ai.exceptions.UserError: There is no such model, or it lacks a key.
    """

    def __init__(self, name: str, endpoint: Endpoint | None = None) -> None:
        self._name, self._endpoint = name, endpoint or Endpoint()
        if self._made_by() == OPENAI:
            importlib.import_module("pydantic_ai.models.openai")
        else:
            self._of_provider()

    @property
    def model_id(self) -> str:
        """The name, as it may stand in clear."""
        return model_code(self._name)

    def generate(
        self,
        messages: list[ChatMessage],
        *,
        schema: dict[str, Any],
        temperature: float = 0.0,
        max_tokens: int = 800,
        timeout: float = 60.0,
    ) -> ModelReply:
        """
        See ``ModelProvider.generate``. Models that reason as a matter of course take no
        temperature, and are given none.

        Raises:
            ModelError: There is no reply, or only part of one.
        """
        from pydantic_ai.exceptions import AgentRunError, UserError

        settings: ModelSettings = {
            "max_tokens": max_tokens,
            "max_retries": 0,
            "request_timeout": timeout,
            "temperature": temperature,
        }
        try:
            reply = _run(self._asked(turns(messages), settings, schema))
        except (AgentRunError, UserError, *STUMBLES) as error:
            raise as_ours(error, self._name, timeout) from None
        if reply.finish_reason not in (None, "stop"):
            raise no_answer(self._name, str(reply.finish_reason), max_tokens)
        if not reply.text:
            raise no_answer(self._name, "empty", max_tokens)
        return ModelReply(text=reply.text, model=reply.model_name or self._name)

    async def _asked(
        self, messages: Sequence["ModelMessage"], settings: "ModelSettings", schema: dict[str, Any]
    ) -> "ModelResponse":
        from pydantic_ai.direct import model_request

        # A client serves one event loop, and each call has its own.
        async with self._opened() as model:
            if model.profile.get("thinking_enabled_by_default"):
                del settings["temperature"]
            return await model_request(
                model,
                messages,
                model_settings=settings,
                model_request_parameters=_wanted(model, schema),
            )

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator["Model"]:
        if self._made_by() != OPENAI:
            async with self._of_provider() as model:
                yield model
            return
        from pydantic_ai.models.openai import OpenAIChatModel

        from memoriale.adapters.language_models.client import bounded_client

        async with bounded_client(self._endpoint) as client:
            name = self._name.removeprefix(f"{OPENAI}:")
            yield OpenAIChatModel(name, provider=_provider(self._endpoint, client))

    def _of_provider(self) -> "Model":
        from pydantic_ai.models import infer_model

        return infer_model(self._name)

    def _made_by(self) -> str:
        return self._name.partition(":")[0]


def turns(messages: Sequence[ChatMessage]) -> list["ModelMessage"]:
    """A conversation in pydantic-ai's classes."""
    from pydantic_ai import messages as parts

    found: list[ModelMessage] = []
    called: dict[str, str] = {}
    for message in messages:
        text = message.text()
        if message.role == "assistant":
            calls = [
                parts.ToolCallPart(c.name, _args(c.arguments), c.id) for c in message.tool_calls
            ]
            called |= {call.id: call.name for call in message.tool_calls}
            words = [parts.TextPart(text)] if text else []
            found.append(parts.ModelResponse(parts=[*words, *calls]))
            continue
        part: parts.ModelRequestPart
        if message.role == "system":
            part = parts.SystemPromptPart(text)
        elif message.role == "tool" and message.tool_call_id in called:
            call = message.tool_call_id
            part = parts.ToolReturnPart(called[call], text, tool_call_id=call)
        else:
            part = parts.UserPromptPart(text)
        found.append(parts.ModelRequest(parts=[part]))
    return found


def _args(arguments: Any) -> str | dict[str, Any] | None:
    if arguments is None or isinstance(arguments, (str, dict)):
        return arguments
    return {"value": arguments}


def _wanted(model: "Model", schema: dict[str, Any]) -> "ModelRequestParameters":
    """An object by a schema: as the model's own output mode where it has one, else as a prompt."""
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition

    native = model.profile.get("supports_json_schema_output", False)
    # Not strict: fields may be left out, which means something else than null.
    return ModelRequestParameters(
        output_mode="native" if native else "prompted",
        output_object=OutputObjectDefinition(schema, name="reply", strict=False),
    )


def _provider(endpoint: Endpoint, client: "AsyncOpenAI") -> "Provider[AsyncOpenAI]":
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    if endpoint.url == DEFAULT_URL:
        return OpenAIProvider(openai_client=client)
    return OpenAICompatibleProvider("openai-compatible", openai_client=client)


def _run(call: Coroutine[Any, Any, T]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(call)
    # Whoever calls from inside an event loop waits for another one in a thread.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, call).result()
