"""``SessionManager``: conversations with their history and their state."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from memoriale.adapters.application.reading import AsOf
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.entering import Entered, SessionStore
from memoriale.adapters.library.stores.parsing import parsed_messages
from memoriale.adapters.tokens import default_counter
from memoriale.domain.branches import NO_LIMIT
from memoriale.domain.chat import ChatMessage
from memoriale.domain.commands import Remember
from memoriale.domain.errors import InputError
from memoriale.domain.memory import MemoryState
from memoriale.domain.principal import Right
from memoriale.domain.sessions import unusable_session
from memoriale.domain.steps import Make
from memoriale.domain.stores.sessions import (
    MAX_MESSAGES,
    MESSAGE,
    Session,
    SessionEntry,
    Window,
    content_of,
    fallen_out,
    fields_of,
    turn_of,
)
from memoriale.domain.tokens import TokenCounter, turn_tokens
from memoriale.domain.values import check_whole

MOST: Final = 100_000
_LISTED: Final = 50
_MOST_LISTED: Final = 1_000

Turns = Sequence[ChatMessage | Mapping[str, Any]]


class SessionManager(SessionStore):
    """
    Conversations. Their messages are memories of kind ``message``; none is ever deleted, the
    history shows the newest ones. A session belongs to the user for whom it was opened, and
    others are not told that it exists; an anonymous one is for whoever knows its id, but what a
    user says in it is shown to that user alone.

    A handle of no user acts for a session's user, which takes the right ``operate``.

    Taken from the session manager of reference system A; ``docs/parity.md`` says what is
    different.

    Args:
        storage: A memory handle; its session and user are meant where none is given.
        max_messages: Messages in the history at most.
        max_tokens: Tokens in the history at most; None for no limit.
        counter: Counts them; default: a tokenizer that is installed, see ``default_counter``.
    """

    def __init__(
        self,
        storage: Memory,
        *,
        max_messages: int = MAX_MESSAGES,
        max_tokens: int | None = None,
        counter: TokenCounter | None = None,
    ) -> None:
        super().__init__(storage)
        self.max_messages = check_whole("max_messages", max_messages, 1, MOST)
        self.max_tokens = (
            None if max_tokens is None else check_whole("max_tokens", max_tokens, 1, 10**9)
        )
        self._counter = counter

    def get_or_create_session(
        self, session_id: str | None = None, user_id: str | None = None
    ) -> Session:
        """
        A session; opened now when there is none of that id.

        Args:
            session_id: Which; default: the handle's session.
            user_id: For whom; default: the handle's user. With neither it is anonymous.

        Raises:
            RefusedError: The id is in use and not for this caller.
        """
        memory = self._named(session_id, user_id)
        entered = self._entered(memory, "session.open", None)
        if entered is None:
            memory.allow("session.open", Right.USE)
            services = memory.services
            if services.conversations.open(memory.principal, memory.branch_view()) is None:
                raise unusable_session(str(memory.principal.session))
            entered = self._entered(memory, "session.open", None)
            assert entered is not None
        return self._session(entered, None)

    def get_session(
        self, session_id: str | None = None, user_id: str | None = None, *, as_of: AsOf = None
    ) -> Session | None:
        """
        A session with its history; None when there is none that the caller may use.

        Args:
            session_id: Which; default: the handle's session.
            user_id: The caller; default: the handle's user.
            as_of: As then: an index or a time.
        """
        entered = self._entered(self._named(session_id, user_id), "session.show", as_of)
        return None if entered is None else self._session(entered, as_of)

    def list_sessions(
        self,
        user_id: str | None = None,
        *,
        limit: int = _LISTED,
        before: int | None = None,
        as_of: AsOf = None,
    ) -> list[SessionEntry]:
        """
        The sessions that were opened for a user, the last opened first.

        Args:
            user_id: Whose; default: the handle's user. Anonymous sessions are in no list.
            limit: How many at most, 1..1000.
            before: ``index`` of the last entry of the page before; None for the first page.
            as_of: As then: an index or a time.
        """
        check_whole("limit", limit, 1, _MOST_LISTED)
        first = NO_LIMIT if before is None else check_whole("before", before, 0, NO_LIMIT)
        memory = self._as(user=user_id)
        memory.allow("session.list", Right.USE)
        services = memory.services
        identities = services.log.identities
        user = identities.find(self._owner(memory, "user"))
        if user is None:
            return []
        pin = services.reading.pin(as_of)
        found = services.conversations.of_user(
            user.pseudonym, memory.branch_view(), pin.index, first
        )
        listed = [*islice(found, limit)]
        names = identities.names([session.owner for _, session in listed])
        return [
            SessionEntry(
                session_id=names[session.owner].id,
                user_id=memory.principal.user,
                state=session.state,
                created_at=session.opened_at,
                updated_at=session.changed_at,
                index=index,
            )
            for index, session in listed
            if session.owner in names
        ]

    def append_messages(
        self,
        session_id: str | None = None,
        messages: Turns = (),
        user_id: str | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> list[ChatMessage]:
        """
        Adds messages at the end, all of them or none, whatever others add meanwhile.

        Args:
            session_id: To which session; default: the handle's.
            messages: What was said: ``ChatMessage`` or mappings with its fields.
            user_id: The caller; default: the handle's user.
            idempotency_key: A repeated call with it stores nothing and answers the same.

        Returns:
            What falls out of the history by it, oldest first. Each message falls out once.

        Raises:
            InputError: There is no such session for the caller, or a wrong message.
        """
        entered = self._required(self._named(session_id, user_id), "session.append", None)
        turns = parsed_messages(messages)
        if not turns:
            return []
        memory = entered.memory
        steps = [Make(command=self._turn(memory, n, turn)) for n, turn in enumerate(turns)]
        session = memory.principal.identity("session")
        assert session is not None
        # Messages need no guard: each append has its place in the log, and the window follows.
        decided = self._decide(
            memory,
            session,
            (),
            lambda seen: steps,
            "session.append",
            {"messages": [turn.model_dump(mode="json") for turn in turns]},
            idempotency_key,
        )
        assert decided.index is not None
        most = self.max_messages + len(turns)
        states, all_turns = self._newest(entered, most, decided.index)
        first = decided.index - len(turns) + 1
        before = sum(state.first_index < first for state in states)
        places = fallen_out(self._window(), all_turns, before)
        self._given(entered, "session.append", [states[p] for p in places], decided.index, None)
        return [all_turns[place] for place in places]

    def get_history(
        self,
        session_id: str | None = None,
        limit: int | None = None,
        user_id: str | None = None,
        *,
        as_of: AsOf = None,
    ) -> list[ChatMessage]:
        """
        The newest messages, oldest first; none between a tool's call and its answer cut off.

        Args:
            session_id: Of which session; default: the handle's.
            limit: How many at most, from 1; default and most: the store's ``max_messages``.
            user_id: The caller; default: the handle's user.
            as_of: As then: an index or a time.

        Raises:
            InputError: There is no such session for the caller.
        """
        if limit is not None:
            check_whole("limit", limit, 1, MOST)
        entered = self._required(self._named(session_id, user_id), "session.history", as_of)
        return self._history(entered, "session.history", as_of, limit)[1]

    def update_state(
        self,
        session_id: str | None = None,
        patch: Mapping[str, Any] | None = None,
        user_id: str | None = None,
    ) -> dict[str, Any]:
        """
        Merges a patch into the state: its keys replace those of the state, None included.

        Args:
            session_id: Of which session; default: the handle's.
            patch: A JSON object; the state may have 64 KiB.
            user_id: The caller; default: the handle's user.

        Returns:
            The whole state after it.

        Raises:
            InputError: There is no such session for the caller, or a wrong patch.
        """
        entered = self._required(self._named(session_id, user_id), "session.state", None)
        memory = entered.memory
        updated = memory.services.conversations.update(
            memory.principal, memory.branch_view(), str(memory.principal.session), patch or {}
        )
        return updated.state

    def _session(self, entered: Entered, as_of: AsOf) -> Session:
        states, turns = self._history(entered, "session.show", as_of, None)
        session, principal = entered.session, entered.memory.principal
        times = [session.changed_at, *(state.created_at for state in states)]
        return Session(
            session_id=str(principal.session),
            user_id=None if entered.known.user is None else principal.user,
            messages=tuple(turns),
            state=session.state,
            created_at=session.opened_at,
            updated_at=max(times),
        )

    def _history(
        self, entered: Entered, command: str, as_of: AsOf, limit: int | None
    ) -> tuple[list[MemoryState], list[ChatMessage]]:
        window = self._window(limit)
        states, turns = self._newest(entered, window.most, entered.pin.index)
        places = window.places(turns)
        shown = [states[place] for place in places]
        self._given(entered, command, shown, entered.pin.index, as_of)
        return shown, [turns[place] for place in places]

    def _newest(
        self, entered: Entered, most: int, last: int
    ) -> tuple[list[MemoryState], list[ChatMessage]]:
        memory = entered.memory
        states = memory.services.conversations.messages(
            memory.principal, memory.branch_view(), entered.known.owner.pseudonym, most, last
        )
        told = [(state, turn) for state in states if (turn := turn_of(state)) is not None]
        return [state for state, _ in told], [turn for _, turn in told]

    def _window(self, limit: int | None = None) -> Window:
        most = self.max_messages if limit is None else min(limit, self.max_messages)
        return Window(most, self.max_tokens, self._cost)

    def _cost(self, message: ChatMessage) -> int:
        return turn_tokens(message, self._counter or default_counter())

    def _given(
        self,
        entered: Entered,
        command: str,
        states: Sequence[MemoryState],
        index: int,
        as_of: AsOf,
    ) -> None:
        versions = [(state.memory_id, state.index) for state in states]
        entered.memory.given(command, versions, index=index, as_of=as_of)

    def _turn(self, memory: Memory, place: int, turn: ChatMessage) -> Remember:
        user = memory.principal.user
        try:
            return self._command(
                memory,
                content_of(turn),
                kind=MESSAGE,
                owner="session",
                about=None if user is None else [user],
                **fields_of(turn),
            )
        except InputError as error:
            error.field = f"messages[{place}].{error.field}"
            raise
