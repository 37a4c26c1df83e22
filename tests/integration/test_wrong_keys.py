"""A ledger opened with other keys than its own says so, and nothing happens to it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memoriale
from memoriale.adapters.library.ledger import Ledger
from tests.fixtures.ledger import HASHING

CALLS: dict[str, Callable[[Ledger], Any]] = {
    "remember": lambda led: led.memory(tenant="t", user="alice").remember("new"),
    "recall": lambda led: led.memory(tenant="t", user="alice").recall("secret"),
    "list": lambda led: led.memory(tenant="t", user="alice").list(),
    "fork": lambda led: led.memory(tenant="t", user="alice").fork("b"),
    "import": lambda led: led.memory(tenant="t", user="a").import_lines(['{"content":"x"}']),
    "replay": lambda led: led.replay(tenant="t"),
    "reconcile": lambda led: led.reconcile(tenant="t", repair=True),
    "events with content": lambda led: list(led.events(tenant="t", content=True)),
}


@pytest.mark.parametrize("call", CALLS)
def test_another_key_store_is_refused(call: str, shared_url: str, tmp_path: Path) -> None:
    """Whatever opens or seals a body is refused with the setting's name, the log stays as it is,
    and with the right keys everything is there."""
    settings = {"home": tmp_path, "database_url": shared_url, "embedder": HASHING, "wait": 30.0}
    tenant = f"t-{call.replace(' ', '-')}-{tmp_path.name[-8:]}"
    with memoriale.open(**settings) as ledger:
        ledger.memory(tenant=tenant, user="alice").remember("secret")
    with memoriale.open(**settings, keystore=tmp_path / "other") as ledger:
        renamed = _Renamed(ledger, tenant)
        with pytest.raises(memoriale.UnavailableError) as refused:
            CALLS[call](renamed)  # type: ignore[arg-type]
        assert (refused.value.code, refused.value.field) == (
            "wrong_key_store",
            "MEMORIALE_KEYSTORE",
        )
        assert ledger.tenant(tenant).log.head() == 1
        assert all(report.ok for report in ledger.verify(tenant=tenant))
    with memoriale.open(**settings) as ledger:
        hits = ledger.memory(tenant=tenant, user="alice").recall("secret")
        assert [hit.content for hit in hits] == ["secret"]


class _Renamed:
    """A ledger whose calls on tenant ``t`` act on the test's own tenant."""

    def __init__(self, ledger: Ledger, tenant: str) -> None:
        self._ledger, self._tenant = ledger, tenant

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._ledger, name)
        return lambda **given: method(**{**given, "tenant": self._tenant})
