"""Names that look, sort, fold or match alike are different tenants, owners, sessions and teams."""

from collections.abc import Callable
from functools import partial
from itertools import permutations
from secrets import token_hex
from typing import Any, Final
from uuid import UUID, uuid4

import pytest

from memoriale.adapters.extraction.jobs import request_extraction
from memoriale.adapters.keys import file_store
from memoriale.adapters.library.ledger import Ledger
from memoriale.adapters.library.memory import Memory
from memoriale.domain.errors import InputError, MemorialeError
from memoriale.domain.keys import person_name
from tests.fixtures.neighbours import OWN, told

OWNERS: Final = [
    *("acme", "acme-corp", "acme ", " acme", "Acme", "ACME", "acme\t", "acme\n", "acme."),
    *("acme/", "acme/corp", "acme:corp", "acme\\:corp", "acme\\", "acme_", "acm_", "acmeX"),
    *("%", "_", "*", "?", "a%", "[a]cme", "acme'", "acme''", "' OR '1'='1", '"acme"', "acme;--"),
    *("..", "../acme", "./acme", "/acme", "~", "NULL", "null", "None", "main", "tenant"),
    "\N{CYRILLIC SMALL LETTER A}cme",
    "\N{FULLWIDTH LATIN SMALL LETTER A}cme",
    "acme\N{ZERO WIDTH SPACE}",
    "ac\N{SOFT HYPHEN}me",
    "acm\N{LATIN SMALL LETTER E WITH ACUTE}",
    "acme\N{COMBINING ACUTE ACCENT}",
    "stra\N{LATIN SMALL LETTER SHARP S}e",
    "strasse",
    "\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}",
    "i\N{COMBINING DOT ABOVE}",
    "\N{ANGSTROM SIGN}",
    "\N{LATIN CAPITAL LETTER A WITH RING ABOVE}",
    "x" * 255,
    "x" * 256,
]
TENANTS: Final = [
    *(
        "{}",
        "{}-corp",
        "{}_corp",
        "{}:corp",
        "{}/corp",
        "{}.corp",
        "{}/../{}",
        "{}/",
        "{}//",
        "{}_",
    ),
    *("{}.", "{}:", "../{}", "./{}", "/{}", "-{}", "A{}", "a{}", "{}%2F"[:2] + ":2F"),
]
TYPES: Final = ("user", "agent", "resource", "session", "team")


def of(ledger: Ledger, tenant: str, type_: str, name: str, **more: Any) -> Memory:
    return ledger.memory(tenant=tenant, rights=OWN, **{type_: name}, **more)


def every_one_sees_its_own(memories: dict[str, Memory], type_: str, each: int = 2) -> None:
    """Each has as many equal memories, and recall and list give it all of its own and no other."""
    told_of = {name: token_hex(8) for name in memories}
    for name, memory in memories.items():
        for number in range(each):
            memory.remember(f"the kite {number} of {told_of[name]}", owner=type_)
    for name, memory in memories.items():
        found = [hit.content for hit in memory.recall("kite", top_k=each)]
        assert len(found) == each, name
        assert all(told_of[name] in content for content in found), name
        listed = [record.content or "" for record in memory.list(limit=1000).memories]
        assert len(listed) == each, name
        assert all(told_of[name] in content for content in listed), name


@pytest.mark.parametrize("type_", TYPES)
def test_owners_are_matched_whole(shared_ledger: Ledger, tenant: str, type_: str) -> None:
    """No two names are one owner: not by case, prefix, pattern, escape, normal form or look; and
    each gets its full k among all the others."""
    names = OWNERS if type_ == "user" else OWNERS[::4]
    memories = {name: of(shared_ledger, tenant, type_, name) for name in names}
    every_one_sees_its_own(memories, type_)


