"""``add`` and the jobs that it asks for, run as users run them."""

import json
from pathlib import Path

import pytest

from tests.fixtures.cli import CommandLine

SAYING = "tests.fixtures.operations:Saying"
SAID = [{"role": "user", "content": "Alice drinks tea\nAlice plays chess"}]


@pytest.fixture
def alice(cli: CommandLine, request: pytest.FixtureRequest) -> CommandLine:
    """Alice in a tenant of the test's own, without a model."""
    tenant = request.node.name.replace("test_", "")[:40]
    return cli.under({"MEMORIALE_TENANT": tenant, "MEMORIALE_USER": "alice"})


@pytest.fixture
def said(tmp_path: Path) -> str:
    """A file with messages."""
    file = tmp_path / "said.json"
    file.write_text(json.dumps(SAID))
    return str(file)


def test_what_is_added_is_done_by_jobs_run(alice: CommandLine, said: str) -> None:
    """``add`` accepts and says so; the job runs where there is a model, and recall finds it."""
    made = alice("add", said, "--op-id", " mine ", "--json").json()
    assert (made["op_id"], made["status"]) == ("mine", "queued")
    assert (made["extracted"], made["stored_ids"]) == ([], [])
    (job,) = alice("jobs", "list", "--json").json()["jobs"]
    assert (job["id"], job["op_id"], job["status"]) == (made["job"], "mine", "queued")
    (done,) = alice.under({"MEMORIALE_MODEL": SAYING})("jobs", "run", "--json").json()["jobs"]
    assert done["status"] == "completed"
    hits = alice("recall", "what does Alice drink?", "--kind", "item", "--json").json()["hits"]
    assert hits[0]["content"] == "Alice drinks tea"
    assert {hit["memory_id"] for hit in hits} == set(done["result"]["stored"])


def test_without_a_model_jobs_stay_queued(alice: CommandLine, said: str) -> None:
    """``jobs run`` says which setting is missing, with code 5, however often it is asked; nothing
    is counted as tried, and where there is a model everything is done."""
    for _ in range(2):
        alice("add", said, "--json")
    for setting, value in (("none", "none"), ("no.such.module:factory", "no.such.module:factory")):
        run = alice.under({"MEMORIALE_MODEL": setting})("jobs", "run", "--json")
        error = run.error()
        assert (run.code, error["field"], error["value"]) == (5, "MEMORIALE_MODEL", value)
        assert "2 jobs" in error["message"]
        jobs = alice("jobs", "list", "--json").json()["jobs"]
        assert [(job["status"], job["attempts"]) for job in jobs] == [("queued", 0)] * 2
    done = alice.under({"MEMORIALE_MODEL": SAYING})("jobs", "run", "--json").json()["jobs"]
    assert [job["status"] for job in done] == ["completed"] * 2


def test_an_add_is_waited_for(alice: CommandLine, tmp_path: Path) -> None:
    """With ``--wait`` it is worked on here; messages may be a line each; a repeated key gives the
    same answer."""
    file = tmp_path / "said.jsonl"
    file.write_text("\n".join(json.dumps(message) for message in SAID) + "\n\n")
    with_model = alice.under({"MEMORIALE_MODEL": SAYING})
    arguments = ("add", str(file), "--wait", "--idempotency-key", "k", "--tag", "home", "--json")
    made = with_model(*arguments).json()
    assert made["status"] == "completed"
    assert [f["content"] for f in made["extracted"]] == ["Alice drinks tea", "Alice plays chess"]
    assert len(made["stored_ids"]) == 2
    again = with_model(*arguments).json()
    assert again == made
    other = with_model("add", str(file), "--idempotency-key", "k", "--json")
    assert (other.code, other.error()["code"]) == (2, "idempotency_mismatch")


def test_a_queued_add_is_cancelled_for_good(alice: CommandLine, said: str) -> None:
    """It never runs; a second time is refused and says how it stands; it can be asked for again."""
    job = alice("add", said, "--json").json()["job"]
    assert alice("jobs", "cancel", job, "--json").json()["status"] == "cancelled"
    again = alice("jobs", "cancel", job, "--json")
    assert (again.code, again.error()["value"]) == (2, "cancelled")
    with_model = alice.under({"MEMORIALE_MODEL": SAYING})
    assert with_model("jobs", "run", "--json").json()["jobs"] == []
    assert alice("list", "--kind", "item", "--json").json()["memories"] == []
    alice("jobs", "retry", job, "--json").json()
    (done,) = with_model("jobs", "run", "--json").json()["jobs"]
    assert (done["id"], done["status"]) == (job, "completed")


def test_a_failed_add_says_why(alice: CommandLine, said: str) -> None:
    """Exit code 5 where it was waited for; the messages are kept."""
    talking = alice.under({"MEMORIALE_MODEL": "tests.fixtures.operations:Scripted"})
    broken = alice.under({"MEMORIALE_MODEL": "tests.fixtures.operations:talkative"})
    assert talking("add", said, "--wait", "--json").json()["extracted"] == []
    failed = broken("add", said, "--wait", "--json")
    assert failed.code == 5
    told = json.loads(failed.out)
    assert (told["status"], told["error"]) == ("errored", "bad_reply")
    assert alice("jobs", "show", told["job"], "--json").json()["status"] == "errored"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "out_of_range"),
        ("[]", "out_of_range"),
        ("nonsense", "bad_json"),
        ('{"role": "user"', "bad_json"),
        ('[{"role": "poet", "content": "x"}]', "bad_value"),
        ('["x"]', "bad_value"),
        ('[{"role": "user", "content": "  "}]', "empty"),
    ],
)
def test_messages_that_cannot_be_read_are_refused(
    alice: CommandLine, tmp_path: Path, text: str, code: str
) -> None:
    """Exit code 2, and no job."""
    file = tmp_path / "said.json"
    file.write_text(text)
    run = alice("add", str(file), "--json")
    assert (run.code, run.error()["code"]) == (2, code)
    assert alice("jobs", "list", "--json").json()["jobs"] == []


def test_what_cannot_be_added_is_refused(alice: CommandLine, said: str, tmp_path: Path) -> None:
    """Nobody's messages, no such file, no model to wait for."""
    nobody = alice.under({"MEMORIALE_USER": ""})
    for run, code in (
        (alice("add", str(tmp_path / "none"), "--json"), "unreadable"),
        (alice("add", said, "--wait", "--json"), "no_model"),
        (nobody("add", said, "--json"), None),
    ):
        assert run.code == 2
        assert code in (None, run.error()["code"])
    assert alice("jobs", "list", "--json").json()["jobs"] == []


def test_messages_and_keys_that_cannot_be_stored_are_bad_input(
    alice: CommandLine, said: str, tmp_path: Path
) -> None:
    """A lone surrogate in a message or a key ends with code 2 and names the field; no job is
    there."""
    file = tmp_path / "bad.json"
    file.write_text('[{"role": "user", "content": "a\\ud800"}]')
    for arguments, field in (
        (("add", str(file)), "messages[0].content"),
        (("add", said, "--idempotency-key", "a\udcff"), "idempotency_key"),
        (("add", said, "--idempotency-key", ""), "idempotency_key"),
    ):
        refused = alice(*arguments, "--json")
        assert (refused.code, refused.error()["field"]) == (2, field)
    assert alice("jobs", "list", "--json").json()["jobs"] == []
