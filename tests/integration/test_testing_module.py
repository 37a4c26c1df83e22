"""memoriale.testing: what users' own tests are given."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import SecretStr

from memoriale.adapters.composition import build
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.postgres.committer import Committer
from memoriale.adapters.settings import Settings
from memoriale.domain.errors import InputError, UnavailableError
from memoriale.projections.generations import Generations
from memoriale.testing import FixedClock, HashEmbedder, faults
from tests.fixtures.ledger import HASHING

USERS_TESTS = """
from datetime import timedelta

import pytest

from memoriale.testing import FixedClock

NOON = "2031-01-01T12:00:00+00:00"


@pytest.fixture
def memoriale_clock():
    return FixedClock(NOON)


@pytest.mark.parametrize("user", ["alice", "bob"])
def test_each_test_has_an_empty_ledger(memoriale_ledger, user):
    memory = memoriale_ledger.memory(tenant="acme", user="alice")
    assert memory.list().memories == ()
    memory.remember("alice drinks tea")
    assert [hit.content for hit in memory.recall("tea")] == ["alice drinks tea"]


def test_the_clock_of_reads_is_the_tests_own(memoriale_ledger, memoriale_clock):
    memory = memoriale_ledger.memory(tenant="acme", user="alice")
    memory.remember("soon over", expires_at="2031-01-01T13:00:00+00:00")
    assert memory.recall("soon").now.isoformat() == NOON
    assert len(memory.recall("soon")) == 1
    memoriale_clock.advance(timedelta(hours=1))
    assert len(memory.recall("soon")) == 0
"""
IMPORTS = """
import pkgutil, importlib, sys
import memoriale
for module in pkgutil.walk_packages(memoriale.__path__, "memoriale."):
    if "testing" not in module.name:
        importlib.import_module(module.name)
forbidden = ("pytest", "memoriale.testing", "memoriale.adapters.testing.")
print(*(name for name in sys.modules if name.startswith(forbidden)))
"""
CRASH = """
import sys
import memoriale
from memoriale.testing import faults
home, url, embedder, tenant, point = sys.argv[1:]
with memoriale.open(home=home, database_url=url, embedder=embedder, wait=30) as ledger:
    memory = ledger.memory(tenant=tenant, user="alice")
    with faults.killing(point):
        memory.remember("written while dying")
        memory.recall("anything")
        ledger.replay("recall", tenant=tenant)
"""
WRITTEN_BEFORE = {
    point: int(point not in ("write.sealing", "write.appending")) for point in faults.POINTS
}


@pytest.fixture
def clock() -> FixedClock:
    """A clock of the test's own."""
    return FixedClock(datetime(2031, 1, 1, 12, tzinfo=UTC))


@pytest.fixture
def clocked(shared_url: str, ledger_home: Path, clock: FixedClock) -> Iterator[Memory]:
    """The memory of a user whose reads take the time from the clock."""
    settings = Settings.model_construct(
        home=ledger_home, database_url=SecretStr(shared_url), embedder=HASHING, wait=30.0
    )
    with Ledger(build(settings, clock=clock)) as ledger:
        yield ledger.memory(tenant=f"t-{uuid4().hex[:12]}", user="alice")


def test_users_tests_run_with_the_fixtures() -> None:
    """`pytest_plugins = ["memoriale.testing"]` gives each test an empty ledger and lets it set
    the clock; nothing is left in the temporary folder, and settings of the environment do not
    reach it."""
    with tempfile.TemporaryDirectory(prefix="mem-") as folder:
        tests, scratch = Path(folder, "tests"), Path(folder, "t")
        tests.mkdir()
        scratch.mkdir()
        (tests / "conftest.py").write_text('pytest_plugins = ["memoriale.testing"]\n')
        (tests / "test_mine.py").write_text(USERS_TESTS)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        own = {"TMPDIR": str(scratch), "MEMORIALE_DATABASE_URL": "postgresql://nowhere.invalid/x"}
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests)],
            env={**environment, **own},
            cwd=tests,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        assert "3 passed" in run.stdout
        assert [*scratch.iterdir()] == []


