"""One run of a command: its settings, its ledger, its output."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from memoriale.adapters.command_line.options import Caller, Common
from memoriale.adapters.command_line.output import Output
from memoriale.domain.text import check_text

if TYPE_CHECKING:
    from memoriale.adapters.library.ledger import Ledger
    from memoriale.adapters.library.memory import Memory
    from memoriale.adapters.settings import Settings
    from memoriale.domain.principal import Right

_FROM_SETTINGS: Final = ("tenant", "user", "agent", "resource", "team", "session", "actor")


class Invocation:
    """
    What a command needs, made when it is first asked for.

    Args:
        common: The options that every command has.
    """

    def __init__(self, common: Common) -> None:
        self._common = common

    @cached_property
    def settings(self) -> "Settings":
        """Settings from the options, the environment and ``memoriale.toml``."""
        from memoriale.adapters.settings import load_settings

        settings = load_settings(home=self._common.home)
        _start_logging(settings.log_level)
        return settings

    @cached_property
    def output(self) -> Output:
        """Where results go."""
        return Output(as_json=self._common.json, timezone=self.settings.timezone)

    def tenant(self, given: str | None) -> str:
        """The tenant from the option or the settings, checked."""
        from memoriale.domain.text import check_tenant

        return check_tenant(self.settings.tenant if given is None else given)

    @contextmanager
    def ledger(self) -> "Iterator[Ledger]":
        """The ledger of the home with the rights of the settings, closed at the end."""
        from memoriale.adapters.composition import build
        from memoriale.adapters.library.ledger import Ledger

        with Ledger(build(self.settings), self.settings.asserted_rights) as ledger:
            yield ledger

    def require(self, *rights: "Right") -> None:
        """
        Refuses a command that acts on the installation itself and so stands in no tenant's log.

        Raises:
            MissingRightError: The settings do not assert one of the rights.
        """
        from memoriale.domain.principal import Principal

        asserted = self.settings.asserted_rights
        Principal(tenant=self.settings.tenant, rights=asserted).require(*rights)

    @contextmanager
    def memory(self, caller: Caller, branch: str = "main") -> "Iterator[Memory]":
        """The memory of a caller; what is wrong with the caller is found before anything opens."""
        from memoriale.domain.principal import Principal

        whose = self.principal(caller)
        Principal(**whose)
        check_text("branch", branch)
        with self.ledger() as ledger:
            yield ledger.memory(**whose, branch=branch)

    def principal(self, caller: Caller) -> dict[str, Any]:
        """The fields of a caller, from the options and the settings."""
        given = {"namespace": caller.namespace, "purpose": caller.purpose}
        for name in _FROM_SETTINGS:
            option = getattr(caller, name)
            given[name] = getattr(self.settings, name) if option is None else option
        return given


def _start_logging(level: str) -> None:
    import logging

    logging.basicConfig(format="%(levelname)s: %(message)s")
    logging.getLogger("memoriale").setLevel(level.upper())
