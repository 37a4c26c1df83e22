"""Importing JSON lines: bad ones are told, good ones stored once, however it is repeated."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memoriale
from memoriale.adapters.embedded import stop
from memoriale.adapters.importing.report import ImportInterruptedError, ImportReport
from memoriale.adapters.importing.runner import BATCH_LINES, import_file, import_lines
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import InputError, MissingRightError
from memoriale.domain.principal import ALL_RIGHTS, Right
from tests.fixtures.ledger import HASHING

FROM_STANDARD_INPUT = """
import json, sys
import memoriale
from memoriale.adapters.importing.runner import import_file
home, url, embedder, tenant = sys.argv[1:]
with memoriale.open(home=home, database_url=url, embedder=embedder) as ledger:
    memory = ledger.memory(tenant=tenant, user="alice")
    print(json.dumps(import_file(memory, "-", "jsonl").as_dict()))
"""


def line(content: str, **fields: Any) -> str:
    return json.dumps({"content": content, **fields})


def contents(ledger: Ledger, tenant: str) -> list[str]:
    """What is stored, in the order of the log."""
    events = ledger.events(tenant=tenant, content=True)
    return [event.body["payload"]["content"] for event in events if event.body]


def counts(report: ImportReport) -> tuple[int, int, int, int]:
    return report.read, report.remembered, report.skipped, report.rejected_count


def test_bad_lines_are_told_and_good_ones_stored(
    alice: Memory, shared_ledger: Ledger, tenant: str
) -> None:
    """Every bad line is rejected with its number, field and code, in the order of the file; the
    lines around it are stored; empty ones are not counted."""
    lines: list[str | bytes] = [
        "\ufeff" + line("first"),
        "",
        line("x", colour="red"),
        line("x", kind="poem"),
        line("x", valid_from="2024-01-01T10:00:00"),
        line("x", valid_from="2024-01-02T00:00:00Z", valid_until="2024-01-01T00:00:00Z"),
        b'{"content": "\xff"}',
        line("   "),
        line("x", user="u" * 257),
        line("x", source_run_id=""),
        line("x", visibility="everybody"),
        line("x", owner="cat"),
        line("x", owner="team"),
        line("x", idempotency_key=""),
        line("x", namespace="\x00"),
        line("x" * 1_048_577),
        line("x", metadata={"a": "y" * 65_537}),
        line("x", subject="contact"),
        line("last") + "\r\n",
    ]
    report = import_lines(alice, lines)
    assert [(r.line, r.field) for r in report.rejected] == [
        (3, "colour"),
        (4, "kind"),
        (5, "valid_from"),
        (6, "valid_until"),
        (7, "line"),
        (8, "content"),
        (9, "user"),
        (10, "source_run_id"),
        (11, "visibility"),
        (12, "owner"),
        (13, "team"),
        (14, "idempotency_key"),
        (15, "namespace"),
        (16, "content"),
        (17, "metadata"),
        (18, "subject"),
    ]
    assert all(rejection.reason and rejection.code for rejection in report.rejected)
    assert counts(report) == (18, 2, 0, 16)
    assert contents(shared_ledger, tenant) == ["first", "last"]


def test_equal_lines_are_different_memories_and_repeating_stores_nothing(
    alice: Memory, shared_ledger: Ledger, tenant: str
) -> None:
    """Two equal lines are two memories; the file again, in another order, or longer, adds only
    what is new."""
    lines = [line("a"), line("b"), line("a")]
    assert counts(import_lines(alice, lines)) == (3, 3, 0, 0)
    assert counts(import_lines(alice, lines)) == (3, 0, 3, 0)
    assert counts(import_lines(alice, [line("c"), *reversed(lines), line("a")])) == (5, 2, 3, 0)
    assert Counter(contents(shared_ledger, tenant)) == {"a": 3, "b": 1, "c": 1}


def test_the_same_line_written_otherwise_is_the_same_memory(alice: Memory) -> None:
    """The order of the fields, spaces, escapes and null fields do not make another line."""
    import_lines(alice, ['{"content": "café", "importance": 0.5}'])
    again: list[str | bytes] = ['{"importance":0.5,"kind":null,"content":"caf\\u00e9"}', b"", "\n"]
    assert counts(import_lines(alice, again)) == (1, 0, 1, 0)


def test_another_caller_repeats_an_import(shared_ledger: Ledger, tenant: str) -> None:
    """Lines that another actor imported for the same owner are known, not refused."""
    lines = [line("a"), line("b")]
    for actor, expected in (("ann", (2, 2, 0, 0)), ("ben", (2, 0, 2, 0))):
        memory = shared_ledger.memory(tenant=tenant, user="alice", actor=actor)
        assert counts(import_lines(memory, lines)) == expected


def test_an_own_key_with_other_content_is_refused(alice: Memory) -> None:
    """A line's own idempotency key decides: equal is skipped, other content is an error."""
    assert counts(import_lines(alice, [line("a", idempotency_key="1")])) == (1, 1, 0, 0)
    lines = [line("a", idempotency_key="1"), line("b", idempotency_key="1")]
    report = import_lines(alice, lines)
    assert counts(report) == (2, 0, 1, 1)
    assert (report.rejected[0].line, report.rejected[0].field) == (2, "idempotency_key")


