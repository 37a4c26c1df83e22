"""Learnings that a text may contradict, looked for within a time limit."""

from concurrent.futures import Future
from concurrent.futures import TimeoutError as OutOfTime
from threading import Thread
from typing import Final
from uuid import UUID

from memoriale.adapters.application.recalling import Question
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import BehindError, UnavailableError
from memoriale.domain.stores.learnings import LEARNING
from memoriale.domain.text import MAX_QUERY_CHARACTERS

MOST: Final = 1_000


def similar_learnings(memory: Memory, text: str, threshold: float, wait: float) -> list[UUID]:
    """
    The tenant's learnings that the caller may see and whose similarity to a text reaches a
    threshold.

    Args:
        memory: The caller.
        text: What they are compared with.
        threshold: Least cosine, 0..1.
        wait: Seconds that the view may take to catch up.

    Raises:
        BehindError: The view did not, or vectors are missing: the answer could lack some.
        UnavailableError: View or embedder cannot be used.
    """
    # Nobody is told what is found here, so it is no recall of the caller's.
    question = Question(
        query=text[:MAX_QUERY_CHARACTERS],
        kinds=(LEARNING,),
        top_k=MOST,
        min_score=threshold,
        legs="vector",
        wait=wait,
        strict=True,
    )
    recalling = memory.services.recalling
    found = recalling.recall(memory.principal, memory.branch_view(), question)
    return [hit.memory_id for hit in found if not hit.is_global]


def similar_in_time(
    memory: Memory, text: str, threshold: float, seconds: float
) -> list[UUID] | None:
    """
    The same within a time limit; None when it was not known for sure by then. The search that
    came too late ends by itself in its thread.
    """
    answer: Future[list[UUID]] = Future()

    def search() -> None:
        try:
            answer.set_result(similar_learnings(memory, text, threshold, seconds))
        except (BehindError, UnavailableError) as error:
            answer.set_exception(error)
        except BaseException as error:
            answer.set_exception(error)
            raise

    Thread(target=search, name="memoriale-similar", daemon=True).start()
    try:
        return answer.result(seconds)
    except (OutOfTime, BehindError, UnavailableError):
        return None
