"""Running an extraction again, to see whether a model answers as before; nothing is stored."""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from pydantic import JsonValue

from memoriale.adapters.application.jobs import Work
from memoriale.adapters.application.presenting import as_json
from memoriale.adapters.extraction.extractors import EXTRACTORS
from memoriale.adapters.extraction.jobs import PREFIX, conversation_of
from memoriale.adapters.extraction.replies import read_reply
from memoriale.adapters.library.memory import Memory
from memoriale.domain.chat import ModelProvider
from memoriale.domain.differences import ValueDifference, differences
from memoriale.domain.errors import InputError
from memoriale.domain.jobs import Job
from memoriale.domain.text import shown

_BY_TYPE: Final = {f"{PREFIX}{name}": extractor for name, extractor in EXTRACTORS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyComparison:
    """
    Two replies to one question.

    Args:
        job_id: The job that asked it first.
        prompt: With which prompt, such as ``facts/1``.
        model_before, model_after: Which models answered.
        before, after: What they answered, as read.
        equal: Whether they say the same; the order of lists does not count.
        differences: In what they differ.
    """

    job_id: UUID
    prompt: str
    model_before: str
    model_after: str
    before: JsonValue
    after: JsonValue
    equal: bool
    differences: tuple[ValueDifference, ...]

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        values: dict[str, Any] = as_json(self)
        return values


def compare(work: Work, started: int, memory: Memory, model: ModelProvider) -> ReplyComparison:
    """
    Asks what a job asked: with its conversation, its prompt version, and what was known then.

    Args:
        work: The job.
        started: Index at which its last attempt began.
        memory: A handle as whom the job acted.
        model: Answers.

    Raises:
        InputError: The job holds no reply.
        BadReplyError: The answer cannot be used.
        UnavailableError: The model gave none.
    """
    job = work.job
    extractor = _BY_TYPE.get(job.type)
    raw, prompt = job.result.get("reply"), job.result.get("prompt")
    if extractor is None or not isinstance(raw, str) or not isinstance(prompt, str):
        raise _holds_none(job)
    answer = extractor.ask(
        memory,
        model,
        conversation_of(job),
        job.arguments["config"],
        version=int(prompt.rpartition("/")[2]),
        as_of=started,
    )
    if answer is None:
        raise _holds_none(job)
    before = _value(read_reply(raw, extractor.reply))
    after = _value(answer.value)
    found = tuple(differences(before, after))
    return ReplyComparison(
        job_id=job.id,
        prompt=prompt,
        model_before=str(job.result["model"]),
        model_after=answer.model,
        before=before,
        after=after,
        equal=not found,
        differences=found,
    )


def _value(reply: Any) -> JsonValue:
    value: JsonValue = reply.model_dump(mode="json")
    return value


def _holds_none(job: Job) -> InputError:
    return InputError(
        f"job {job.id} ({shown(job.type)}, {job.status.value}) holds no reply of an extraction.",
        code="no_reply",
        field="job_id",
        value=str(job.id),
        allowed="a completed job of extraction whose texts were not erased",
    )
