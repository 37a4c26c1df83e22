"""The runner seals what was written, by this process and by others."""

from collections.abc import Callable

from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.runner.runner import Runner
from memoriale.adapters.sealing.sealing import target_of
from tests.fixtures.embedded import eventually
from tests.fixtures.sealing import TENANT, remembered


def unsealed(ledger: Ledger, tenant: str) -> int:
    services = ledger.tenant(tenant)
    sealing = ledger.infrastructure.sealing
    return sum(sealing.extent(target_of(log)).unsealed for log in (services.log, services.access))


def test_a_runner_seals(sealable: Ledger, open_ledger: Callable[[], Ledger]) -> None:
    """Events of several tenants are sealed soon after they were written, whoever wrote them."""
    for tenant in ("acme", "beta"):
        remembered(sealable, 1, tenant)
    with open_ledger() as other, Runner(sealable, tenants=["acme", "beta"], views=["stats"]):
        for count in (1, 3):
            remembered(sealable, count, "acme")
            remembered(other, count, "beta")
            assert eventually(lambda: not unsealed(sealable, "acme") + unsealed(sealable, "beta"))
    assert all(report.ok for report in sealable.verify(tenant="acme"))


def test_what_is_left_is_sealed_at_the_end(sealable: Ledger) -> None:
    """A runner that is stopped leaves nothing unsealed."""
    with Runner(sealable, tenants=[TENANT], views=["stats"]):
        remembered(sealable, 5)
    assert unsealed(sealable, TENANT) == 0


def test_what_cannot_be_sealed_is_said(sealable: Ledger) -> None:
    """Without its key the runner goes on and says why; with it back it seals."""
    key = sealable.infrastructure.sealing.key
    with Runner(sealable, tenants=[TENANT], views=["stats"]) as runner:
        remembered(sealable, 1)
        assert eventually(lambda: unsealed(sealable, TENANT) == 0)
        content = key.path.read_text()
        key.path.unlink()
        remembered(sealable, 1)
        assert eventually(lambda: f"{TENANT} memory" in runner.unsealed())
        key.path.write_text(content)
        assert eventually(lambda: unsealed(sealable, TENANT) == 0)
        assert eventually(lambda: runner.unsealed() == {})
