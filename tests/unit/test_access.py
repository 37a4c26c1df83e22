"""Who may see a memory: its owner, whom its visibility names, and nobody else."""

from dataclasses import replace
from itertools import product
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoriale.domain.access import GLOBAL_SCOPE, AccessScope, Visibility
from memoriale.domain.record import Columns
from tests.fixtures.events import History

ALICE, BOB, SUPPORT, SALES, RED, BLUE, TALK = (UUID(int=n) for n in range(1, 8))


def memory(
    visibility: str = "owner",
    *,
    owner: UUID = ALICE,
    owner_type: str = "user",
    user: UUID | None = ALICE,
    agent: UUID | None = SUPPORT,
    team: UUID | None = RED,
) -> Columns:
    """Columns of a memory that was recorded for Alice by the agent Support in the team Red."""
    history = History()
    made = history.remembered("x", owner=owner, owner_type=owner_type, visibility=visibility)
    return replace(
        history.memories[made],
        principal_user=user,
        principal_agent=agent,
        principal_team=team,
    )


OWNER = AccessScope(owners=frozenset({ALICE}), user=ALICE)
SAME_USER = AccessScope(user=ALICE)
SAME_AGENT = AccessScope(user=BOB, agent=SUPPORT)
TEAM_MATE = AccessScope(user=BOB, teams=frozenset({BLUE, RED}))
STRANGER = AccessScope(
    owners=frozenset({BOB, SALES, BLUE}), user=BOB, agent=SALES, teams=frozenset({BLUE})
)
NOBODY = AccessScope()
AUDITOR = AccessScope(everything=True)

SEES = {
    "owner": {"owner", "auditor"},
    "user": {"owner", "same user", "auditor"},
    "agent": {"owner", "same agent", "auditor"},
    "team": {"owner", "team mate", "auditor"},
    "tenant": {"owner", "same user", "same agent", "team mate", "stranger", "nobody", "auditor"},
}
CALLERS = {
    "owner": OWNER,
    "same user": SAME_USER,
    "same agent": SAME_AGENT,
    "team mate": TEAM_MATE,
    "stranger": STRANGER,
    "nobody": NOBODY,
    "auditor": AUDITOR,
}


@pytest.mark.parametrize(("visibility", "caller"), list(product(SEES, CALLERS)))
def test_visibility_names_who_sees_a_memory(visibility: str, caller: str) -> None:
    """The owner sees it, and so do exactly those whom its visibility names."""
    assert CALLERS[caller].allows(memory(visibility)) == (caller in SEES[visibility])


def test_the_table_covers_every_visibility() -> None:
    """No visibility is without a rule."""
    assert {*SEES, "global"} == {visibility.value for visibility in Visibility}


@pytest.mark.parametrize("owner_type", ["user", "agent", "resource", "team"])
def test_an_owner_of_any_type_sees_its_memories(owner_type: str) -> None:
    """Whoever is the owner sees the memory, for whichever user it was recorded."""
    row = memory(owner=BLUE, owner_type=owner_type)
    assert AccessScope(owners=frozenset({BLUE}), user=BOB).allows(row)
    assert not AccessScope(owners=frozenset({ALICE}), user=ALICE).allows(row)


@pytest.mark.parametrize("visibility", ["user", "agent", "team"])
def test_a_memory_that_names_nobody_is_its_owner_s(visibility: str) -> None:
    """A caller without a user, agent or team is not the one that was not recorded."""
    row = memory(visibility, owner=BLUE, owner_type="resource", user=None, agent=None, team=None)
    assert not NOBODY.allows(row)
    assert not STRANGER.allows(replace(row, owner=RED))


@pytest.mark.parametrize("visibility", [None, "global", "everybody"])
def test_an_unknown_visibility_names_nobody(visibility: str | None) -> None:
    """A visibility that is not known shows a memory to its owner alone."""
    row = replace(memory(), visibility=visibility)
    assert OWNER.allows(row)
    assert not any(caller.allows(row) for caller in (SAME_USER, SAME_AGENT, TEAM_MATE, NOBODY))


@pytest.mark.parametrize("visibility", [None, *Visibility])
def test_of_the_log_of_all_tenants_only_global_memories_are_seen(visibility: str | None) -> None:
    """Whatever else may stand there, its readers see what is global and nothing besides."""
    row = replace(memory(), visibility=visibility)
    assert GLOBAL_SCOPE.allows(row) == (visibility == "global")


@pytest.mark.parametrize(
    ("recorded_for", "caller", "sees"),
    [
        (ALICE, ALICE, True),
        (ALICE, BOB, False),
        (ALICE, None, False),
        (None, BOB, True),
        (None, None, True),
    ],
)
def test_a_session_s_memories_are_for_the_user_they_were_recorded_for(
    recorded_for: UUID | None, caller: UUID | None, sees: bool
) -> None:
    """Knowing the id of another user's session does not show what was recorded for that user."""
    row = memory(owner=TALK, owner_type="session", user=recorded_for)
    assert AccessScope(owners=frozenset({TALK}), user=caller).allows(row) == sees


@pytest.mark.parametrize(("visibility", "caller"), [("agent", SAME_AGENT), ("team", TEAM_MATE)])
def test_knowing_a_session_never_shows_less(visibility: str, caller: AccessScope) -> None:
    """Whom a memory's visibility names sees it, in its session or outside of it."""
    row = memory(visibility, owner=TALK, owner_type="session")
    assert caller.allows(row)
    assert replace(caller, owners=frozenset({TALK})).allows(row)


IDS = st.sampled_from([ALICE, BOB, SUPPORT, RED])
ROWS = st.builds(
    memory,
    st.sampled_from([v.value for v in Visibility]),
    owner=IDS,
    owner_type=st.sampled_from(["user", "agent", "resource", "session", "team"]),
    user=IDS | st.none(),
    agent=IDS | st.none(),
    team=IDS | st.none(),
)
SCOPES = st.builds(
    AccessScope,
    owners=st.frozensets(IDS),
    user=IDS | st.none(),
    agent=IDS | st.none(),
    teams=st.frozensets(IDS),
)


@given(ROWS, SCOPES)
def test_access_is_the_union_of_its_rules(row: Columns, scope: AccessScope) -> None:
    """A caller sees a memory exactly when one of the rules shows it."""
    for_another = row.principal_user is not None and row.principal_user != scope.user
    rules = [
        row.visibility == "tenant",
        row.owner in scope.owners and not (row.owner_type == "session" and for_another),
        row.visibility == "user" and scope.user is not None and row.principal_user == scope.user,
        row.visibility == "agent" and row.principal_agent in {scope.agent} - {None},
        row.visibility == "team" and row.principal_team in scope.teams,
    ]
    assert scope.allows(row) == any(rules)


@given(ROWS, SCOPES, IDS)
def test_more_owners_never_show_less(row: Columns, scope: AccessScope, owner: UUID) -> None:
    """A caller that is one more owner still sees all that it saw."""
    if scope.allows(row):
        assert replace(scope, owners=scope.owners | {owner}).allows(row)


@given(ROWS, SCOPES)
def test_everything_is_everything(row: Columns, scope: AccessScope) -> None:
    """A caller with the rights to see all owners sees every memory of the tenant."""
    assert replace(scope, everything=True).allows(row)
