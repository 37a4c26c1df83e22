"""An extraction can be run again and compared with what it answered; nothing is stored."""

import json
from typing import Any
from uuid import UUID, uuid4

import pytest

from memoriale.adapters.extraction.jobs import extraction_handlers, request_extraction
from memoriale.adapters.extraction.replies import BadReplyError
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.facts import UserFacts
from memoriale.domain.differences import ValueDifference, differences
from memoriale.domain.errors import InputError
from memoriale.domain.jobs import JobStatus
from memoriale.domain.principal import Principal
from tests.integration.test_extraction import FACTS, SAID, Model


def extracted(alice: Memory, reply: Any, name: str = "facts") -> UUID:
    """A job that was done with a reply."""

    def as_(principal: Principal, branch: str) -> Memory:
        return alice.rebound(principal)

    (job_id,) = request_extraction(alice, [name], SAID, timezone="Europe/Oslo")
    (job,) = alice.services.jobs.run_due(extraction_handlers(as_, lambda: Model(reply)))
    assert job.status in (JobStatus.COMPLETED, JobStatus.FAILED)
    return job_id


def test_the_same_reply_is_equal(alice: Memory, shared_ledger: Ledger, tenant: str) -> None:
    """The model is asked the very same; the log is as before."""
    UserFacts(alice).add_facts(facts=["User has a cat"])
    first = Model(FACTS)

    def as_(principal: Principal, branch: str) -> Memory:
        return alice.rebound(principal)

    (job_id,) = request_extraction(alice, ["facts"], SAID, timezone="Europe/Oslo")
    alice.services.jobs.run_due(extraction_handlers(as_, lambda: first))
    UserFacts(alice).add_facts(facts=["User has a dog by now"])
    head = alice.services.log.head()
    again = Model(f"Here:\n```json\n{json.dumps(FACTS)}\n```")
    found = shared_ledger.jobs.compare(job_id, tenant=tenant, model=again)
    assert (found.equal, found.differences, found.prompt) == (True, (), "facts/1")
    assert again.asked[1:] == first.asked[1:]
    assert found.before == found.after
    assert alice.services.log.head() == head


def test_another_reply_differs(alice: Memory, shared_ledger: Ledger, tenant: str) -> None:
    """What each says alone is told, and which models they are."""
    job_id = extracted(alice, {**FACTS, "forget": ["a"]})
    other = {"add": [{"fact": "User lives in Bergen"}], "forget": ["a"]}
    found = shared_ledger.jobs.compare(job_id, tenant=tenant, model=Model(other))
    assert not found.equal
    told = [(d.path, d.before is None, d.after is None) for d in found.differences]
    assert told == [("add", False, True), ("add", True, False)]
    assert (found.model_before, found.model_after) == ("test model (2)", "test model (2)")
    assert len(UserFacts(alice).get_facts()) == 1


def test_what_cannot_be_compared(alice: Memory, shared_ledger: Ledger, tenant: str) -> None:
    """A job that is unknown, was not begun, failed or asked no model is refused; a reply that
    cannot be used, and no model, are errors."""
    failed, silent = extracted(alice, "nonsense"), extracted(alice, "{}", "procedures")
    (queued,) = request_extraction(alice, ["facts"], SAID)
    for job_id in (uuid4(), failed, silent, queued):
        with pytest.raises(InputError, match="job"):
            shared_ledger.jobs.compare(job_id, tenant=tenant, model=Model(FACTS))
    alice.services.jobs.cancel(alice.principal, queued)
    alice.services.jobs.cancel(alice.principal, failed)
    done = extracted(alice, FACTS)
    with pytest.raises(BadReplyError):
        shared_ledger.jobs.compare(done, tenant=tenant, model=Model("nonsense"))
    with pytest.raises(InputError, match="MEMORIALE_MODEL"):
        shared_ledger.jobs.compare(done, tenant=tenant)


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({"a": [1, 2, 2]}, {"a": [2, 1, 2]}, []),
        ({"a": [1, 2, 2]}, {"a": [2, 1]}, [("a", 2, None)]),
        ({"a": {"b": "x"}}, {"a": {"c": "y"}}, [("a.b", "x", None), ("a.c", None, "y")]),
        ([{"x": [1, 2]}], [{"x": [2, 1]}], []),
        (True, 1, [("", True, 1)]),
        ([True], [1], [("", True, None), ("", None, 1)]),
        ({"a": None}, {}, []),
        ([], {}, [("", [], {})]),
    ],
)
def test_differences_of_values(before: Any, after: Any, found: list[Any]) -> None:
    """Lists are compared without their order, objects by name, and nothing is like None."""
    assert list(differences(before, after)) == [ValueDifference(*one) for one in found]