def test_tenants_are_matched_whole(shared_ledger: Ledger) -> None:
    """No two tenants are one, and a path in a name leads nowhere."""
    base = token_hex(4)
    names = {name.format(base, base) for name in TENANTS}
    every_one_sees_its_own({n: of(shared_ledger, n, "user", "alice") for n in names}, "user")
    inside = {path.name for path in shared_ledger.settings.views_folder.iterdir()}
    assert all(len(name) == 32 for name in inside)
    assert base not in "".join(inside)


def test_types_are_names_of_their_own(shared_ledger: Ledger, tenant: str) -> None:
    """A user, an agent, a resource, a session and a team of one name are five owners."""
    memories = {type_: of(shared_ledger, tenant, type_, "acme") for type_ in TYPES}
    for type_, memory in memories.items():
        memory.remember(f"of the {type_}", owner=type_)
    for type_, memory in memories.items():
        assert [r.content for r in memory.list().memories] == [f"of the {type_}"]


def test_a_resource_is_its_teams_alone(shared_ledger: Ledger, tenant: str) -> None:
    """However colons and backslashes are spread over team and resource, no two pairs are one."""
    parts = ("a", "b", "a:b", "a\\:b", "a\\", ":", "\\", "\\:")
    pairs = [(None, resource) for resource in parts] + [*permutations(parts, 2)]
    told_of = {}
    for team, resource in pairs:
        made = of(shared_ledger, tenant, "resource", resource, team=team)
        told_of[team, resource] = made.remember("x", owner="resource").memory_id
    owners = {
        shared_ledger.memory(tenant=tenant).show(memory_id, all_owners=True).owner
        for memory_id in told_of.values()
    }
    assert len(owners) == len(pairs)


@pytest.mark.parametrize(
    "bad", ["", "_acme", "_global", "_deployment", "a b", "ä", "a\n", "a%", "x" * 65]
)
def test_a_tenant_that_cannot_be_is_refused(shared_ledger: Ledger, bad: str) -> None:
    """An empty, reserved or odd tenant is an error, never another tenant or all of them."""
    with pytest.raises(InputError) as refused:
        shared_ledger.memory(tenant=bad, user="alice")
    assert refused.value.field == "tenant"


def test_namespaces_and_tags_are_matched_whole(shared_ledger: Ledger, tenant: str) -> None:
    """A path shows what lies at it and above it, by whole segments and by case; a tag is its
    text."""
    alice = shared_ledger.memory(tenant=tenant, user="alice")
    names = ["org", "organ", "Org", "org/team", "org/team-2", "or_", "%", "o*", "..", "org:team"]
    for name in names:
        alice.remember(f"kite at {name}", namespace=name, tags=[name])
    for name in names:
        above = {n for n in names if name == n or name.startswith(f"{n}/")}
        hits = alice.recall("kite", namespace=name, top_k=50)
        assert {hit.content for hit in hits} == {f"kite at {n}" for n in above}
        tagged = alice.recall("kite", tags=[name], top_k=50)
        assert [hit.content for hit in tagged] == [f"kite at {name}"]


def test_an_idempotency_key_is_its_owners(shared_ledger: Ledger, tenant: str) -> None:
    """The same key of another owner or tenant is another key: no receipt and no conflict."""
    key = "order-1"
    receipts = [
        of(shared_ledger, name, "user", user).remember(f"of {name} {user}", idempotency_key=key)
        for name in (tenant, f"{tenant}-corp")
        for user in ("alice", "bob")
    ]
    assert all(receipt.created for receipt in receipts)
    assert len({receipt.memory_id for receipt in receipts}) == 4


ID: Final = "{id}"
ASKED: Final[list[Callable[[Memory, str], Any]]] = [
    lambda m, i: m.show(i),
    lambda m, i: m.show(i, as_of=0),
    lambda m, i: m.history(i),
    lambda m, i: m.correct(i, "x"),
    lambda m, i: m.amend(i, importance=0.1),
    lambda m, i: m.invalidate(i),
    lambda m, i: m.reinstate(i),
    lambda m, i: m.remember("x", supersedes=[i]),
    lambda m, i: m.branch(i),
    lambda m, i: m.diff("main", i),
    lambda m, i: m.recall("x", tags=[i]).hits,
    lambda m, i: m.recall("x", namespace=i).hits,
]


