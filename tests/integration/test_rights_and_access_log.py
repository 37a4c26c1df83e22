"""Rights are checked in one place; refusals and uses of rights are on record before the call."""

from collections.abc import Callable
from uuid import uuid4

import pytest

from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import InputError, MissingRightError
from memoriale.domain.principal import Right


def accesses(log: TenantLog) -> list[tuple[str, str]]:
    return [(row.columns.topic, row.header) for row in log.reader.rows()]


def test_plain_use_is_not_recorded(alice: Memory, shared_ledger: Ledger, tenant: str) -> None:
    """Remembering and recalling one's own leaves no entry about rights."""
    alice.remember("x")
    alice.recall("x")
    shared_ledger.tenant(tenant).recorder.flush()
    entries = accesses(shared_ledger.tenant(tenant).access)
    assert [topic for topic, _ in entries] == ["access.recalled"]


@pytest.mark.parametrize("call", ["show", "history"])
def test_an_auditor_without_content_sees_no_text(
    call: str, shared_ledger: Ledger, tenant: str
) -> None:
    """Of another owner's memory `audit` shows who, when and what changed, and nothing that people
    wrote; `content` shows that too, and its use is on record."""
    alice = shared_ledger.memory(tenant=tenant, user="alice", namespace="clinic")
    told = {"tags": ["secret"], "metadata": {"k": "secret"}, "source": "secret", "reason": "secret"}
    memory_id = alice.remember("secret", kind="fact", subject="secret", **told).memory_id  # type: ignore[arg-type]

    def seen(*rights: Right) -> str:
        auditor = shared_ledger.memory(tenant=tenant, user="carol", rights=rights)
        found = getattr(auditor, call)(memory_id, all_owners=True)
        return str(found if call == "show" else found[0])

    assert "secret" in seen(Right.AUDIT, Right.CONTENT)
    headers_only = seen(Right.AUDIT)
    assert "secret" not in headers_only
    assert "clinic" not in headers_only
    assert "alice" in headers_only
    used = [
        h for topic, h in accesses(shared_ledger.tenant(tenant).access) if "right_used" in topic
    ]
    assert [h.count("content") for h in used] == [1, 0]


def test_another_owners_memory_is_unknown_unless_visible(
    as_user: Callable[[str], Memory],
) -> None:
    """What a caller may not see it cannot change either, and the error does not tell it from
    what does not exist."""
    secret = as_user("alice").remember("secret").memory_id
    for memory_id in (secret, uuid4()):
        with pytest.raises(InputError) as refused:
            as_user("bob").correct(memory_id, "mine now")
        assert refused.value.code == "unknown_memory"


def test_changing_what_the_whole_tenant_sees_needs_review(
    shared_ledger: Ledger, tenant: str
) -> None:
    """A memory visible to the tenant is changed by its owner, or by somebody with ``review``."""
    shared = shared_ledger.memory(tenant=tenant, user="alice").remember("rule", visibility="tenant")
    use_only = shared_ledger.memory(tenant=tenant, user="bob", rights=[Right.USE])
    assert [hit.content for hit in use_only.recall("rule")] == ["rule"]
    with pytest.raises(MissingRightError):
        use_only.correct(shared.memory_id, "no rule")
    reviewer = shared_ledger.memory(tenant=tenant, user="bob", rights=[Right.USE, Right.REVIEW])
    assert reviewer.correct(shared.memory_id, "a better rule").created
