"""Bad input ends with its exit code, names the field, and stores nothing."""

import json
from uuid import uuid4

import pytest

from tests.fixtures.cli import CommandLine

ID = str(uuid4())

# What is wrong, the arguments, and the code and the field of the error.
REMEMBER = [
    ("empty content", ("",), "empty", "content"),
    ("blank content", (" \t\u00a0\n",), "empty", "content"),
    ("content over the limit", ("x" * 65,), "too_long", "content"),
    ("a byte that is not UTF-8", (b"caf\xe9",), "bad_character", "content"),
    ("unknown kind", ("x", "--kind", "poem"), "unknown_kind", "kind"),
    ("importance over 1", ("x", "--importance", "1.01"), "out_of_range", "importance"),
    ("importance under 0", ("x", "--importance=-0.1"), "out_of_range", "importance"),
    ("importance NaN", ("x", "--importance", "nan"), "out_of_range", "importance"),
    ("confidence infinite", ("x", "--confidence", "inf"), "out_of_range", "confidence"),
    ("importance no number", ("x", "--importance", "much"), "usage", "importance"),
    ("naive time", ("x", "--valid-from", "2026-01-01T00:00:00"), "naive_datetime", "valid_from"),
    ("naive expiry", ("x", "--expires", "2026-01-01"), "naive_datetime", "expires_at"),
    ("no time", ("x", "--valid-until", "tomorrow"), "bad_time", "valid_until"),
    (
        "a span that ends before it begins",
        ("x", "--valid-from", "2026-02-01T00:00:00Z", "--valid-until", "2026-01-01T00:00:00Z"),
        "bad_span",
        "valid_until",
    ),
    ("unknown branch", ("x", "--branch", "nowhere"), "unknown_branch", "branch"),
    ("empty branch", ("x", "--branch", ""), "empty", "branch"),
    ("unknown memory to replace", ("x", "--supersedes", ID), "unknown_memory", "supersedes"),
    ("no id", ("x", "--supersedes", "that one"), "bad_id", "supersedes"),
    ("tenant with a space", ("x", "--tenant", "a b"), "bad_name", "tenant"),
    ("empty tenant", ("x", "--tenant", ""), "bad_name", "tenant"),
    ("tenant too long", ("x", "--tenant", "t" * 65), "bad_name", "tenant"),
    ("reserved tenant", ("x", "--tenant", "_global"), "reserved", "tenant"),
    ("empty user", ("x", "--user", ""), "empty", "user"),
    ("user too long", ("x", "--user", "u" * 257), "too_long", "user"),
    ("user not UTF-8", ("x", "--user", b"\xff"), "bad_character", "user"),
    ("purpose in words", ("x", "--purpose", "to see"), "bad_name", "purpose"),
    ("owner whom the caller is not", ("x", "--owner", "team"), "no_owner", "team"),
    ("owner of no type", ("x", "--owner", "cat"), "bad_value", "owner"),
    ("visibility", ("x", "--visibility", "all"), "bad_value", "visibility"),
    ("subject of a note", ("x", "--subject", "y"), "wrong_kind", "subject"),
    ("metadata no JSON", ("x", "--metadata", "{"), "bad_json", "metadata"),
    ("metadata no object", ("x", "--metadata", "[1]"), "bad_value", "metadata"),
    ("NaN in metadata", ("x", "--metadata", '{"a": [NaN]}'), "bad_json", "metadata"),
    ("infinity in metadata", ("x", "--metadata", '{"a": -Infinity}'), "bad_json", "metadata"),
    ("overflow in metadata", ("x", "--metadata", '{"a": 1e999}'), "bad_value", "metadata.a"),
    ("NUL in metadata", ("x", "--metadata", r'{"a": "\u0000"}'), "bad_character", "metadata.a"),
    (
        "lone surrogate in metadata",
        ("x", "--metadata", r'{"a": {"b": ["c", "\ud800"]}}'),
        "bad_character",
        "metadata.a.b[1]",
    ),
    ("depth of metadata", ("x", "--metadata", "[" * 60_000), "bad_json", "metadata"),
    ("one key twice", ("x", "--metadata", '{"a": 1, "a": 2}'), "bad_json", "metadata"),
    ("tag not UTF-8", ("x", "--tag", b"\xff"), "bad_character", "tags"),
    ("evidence not UTF-8", ("x", "--evidence", b"\xff"), "bad_character", "evidence"),
    ("reason not UTF-8", ("x", "--reason", b"\xff"), "bad_character", "reason"),
    ("namespace of slashes", ("x", "--namespace", "//"), "bad_namespace", "namespace"),
    ("retention in words", ("x", "--retention", "a year"), "bad_name", "retention_class"),
    ("no text", (), "usage", "text"),
    ("unknown option", ("x", "--colour", "red"), "usage", "colour"),
    ("option without value", ("x", "--kind"), "usage", "kind"),
]
OTHERS = [
    ("query over the limit", ("recall", "q" * 16_385), "too_long", "query"),
    ("empty query", ("recall", ""), "empty", "query"),
    ("query not UTF-8", ("recall", b"\xff"), "bad_character", "query"),
    ("no hits wanted", ("recall", "x", "--top-k", "0"), "out_of_range", "top_k"),
    ("too many hits", ("recall", "x", "--top-k", "1001"), "out_of_range", "top_k"),
    ("similarity over 1", ("recall", "x", "--min-score", "2"), "out_of_range", "min_score"),
    ("unknown order", ("recall", "x", "--rank", "age"), "out_of_range", "rank"),
    ("wait under 0", ("recall", "x", "--wait=-1"), "out_of_range", "wait"),
    ("wait NaN", ("recall", "x", "--wait", "nan"), "out_of_range", "wait"),
    ("unknown kind asked", ("recall", "x", "--kind", "poem"), "unknown_kind", "kind"),
    ("as-of beyond the log", ("recall", "x", "--as-of", "999999"), "out_of_range", "as_of"),
    ("as-of in future", ("recall", "x", "--as-of", "2999-01-01T00:00:00Z"), "in_future", "as_of"),
    ("as-of naive", ("list", "--as-of", "2026-01-01T00:00:00"), "naive_datetime", "as_of"),
    ("as-of of no form", ("list", "--as-of", "-3"), "bad_time", "as_of"),
    ("valid-at naive", ("recall", "x", "--valid-at", "2026-01-01"), "naive_datetime", "valid_at"),
    ("show no id", ("show", "7"), "bad_id", "memory_id"),
    ("show unknown", ("show", ID), "unknown_memory", "memory_id"),
    ("history unknown", ("history", ID), "unknown_memory", "memory_id"),
    ("correct unknown", ("correct", ID, "x"), "unknown_memory", "memory_id"),
    ("correct with nothing", ("correct", ID, " "), "empty", "content"),
    ("amend unknown", ("amend", ID, "--importance", "1"), "unknown_memory", "memory_id"),
    ("amend nothing", ("amend", ID), "empty", "importance"),
    ("clear unknown", ("amend", ID, "--clear", "content"), "bad_value", "clear"),
    (
        "clear and give",
        ("amend", ID, "--clear", "importance", "--importance", "1"),
        "bad_value",
        "clear",
    ),
    ("invalidate unknown", ("invalidate", ID), "unknown_memory", "memory_id"),
    ("unknown code", ("invalidate", ID, "--because", "boredom"), "bad_value", "because"),
    ("reinstate unknown", ("reinstate", ID), "unknown_memory", "memory_id"),
    ("fork main", ("fork", "main"), "taken", "branch"),
    ("fork without name", ("fork", " "), "empty", "branch"),
    ("fork from nowhere", ("fork", "b", "--from", "nowhere"), "unknown_branch", "branch"),
    ("fork beyond the log", ("fork", "b", "--at", "999999"), "out_of_range", "at"),
    ("unknown format", ("import", "-", "--format", "xml"), "unknown_format", "format"),
    ("no such file", ("import", "/no/such/file"), "no_such_file", "file"),
]
CALLERLESS = [
    ("wait for what is not there", ("wait", "999999"), "out_of_range", "as_of"),
    ("wait for a word", ("wait", "soon"), "usage", "index"),
    ("unknown view waited for", ("wait", "0", "--view", "dreams"), "unknown_view", "view"),
    ("no event to prove", ("receipt", "999999"), "out_of_range", "index"),
    ("no log to prove from", ("receipt", "0", "--log", "x"), "unknown_log", "log"),
    ("checkpoint of no log", ("checkpoint", "--log", "x"), "bad_value", "log"),
    ("no such checkpoint", ("consistency", "/no/a", "/no/b"), "unreadable", "old"),
    ("no such proof", ("receipt-check", "/no/proof"), "unreadable", "file"),
    ("no such outside checkpoint", ("verify", "--checkpoint", "/no"), "unreadable", "checkpoint"),
    ("restored without a reason", ("restored", "--reason", ""), "empty", "reason"),
    ("unknown view replayed", ("replay", "--view", "dreams"), "unknown_view", "view"),
    ("log of a reserved tenant", ("log", "--tenant", "_x"), "reserved", "tenant"),
    ("log from before its begin", ("log", "--after=-5"), "usage", "after"),
    ("list from no index", ("list", "--after", "9" * 30), "usage", "after"),
    ("wait for no index", ("wait", "9" * 30), "usage", "index"),
    ("timeout NaN", ("wait", "0", "--timeout", "nan"), "usage", "timeout"),
    ("timeout under 0", ("wait", "0", "--timeout=-1"), "usage", "timeout"),
    ("limit under 0", ("log", "--limit=-1"), "usage", "limit"),
    ("verify of an empty tenant", ("verify", "--tenant", ""), "bad_name", "tenant"),
    ("export without place", ("export",), "usage", "out"),
    ("unknown command", ("forget-all",), "usage", "command"),
]

