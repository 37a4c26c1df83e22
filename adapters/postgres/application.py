"""One log as an event-sourced application."""

from typing import Any, NoReturn
from uuid import UUID

from eventsourcing.application import Application
from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    InfrastructureFactory,
    Mapper,
    ProcessRecorder,
    TrackingRecorder,
)
from eventsourcing.utils import Environment, EnvType

from memoriale.adapters.postgres.committer import Committer
from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.logs import Log
from memoriale.adapters.postgres.reading import LedgerReader
from memoriale.adapters.postgres.recorder import LedgerRecorder
from memoriale.domain.errors import InputError


class LedgerFactory(InfrastructureFactory[TrackingRecorder]):
    """
    Gives an application the recorder of its log and nothing else.

    Args:
        recorder: The recorder of the log.
        env: What the library wants to look settings up in.
    """

    def __init__(self, recorder: LedgerRecorder, env: Environment) -> None:
        super().__init__(env)
        self.recorder = recorder

    def application_recorder(self) -> ApplicationRecorder:
        """The recorder of the log."""
        return self.recorder

    def aggregate_recorder(self, purpose: str = "events") -> AggregateRecorder:
        """
        The same recorder.

        Args:
            purpose: ``events``; the library's snapshots have no place here.

        Raises:
            InputError: It is asked for snapshots.
        """
        if purpose != "events":
            _refuse("snapshots")
        return self.recorder

    def tracking_recorder(
        self, tracking_recorder_class: type[TrackingRecorder] | None = None
    ) -> TrackingRecorder:
        """
        Refused: a view keeps its own position.

        Args:
            tracking_recorder_class: What the library would make.

        Raises:
            InputError: Always.
        """
        _refuse("tracking")

    def process_recorder(self) -> ProcessRecorder:
        """
        Refused: a view keeps its own position.

        Raises:
            InputError: Always.
        """
        _refuse("tracking")

    def is_snapshotting_enabled(self) -> bool:
        """False: a snapshot of the library has no room for the columns of an event."""
        return False


class LedgerApplication(Application[UUID]):
    """
    Aggregates in one log: one application for each log, all over one datastore.

    Nothing is read from the environment of the process. ``save`` takes ``guards=`` beside the
    aggregates, and the ids of its recordings are ``RecordedId`` objects with the receipt.

    Args:
        datastore: The database, shared with other applications; it stays open.
        log: The log.
        mapper: Turns domain events into ``LedgerStoredEvent`` objects and back.
        committer: The writer of the log when the process has one already; by default the
            application makes one and closes it.
    """

    def __init__(
        self,
        datastore: Datastore,
        log: Log,
        *,
        mapper: Mapper[UUID],
        committer: Committer | None = None,
    ) -> None:
        self.datastore = datastore
        self.ledger_log = log
        self.committer = committer or Committer(datastore, log)
        self._owns_committer = committer is None
        self.reader = LedgerReader(datastore, log)
        self._given_mapper = mapper
        super().__init__()

    def construct_env(self, name: str, env: EnvType | None = None) -> Environment:
        """
        An empty environment, so that no variable of the process changes the ledger.

        Args:
            name: The application's name.
            env: Nothing; the library passes None.
        """
        return Environment(name, env)

    def construct_factory(self, env: Environment) -> InfrastructureFactory[Any]:
        """
        The factory of the log's recorder.

        Args:
            env: From ``construct_env``.
        """
        return LedgerFactory(LedgerRecorder(self.committer, self.reader), env)

    def construct_mapper(self) -> Mapper[UUID]:
        """The mapper that was given."""
        return self._given_mapper

    def close(self) -> None:
        """Store what was handed in and stop the committer, if it is the application's own."""
        super().close()
        if self._owns_committer:
            self.committer.close()


def _refuse(what: str) -> NoReturn:
    raise InputError(
        f"The ledger keeps no {what} of the library.", code="not_supported", field="purpose"
    )