def same_answer(ask: Callable[[Memory, str], Any], memory: Memory, ids: list[str]) -> bool:
    """Whether a call answers alike to each id, apart from the id."""
    answers = set()
    for asked in ids:
        try:
            answer = told(ask(memory, asked))
        except MemorialeError as error:
            answer = f"{type(error).__name__} {error.exit_code} {error.as_dict()}"
        answers.add(answer.replace(asked, ID))
    return len(answers) == 1


def hidden_and_unknown(ledger: Ledger, tenant: str) -> tuple[list[Memory], list[str], list[str]]:
    """Neighbours of alice; an id of hers and one of nobody; a branch of hers and one of nobody."""
    alice = ledger.memory(tenant=tenant, user="alice")
    hidden = alice.remember("hers", tags=["a tag of hers"], namespace="a/path/of/hers").memory_id
    alice.fork("branch of hers")
    neighbours = [
        ledger.memory(tenant=tenant, user="mallory"),
        ledger.memory(tenant=tenant),
        ledger.memory(tenant=f"{tenant}-corp", user="alice"),
    ]
    return neighbours, [str(hidden), str(uuid4())], ["branch of hers", "branch of nobody"]


@pytest.mark.parametrize("ask", ASKED)
def test_forbidden_and_unknown_are_one_answer(
    ask: Callable[[Memory, str], Any], shared_ledger: Ledger, tenant: str
) -> None:
    """What is another's and what is nobody's give the same answer, so no call tells which ids,
    branches, tags or paths there are."""
    neighbours, ids, branches = hidden_and_unknown(shared_ledger, tenant)
    names = (ids, branches, ["a tag of hers", "a tag of nobody"], ["a/path/of/hers", "a/b"])
    for memory in neighbours:
        for asked in names:
            assert same_answer(ask, memory, asked)


def test_another_tenants_job_is_unknown(shared_ledger: Ledger, tenant: str) -> None:
    """A job of another tenant is as unknown as one of nobody, to every call."""
    alice = shared_ledger.memory(tenant=tenant, user="alice", agent="a")
    (requested,) = request_extraction(alice, ["facts"], [])
    (job,) = shared_ledger.jobs.list(tenant=tenant)
    assert job.id == requested
    other = f"{tenant}-corp"
    assert shared_ledger.jobs.list(tenant=other) == []
    assert shared_ledger.jobs.run(tenant=other) == []
    jobs = shared_ledger.jobs
    calls: list[Callable[..., Any]] = [jobs.get, jobs.cancel, jobs.retry]
    for call in calls:
        asked = partial(call, tenant=other)
        assert same_answer(lambda _, i, a=asked: a(i), alice, [str(job.id), str(uuid4())])  # type: ignore[misc]
    assert shared_ledger.jobs.get(job.id, tenant=tenant).status == "queued"


def test_the_names_notice_a_key_store_that_folds(
    shared_ledger: Ledger, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted failures: a key store that takes names without regard to case, and an error that
    tells forbidden from unknown, are each noticed."""
    with monkeypatch.context() as planted:
        right = person_name
        planted.setattr(
            file_store,
            "person_name",
            lambda name, subject: right(name, subject._replace(id=subject.id.casefold().strip())),
        )
        with pytest.raises(AssertionError):
            test_owners_are_matched_whole(shared_ledger, tenant, "user")

    def planted_show(self: Memory, memory_id: str) -> Any:
        if self.services.log.reader.memory(UUID(memory_id)):
            raise InputError("it is another's", code="forbidden")
        return self.history(memory_id)

    monkeypatch.setattr(Memory, "show", planted_show)
    with pytest.raises(AssertionError):
        test_forbidden_and_unknown_are_one_answer(ASKED[0], shared_ledger, f"{tenant}-2")