CASES = [
    *((name, ("remember", *given), code, field) for name, given, code, field in REMEMBER),
    *OTHERS,
]


@pytest.mark.parametrize(
    ("arguments", "code", "field"), [pytest.param(*case[1:], id=case[0]) for case in CASES]
)
def test_bad_input_names_the_field_and_stores_nothing(
    cli: CommandLine, arguments: tuple[str | bytes, ...], code: str, field: str
) -> None:
    """Exit code 2, the error as JSON on standard error, and not one event more than before."""
    before = cli.events()
    run = cli(
        arguments[0],
        "--json",
        *arguments[1:],
        MEMORIALE_USER="alice",
        MEMORIALE_MAX_CONTENT_BYTES="64",
    )
    error = run.error()
    assert run.code == 2, error
    assert (error["code"], error["field"]) == (code, field), error
    assert error["message"]
    assert error["retry"] is False
    assert cli.events() == before


@pytest.mark.parametrize(
    ("stdin", "code"),
    [
        (b"", "empty"),
        (b"a\x00b", "bad_character"),
        (b"caf\xe9", "bad_encoding"),
        (b"\xed\xa0\x80", "bad_encoding"),
        (b"\xc3", "bad_encoding"),
        ("é".encode() * 33, "too_long"),
        (b"\xff" * 100, "too_long"),
    ],
)
@pytest.mark.parametrize("command", [("remember", "-"), ("correct", ID, "-")])
def test_standard_input_is_checked_as_content(
    cli: CommandLine, command: tuple[str, ...], stdin: bytes, code: str
) -> None:
    """Nothing, NUL bytes, bytes that are not UTF-8, and too many of them are refused."""
    before = cli.events()
    variables = {"MEMORIALE_USER": "alice", "MEMORIALE_MAX_CONTENT_BYTES": "64"}
    error = cli(*command, "--json", stdin=stdin, **variables).error()
    assert (error["code"], error["field"]) == (code, "content")
    assert cli.events() == before