def test_the_product_needs_nothing_of_it() -> None:
    """No other module imports the testing package, nor pytest."""
    run = subprocess.run(
        [sys.executable, "-c", IMPORTS], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == []


def test_the_clock_decides_expiry_validity_and_age(clocked: Memory, clock: FixedClock) -> None:
    """Recall and list count expiry, the default valid time and ages to the clock."""
    clocked.remember("passing tea", expires_at="2031-01-01T13:00:00Z")
    clocked.remember("coming tea", valid_from="2031-01-01T13:00:00Z")
    assert [m.content for m in clocked.list().memories] == ["passing tea"]
    young = clocked.recall("tea")
    assert (young.now, [h.content for h in young]) == (clock(), ["passing tea"])
    assert clock.advance(timedelta(hours=1)) == datetime(2031, 1, 1, 13, tzinfo=UTC)
    assert [m.content for m in clocked.list().memories] == ["coming tea"]
    near = clocked.recall("tea")[0].recency
    clock.set("2031-06-01T00:00:00+02:00")
    assert clocked.recall("tea")[0].recency < near


def test_the_clock_never_reaches_what_is_recorded(clocked: Memory, clock: FixedClock) -> None:
    """A write has the database's time, and a question as of its index counts to that."""
    receipt = clocked.remember("tea")
    assert abs(receipt.recorded_at - datetime.now(UTC)) < timedelta(minutes=10)
    assert clocked.recall("tea", as_of=receipt.index).now == receipt.recorded_at
    assert clocked.recall("tea").now == clock()


def test_a_clock_needs_a_time_with_its_offset(clock: FixedClock) -> None:
    """A naive time is refused, as everywhere at the edge, and so is a move out of range."""
    for bad in (datetime(2031, 1, 1), "2031-01-01T00:00:00", "noon"):
        with pytest.raises(InputError):
            FixedClock(bad)
        with pytest.raises(InputError):
            clock.set(bad)
    with pytest.raises(InputError):
        clock.advance(timedelta.max)
    assert clock() == datetime(2031, 1, 1, 12, tzinfo=UTC)


def test_the_embedder_is_the_one_that_settings_can_name() -> None:
    """`HashEmbedder` gives equal vectors for equal texts."""
    embedder = HashEmbedder(8)
    assert (embedder.embed_query("tea") == embedder.embed_passages(["tea"])[0]).all()


@pytest.mark.parametrize("point", ["write.sealing", "write.appending"])
def test_a_fault_before_the_append_stores_nothing(
    alice: Memory, shared_ledger: Ledger, tenant: str, point: str
) -> None:
    """The write raises, the log has no event of it, and the next write works."""
    with faults.raising(point, UnavailableError("down", code="test")) as fault:
        with pytest.raises(UnavailableError):
            alice.remember("lost")
        with pytest.raises(UnavailableError):
            alice.remember_many(["lost too"])
    assert fault.reached == 2
    assert shared_ledger.tenant(tenant).log.head() == 0
    assert alice.remember("kept").index == 0


def test_a_fault_after_the_append_loses_only_the_receipt(alice: Memory) -> None:
    """The event is stored; a retry with the same idempotency key gets its receipt."""
    with faults.raising("write.appended", times=1), pytest.raises(faults.FaultError):
        alice.remember("kept", idempotency_key="k")
    again = alice.remember("kept", idempotency_key="k")
    assert (again.index, again.created) == (0, False)


@pytest.mark.parametrize("point", ["view.posting", "view.posted", "view.swapping", "view.swapped"])
def test_a_fault_in_a_view_is_healed_by_the_next_read(alice: Memory, point: str) -> None:
    """The read raises; once the point is disarmed the answer is complete."""
    alice.remember("alice drinks tea")
    with faults.raising(point) as fault, pytest.raises(faults.FaultError):
        alice.recall("tea")
    assert fault.reached == 1
    assert [h.content for h in alice.recall("tea")] == ["alice drinks tea"]


@pytest.mark.parametrize("point", [*faults.POINTS])
def test_a_kill_at_any_point_loses_no_receipt_and_breaks_no_view(
    as_user: Callable[[str], Memory],
    shared_url: str,
    ledger_home: Path,
    shared_ledger: Ledger,
    tenant: str,
    point: str,
) -> None:
    """The process dies there; afterwards the log holds the event or not as the point says, and
    the view equals a rebuild."""
    run = subprocess.run(
        [sys.executable, "-c", CRASH, str(ledger_home), shared_url, HASHING, tenant, point],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == -9, run.stderr
    alice = as_user("alice")
    assert len(alice.list().memories) == WRITTEN_BEFORE[point]
    (report,) = shared_ledger.replay("recall", tenant=tenant, verify=True)
    assert report.equal


def test_skip_and_times_choose_which_passages_fail(alice: Memory) -> None:
    """The first ``skip`` passages are unharmed, the next ``times`` fail, the others are again."""
    outcomes = []
    with faults.raising("write.appending", skip=1, times=2) as fault:
        for _ in range(5):
            try:
                alice.remember("x")
                outcomes.append(True)
            except faults.FaultError:
                outcomes.append(False)
    assert outcomes == [True, False, False, True, True]
    assert fault.reached == 5


def test_an_unarmed_point_costs_nothing() -> None:
    """Arming replaces methods and disarming puts the very same ones back, in whatever order."""
    before = (Committer.submit, Committer.submit_many, Generations.publish)
    with ExitStack() as one, ExitStack() as other:
        for point in faults.POINTS:
            (one if len(point) % 2 else other).enter_context(faults.raising(point))
        one.enter_context(faults.raising("write.appended"))
        assert Committer.submit is not before[0]
        one.close()
        other.close()
    assert (Committer.submit, Committer.submit_many, Generations.publish) == before


def test_an_unknown_point_is_refused() -> None:
    """The error lists the points that there are."""
    for arm in (faults.raising, faults.killing):
        with pytest.raises(InputError) as refused, arm("write.nowhere"):
            pass
        assert refused.value.allowed == [*faults.POINTS]