def test_the_same_lines_on_a_branch_or_for_another_owner_are_other_memories(
    alice: Memory, as_user: Callable[[str], Memory]
) -> None:
    """Idempotency is per owner and branch."""
    lines = [line("a"), line("b")]
    import_lines(alice, lines)
    assert counts(import_lines(as_user("bob"), lines)) == (2, 2, 0, 0)
    branch = alice.fork("what-if")
    assert counts(import_lines(branch, lines)) == (2, 2, 0, 0)
    assert counts(import_lines(branch, lines)) == (2, 0, 2, 0)


def test_a_claimed_time_is_kept_and_is_not_the_recorded_time(alice: Memory) -> None:
    """``created_at`` is kept as given, with its offset; the recorded time is the database's."""
    claimed = "2019-05-06T07:08:09+05:45"
    import_lines(alice, [line("long ago", created_at=claimed)])
    record = alice.list().memories[0]
    assert record.given_times["created_at"] == claimed
    assert record.created_at.year > 2019
    assert record.source_tier == "imported"


def test_every_field_of_a_line_arrives(shared_ledger: Ledger, tenant: str) -> None:
    """What a line says is what the memory holds, for the owner that it names."""
    given = {
        "kind": "fact",
        "user": "zoe",
        "agent": "helper",
        "subject": "preference:contact",
        "importance": 0.75,
        "confidence": 0.5,
        "tags": ["a", "b"],
        "source": "letters",
        "source_run_id": "run 7",
        "evidence": ["page 3"],
        "valid_from": "2020-01-01T00:00:00+01:00",
        "valid_until": "2030-01-01T00:00:00+01:00",
        "namespace": "org/team",
        "visibility": "agent",
        "metadata": {"n": [1, {"m": None}]},
    }
    importer = shared_ledger.memory(tenant=tenant, user="importer")
    assert counts(import_lines(importer, [line("café \U0001f375", **given)])) == (1, 1, 0, 0)
    zoe = shared_ledger.memory(tenant=tenant, user="zoe", namespace="org/team")
    record = zoe.list().memories[0]
    assert record.content == "café \U0001f375"
    assert record.owner is not None
    assert tuple(record.owner) == ("user", "zoe")
    for field in ("kind", "subject", "importance", "confidence", "source", "visibility"):
        assert getattr(record, field) == given[field]
    assert (record.tags, record.evidence) == (("a", "b"), ("page 3",))
    assert (record.namespace, record.metadata) == ("org/team", given["metadata"])
    assert record.given_times["valid_from"] == given["valid_from"]
    assert importer.list().memories == ()


def test_facts_of_equal_subject_replace_each_other_in_the_order_of_the_file(
    alice: Memory,
) -> None:
    """Only the last line about a subject is current, also when the import is repeated."""
    lines = [line(f"phone {n}", kind="fact", subject="phone") for n in range(3)]
    for _ in range(2):
        import_lines(alice, lines)
        assert [record.content for record in alice.list().memories] == ["phone 2"]