def test_a_memory_needs_an_owner(cli: CommandLine) -> None:
    """A tenant alone is a caller, but it cannot own a memory."""
    before = cli.events()
    run = cli("remember", "x", "--json")
    assert run.code == 2
    assert run.error()["code"] == "no_owner"
    assert cli.events() == before


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MEMORIALE_MAX_CONTENT_BYTES", "many"),
        ("MEMORIALE_WAIT", "-1"),
        ("MEMORIALE_TIMEZONE", "Mars/Olympus"),
        ("MEMORIALE_LOG_LEVEL", "loud"),
    ],
)
def test_a_wrong_setting_is_named(cli: CommandLine, variable: str, value: str) -> None:
    """Every command says which variable is wrong, what it is and what is allowed."""
    for command in (["status"], ["config", "show"], ["version"]):
        run = cli.under({variable: value})(*command, "--json")
        error = run.error()
        assert run.code == 2
        assert (error["code"], error["field"], error["value"]) == ("bad_setting", variable, value)
        assert error["allowed"]


def test_people_get_one_line(cli: CommandLine) -> None:
    """Without --json an error is one line on standard error that cannot change the terminal."""
    for arguments in (
        ["remember", "x", "--user", "a", "--kind", "\x1b[31mred\nline"],
        ["remember", "x", "--\x1b[31m"],
        ["\x1b[31m"],
        ["show", "\x1b[31m"],
    ):
        run = cli(*arguments)
        assert run.code == 2
        assert run.out == b""
        assert run.errors.startswith(b"error: ")
        assert run.errors.count(b"\n") == 1
        assert b"\x1b" not in run.errors


def test_text_after_two_dashes_is_no_option(cli: CommandLine) -> None:
    """`--json` after `--` is what is to be remembered, and errors stay lines for people."""
    assert cli.remember("x")["created"]
    run = cli("remember", "--user", "alice", "--kind", "poem", "--", "--json")
    assert run.errors.startswith(b"error: ")
    told = json.loads(cli("remember", "--user", "alice", "--json", "--", "--json").out)
    shown = cli("show", told["memory_id"], "--user", "alice", "--json").json()
    assert shown["content"] == "--json"
