"""Rights are checked in one place; refusals and uses of rights are on record before the call."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from memoriale.adapters.application.tenant_log import TenantLog
from memoriale.adapters.exporting.runner import export
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import InputError, MissingRightError
from memoriale.domain.principal import ALL_RIGHTS, Right

MEMORY_CALLS: dict[str, tuple[Right, Callable[[Memory, UUID], Any]]] = {
    "remember": (Right.USE, lambda m, i: m.remember("x")),
    "recall": (Right.USE, lambda m, i: m.recall("x")),
    "correct": (Right.USE, lambda m, i: m.correct(i, "x")),
    "amend": (Right.USE, lambda m, i: m.amend(i, importance=0.1)),
    "invalidate": (Right.USE, lambda m, i: m.invalidate(i)),
    "reinstate": (Right.USE, lambda m, i: m.reinstate(i)),
    "show": (Right.USE, lambda m, i: m.show(i)),
    "show of all": (Right.AUDIT, lambda m, i: m.show(i, all_owners=True)),
    "history": (Right.USE, lambda m, i: m.history(i)),
    "list": (Right.USE, lambda m, i: m.list()),
    "branches": (Right.USE, lambda m, i: m.branches()),
    "tree": (Right.USE, lambda m, i: m.tree()),
    "diff": (Right.USE, lambda m, i: m.diff("main", "main")),
    "fork": (Right.USE, lambda m, i: m.fork("b")),
    "import": (Right.OPERATE, lambda m, i: m.remember_many([{"content": "x", "user": "zoe"}])),
}
LEDGER_CALLS: dict[str, tuple[Right, Callable[[Ledger, str, Path], Any]]] = {
    "replay": (Right.OPERATE, lambda led, t, p: led.replay(tenant=t)),
    "verify": (Right.AUDIT, lambda led, t, p: led.verify(tenant=t)),
    "log": (Right.AUDIT, lambda led, t, p: list(led.events(tenant=t))),
    "log with content": (Right.CONTENT, lambda led, t, p: list(led.events(tenant=t, content=True))),
    "sql": (Right.ANALYSE, lambda led, t, p: led.sql("SELECT 1", tenant=t)),
    "snapshot": (Right.ANALYSE, lambda led, t, p: led.snapshot(tenant=t)),
    "stats": (Right.ANALYSE, lambda led, t, p: led.stats(tenant=t)),
    "reconcile": (Right.OPERATE, lambda led, t, p: led.reconcile(tenant=t)),
    "export": (Right.PRIVACY, lambda led, t, p: export(led, tenant=t, out=p / "x.jsonl")),
}


def accesses(log: TenantLog) -> list[tuple[str, str]]:
    return [(row.columns.topic, row.header) for row in log.reader.rows()]


@pytest.mark.parametrize("name", MEMORY_CALLS)
def test_a_memory_call_needs_its_right(name: str, shared_ledger: Ledger, tenant: str) -> None:
    """Without the right, and with all the others, the call is refused by name, nothing is stored
    in the memory log, and the refusal is in the access log."""
    right, call = MEMORY_CALLS[name]
    allowed = shared_ledger.memory(tenant=tenant, user="alice")
    memory_id = allowed.remember("x").memory_id
    services = shared_ledger.tenant(tenant)
    before = services.log.head()
    lacking = shared_ledger.memory(tenant=tenant, user="alice", rights=ALL_RIGHTS - {right})
    with pytest.raises(MissingRightError) as refused:
        call(lacking, memory_id)
    assert refused.value.allowed == right.value
    assert services.log.head() == before
    topic, header = accesses(services.access)[-1]
    assert topic == "access.denied"
    assert f'"right":"{right.value}"' in header


@pytest.mark.parametrize("name", LEDGER_CALLS)
def test_a_ledger_call_needs_its_right_and_its_use_is_recorded(
    name: str, shared_ledger: Ledger, tenant: str, tmp_path: Path
) -> None:
    """A call of an operator or auditor is refused without its right; with it, its use is on
    record."""
    right, call = LEDGER_CALLS[name]
    shared_ledger.memory(tenant=tenant, user="alice").remember("x")
    services = shared_ledger.tenant(tenant)
    everything = shared_ledger.rights
    try:
        shared_ledger.rights = everything - {right}
        with pytest.raises(MissingRightError):
            call(shared_ledger, tenant, tmp_path)
    finally:
        shared_ledger.rights = everything
    assert accesses(services.access)[-1][0] == "access.denied"
    call(shared_ledger, tenant, tmp_path)
    used = [header for topic, header in accesses(services.access) if topic == "access.right_used"]
    assert any(f'"{right.value}"' in header for header in used)


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