def test_an_import_needs_the_right_to_operate(shared_ledger: Ledger, tenant: str) -> None:
    """Without ``operate`` nothing is read and nothing stored, whoever the lines are for."""

    def never() -> Iterator[str]:
        pytest.fail("a line was read")
        yield ""

    lacking = shared_ledger.memory(tenant=tenant, user="alice", rights=ALL_RIGHTS - {Right.OPERATE})
    with pytest.raises(MissingRightError) as refused:
        import_lines(lacking, never())
    assert refused.value.allowed == "operate"
    assert contents(shared_ledger, tenant) == []


def test_a_file_longer_than_a_batch_is_stored_in_order(
    alice: Memory, shared_ledger: Ledger, tenant: str, tmp_path: Path
) -> None:
    """Order, indices and progress hold over several batches."""
    expected = [f"line {number}" for number in range(2 * BATCH_LINES + 7)]
    file = tmp_path / "lines.jsonl"
    file.write_text("".join(line(content) + "\n" for content in expected))
    told: list[tuple[str, int, int]] = []
    report = import_file(alice, file, "jsonl", progress=lambda *progress: told.append(progress))
    assert (report.first_index, report.last_index) == (0, len(expected) - 1)
    assert contents(shared_ledger, tenant) == expected
    size = file.stat().st_size
    assert {total for _, _, total in told} == {size}
    done = [done for _, done, _ in told]
    assert done == sorted(done)
    assert done[-1] == size


def test_only_the_first_rejections_are_listed(alice: Memory) -> None:
    """A file of bad lines alone is counted to the end in bounded memory."""
    report = import_lines(alice, ("{" for _ in range(10_050)))
    assert counts(report) == (10_050, 0, 0, 10_050)
    assert [rejection.line for rejection in report.rejected] == list(range(1, 10_001))


@pytest.mark.parametrize("name", ["missing.jsonl", "", ".", "a\0b"])
def test_a_file_that_is_not_there_is_bad_input(
    alice: Memory, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing file or a folder is an error of the argument."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as refused:
        import_file(alice, name, "jsonl")
    assert refused.value.field == "file"


def test_an_unknown_format_is_bad_input(alice: Memory, tmp_path: Path) -> None:
    """Formats that do not exist are refused with the list of those that do."""
    with pytest.raises(InputError) as refused:
        import_file(alice, tmp_path / "x.csv", "csv")
    assert (refused.value.field, refused.value.allowed) == ("format", ["jsonl", "locomo"])


def test_standard_input_is_read_byte_for_byte(
    shared_ledger: Ledger, ledger_home: Path, shared_url: str, tenant: str
) -> None:
    """``-`` reads standard input as UTF-8, whatever the locale says."""
    given = ["日本語 🍵", "مرحبا", "e\u0301"]
    run = subprocess.run(
        [sys.executable, "-c", FROM_STANDARD_INPUT, str(ledger_home), shared_url, HASHING, tenant],
        input="\n".join(json.dumps({"content": c}, ensure_ascii=False) for c in given).encode(),
        capture_output=True,
        timeout=120,
        check=True,
    )
    assert json.loads(run.stdout)["remembered"] == 3
    assert contents(shared_ledger, tenant) == given


def test_a_database_that_stops_in_the_middle_is_told_and_the_import_goes_on(home: Path) -> None:
    """The error says how many lines are stored; the same import again stores the rest, once."""
    lines = [line(f"line {number}") for number in range(3 * BATCH_LINES)]

    def broken() -> Iterator[str]:
        yield from lines[:BATCH_LINES]
        stop(home)
        yield from lines[BATCH_LINES:]

    with (
        memoriale.open(home=home, embedder=HASHING, embedded_idle=0) as ledger,
        pytest.raises(ImportInterruptedError) as interrupted,
    ):
        import_lines(ledger.memory(tenant="t", user="alice"), broken())
    report = interrupted.value.report
    assert report.remembered >= BATCH_LINES - 1
    assert f"{report.stored} lines are stored; run the same import" in interrupted.value.message
    with memoriale.open(home=home, embedder=HASHING, embedded_idle=0) as ledger:
        again = import_lines(ledger.memory(tenant="t", user="alice"), lines)
        assert again.remembered + again.skipped == len(lines)
        assert again.skipped >= report.stored
        assert Counter(contents(ledger, "t")) == Counter(f"line {n}" for n in range(len(lines)))
