"""Who may use a session: what the stores of conversations share."""

from typing import NamedTuple

from memoriale.adapters.application.conversations import Known
from memoriale.adapters.application.reading import AsOf, Pin
from memoriale.adapters.library.memory import Memory
from memoriale.adapters.library.stores.base import Store
from memoriale.domain.principal import Right
from memoriale.domain.sessions import SessionState, unknown_session


class SessionStore(Store):
    """A store of what belongs to a session: it is for the session's user alone."""

    def _named(self, session_id: str | None, user_id: str | None) -> Memory:
        """The handle as the user, in the session."""
        memory = self._as(user=user_id)
        bound = self.storage.principal.session
        if session_id is None or session_id == bound:
            self._owner(memory, "session")
            return memory
        if bound is not None:
            return self._as(user=user_id, session=session_id)
        # Its user decides who may use a session, so naming one takes no right of its own.
        return memory.rebound(memory.principal.with_(session=session_id))

    def _entered(self, memory: Memory, command: str, as_of: AsOf) -> "Entered | None":
        """The session as its user sees it; None when there is none that the caller may use."""
        memory.allow(command, Right.USE)
        services = memory.services
        pin = services.reading.pin(as_of)
        known = services.conversations.find(
            str(memory.principal.session), memory.branch_view(), pin.limit
        )
        if known is None or known.session is None:
            return None
        user = self._user_of(memory, known)
        if user is None:
            return None
        return Entered(user, known, known.session, pin)

    def _user_of(self, memory: Memory, known: Known) -> Memory | None:
        if known.user is None:
            return memory
        names = memory.services.log.identities.names([known.user])
        user = names.get(known.user)
        if user is None:
            return None
        if memory.principal.user is None and Right.OPERATE in memory.principal.rights:
            acting = self._as(user=user.id)
            return acting.rebound(acting.principal.with_(session=memory.principal.session))
        return memory if memory.principal.user == user.id else None

    def _required(self, memory: Memory, command: str, as_of: AsOf) -> "Entered":
        entered = self._entered(memory, command, as_of)
        if entered is None:
            raise unknown_session(str(memory.principal.session))
        return entered


class Entered(NamedTuple):
    """A session that the caller may use, on the handle of its user, and the point of the read."""

    memory: Memory
    known: Known
    session: SessionState
    pin: Pin
