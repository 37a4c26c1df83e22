"""Time limits of embedders, what a read allows them, and the adapter of a package not installed."""

import threading
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from memoriale.adapters.embeddings.cached import Limits
from memoriale.adapters.embeddings.factory import make_embedder
from memoriale.adapters.embeddings.hashing import HashEmbedder
from memoriale.adapters.embeddings.limits import TimeLimit
from memoriale.adapters.embeddings.wordllama import WordLlamaEmbedder
from memoriale.adapters.settings import load_settings
from memoriale.domain.errors import CorruptViewError, InputError, UnavailableError
from memoriale.projections.allowance import Allowance, allowance, allowing


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What late calls wait for; opened at the end."""
    event = threading.Event()
    yield event
    event.set()


def failing() -> None:
    raise UnavailableError("it is down", code="embedder_failed")


def test_a_call_in_time() -> None:
    """What the call returns or raises is returned or raised."""
    limit = TimeLimit("m", most=1)
    assert limit.run(lambda: 7, 60) == 7
    with pytest.raises(ZeroDivisionError):
        limit.run(lambda: 1 // 0, 60)
    assert limit.run(lambda: 8, 60) == 8


def test_a_late_call_goes_on(gate: threading.Event) -> None:
    """Its caller is told that it is late; what it computes can still be kept."""
    limit, kept = TimeLimit("m", most=2, rest=0.0), threading.Event()

    def late() -> None:
        gate.wait(60)
        kept.set()

    with pytest.raises(UnavailableError) as raised:
        limit.run(late, 0.01)
    assert raised.value.code == "embedder_timeout"
    assert limit.run(lambda: 1, 60) == 1
    gate.set()
    assert kept.wait(60)


def test_after_a_failure_calls_fail_at_once() -> None:
    """Who finds the embedder down need not be followed by everybody else."""
    limit, called = TimeLimit("m", most=1, rest=60.0), list[int]()
    with pytest.raises(UnavailableError):
        limit.run(failing, 60)
    with pytest.raises(UnavailableError, match="it is down") as raised:
        limit.run(lambda: called.append(1), 60)
    assert raised.value.code == "embedder_failed"
    assert called == []


def test_a_rest_ends() -> None:
    """After the rest the embedder is asked again."""
    limit = TimeLimit("m", most=1, rest=0.0)
    with pytest.raises(UnavailableError):
        limit.run(failing, 60)
    assert limit.run(lambda: 1, 60) == 1


def test_rests_grow_until_a_call_succeeds() -> None:
    """Each failure after another doubles the rest; a success ends the series."""
    limit = TimeLimit("m", most=1, rest=0.02)
    for _ in range(4):
        failed_after_rest(limit)
    assert limit.rest == pytest.approx(0.32)
    while True:
        try:
            limit.run(lambda: None, 60)
            break
        except UnavailableError:
            continue
    assert limit.rest == pytest.approx(0.02)


def failed_after_rest(limit: TimeLimit) -> None:
    """Fails a call, waiting for the rest before to end."""
    failed = threading.Event()

    def fail() -> None:
        failed.set()
        failing()

    while not failed.is_set():
        with pytest.raises(UnavailableError):
            limit.run(fail, 60)


def test_an_unfair_call_starts_no_rest(gate: threading.Event) -> None:
    """A call that had hardly any time says nothing about the embedder."""
    limit = TimeLimit("m", most=2, rest=60.0)
    with pytest.raises(UnavailableError):
        limit.run(lambda: gate.wait(60), 0.01, fair=1.0)
    assert limit.run(lambda: 1, 60) == 1


def test_late_calls_do_not_pile_up(gate: threading.Event) -> None:
    """While as many calls run as may, one more fails at once."""
    limit = TimeLimit("m", most=1, rest=0.0)
    with pytest.raises(UnavailableError):
        limit.run(lambda: gate.wait(60), 0.01)
    with pytest.raises(UnavailableError, match="busy"):
        limit.run(lambda: 1, 60)


def test_models_in_this_process_are_called_directly() -> None:
    """The default embedder and the one for tests need no thread; others do."""
    assert not Limits(WordLlamaEmbedder()).needed
    assert not Limits(HashEmbedder()).needed
    assert Limits(Elsewhere()).needed


class Elsewhere:
    model, width = "elsewhere", 3

    def embed_passages(self, texts: Sequence[str]) -> Any:
        return [[1.0] * 3 for _ in texts]

    def embed_query(self, text: str) -> Any:
        return [1.0] * 3


def test_an_allowance_holds_in_its_block() -> None:
    """Without one there is no limit, and a failure is an error."""
    assert allowance() is None
    outer, inner = Allowance(1.0, optional=True), Allowance(2.0, optional=False)
    with allowing(outer):
        with allowing(inner):
            assert allowance() is inner
        assert allowance() is outer
    assert allowance() is None


def test_an_allowance_is_of_its_thread() -> None:
    """A thread that builds a view beside is not limited by the read that started it."""
    seen: list[Allowance | None] = []
    with allowing(Allowance(1.0, optional=True)):
        thread = threading.Thread(target=lambda: seen.append(allowance()))
        thread.start()
        thread.join()
    assert seen == [None]


@pytest.mark.parametrize(
    ("error", "optional", "expected"),
    [
        (UnavailableError("x", code="embedder_failed"), True, True),
        (UnavailableError("x", code="embedder_timeout"), True, True),
        (UnavailableError("x", code="bad_vectors"), True, True),
        (UnavailableError("x", code="embedder_failed"), False, False),
        (UnavailableError("x", code="disk_full"), True, False),
        (CorruptViewError("x"), True, False),
    ],
)
def test_what_is_put_up_with(error: UnavailableError, optional: bool, expected: bool) -> None:
    """Only failures of the embedder, and only in reads that are not strict."""
    allowed = Allowance(1.0, optional=optional)
    assert allowed.puts_up_with(error) is expected
    assert allowed.failure is (error if expected else None)


@pytest.mark.skipif(find_spec("sentence_transformers") is not None, reason="it is installed")
def test_sentence_transformers_is_missing() -> None:
    """Without the package the setting is refused, with what to install."""
    with pytest.raises(InputError, match=r"memoriale\[sentence-transformers\]") as refusal:
        make_embedder("sentence-transformers:all-MiniLM-L6-v2")
    assert (refusal.value.code, refusal.value.field) == ("missing_package", "MEMORIALE_EMBEDDER")


@pytest.mark.parametrize("spec", ["sentence-transformers:", "sentence-transformers: x"])
def test_sentence_transformers_without_a_model(spec: str) -> None:
    """A name that can be none is refused."""
    with pytest.raises(InputError, match="names no model"):
        make_embedder(spec)


def test_settings_of_the_endpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Address and key come from the variables that other programs use, and the key is hidden."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert load_settings().openai_endpoint.url == "https://api.openai.com/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://host/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a-secret-key")
    settings = load_settings()
    endpoint = settings.openai_endpoint
    assert (endpoint.url, endpoint.key) == ("http://host/v1", "sk-a-secret-key")
    assert "sk-a-secret-key" not in f"{settings!r} {settings.shown()} {endpoint!r}"
    given = load_settings(openai_base_url="http://other/v1")
    assert given.openai_endpoint.url == "http://other/v1"
    monkeypatch.setenv("OPENAI_API_KEY", "")
    assert load_settings().openai_endpoint.key is None
    (tmp_path / "memoriale.toml").write_text('openai_base_url = "http://file/v1"')
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert load_settings().openai_endpoint.url == "http://file/v1"
