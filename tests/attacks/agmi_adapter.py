"""A ledger as the public suite ``agent-memory-integrity`` asks for it: its rows, laid open."""

import tempfile
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
from agmi.adapters.base import MemoryAdapter, Record
from psycopg.rows import dict_row

from memoriale.domain.record import COLUMNS
from tests.fixtures.postgres import Server, temporary_database
from tests.fixtures.tampering import OTHER, VICTIM, Target

_EVENTS: Final = "ledger.ledger_events"
_ALL: Final = ", ".join(f'"{column.name}"' for column in COLUMNS)
_HERE: Final = "tenant = %(tenant)s AND log_id = %(log_id)s"


class LedgerAdapter(MemoryAdapter):  # type: ignore[misc]
    """
    The suite's attacker holds database and home as the superuser, and computes every hash again
    that follows from what he writes; he holds no key, and not the folder that is the anchor.
    A record is an event of the memory log: a change of records leaves the log's head alone.

    Args:
        server: Where databases are made.
        template: Name of a migrated one.
    """

    name = "memoriale"
    detection_point = "audit"
    supports_replay = True
    supports_metadata = True
    supports_snapshot = True

    def __init__(self, server: Server, template: str) -> None:
        self._server, self._template = server, template

    def setup(self) -> None:
        """An installation with an anchor."""
        self._open = ExitStack()
        database = self._open.enter_context(temporary_database(self._server, self._template))
        folder = self._open.enter_context(tempfile.TemporaryDirectory(prefix="mem-"))
        anchor = Path(folder, "anchor")
        anchor.mkdir()
        self.target = Target(database, Path(folder, "home"), anchor)

    def teardown(self) -> None:
        """Database, home and anchor are removed."""
        self._open.close()

    def seed(self, n: int) -> None:
        """Memories of a tenant, sealed and anchored."""
        self._remember(VICTIM, *(f"note {number}" for number in range(n)))

    def seed_other(self, n: int) -> None:
        """Memories of another tenant."""
        self._remember(OTHER, *(f"other's {number}" for number in range(n)))

    def append_genuine(self) -> None:
        """One memory more, sealed and anchored."""
        self._remember(VICTIM, "one more")

    def read_all_raw(self) -> list[Record]:
        """The rows of the first tenant."""
        return self._records(VICTIM)

    def read_other_raw(self) -> list[Record]:
        """Those of the other one."""
        return self._records(OTHER)

    def write_raw(self, record: Record) -> None:
        """Puts a row at a place, with the hashes that follow from it."""
        place = dict.fromkeys(("index", "append_first", "append_last"), record.seq)
        values = {**record.fields, **place}
        names = ", ".join(f"%({column.name})s" for column in COLUMNS)
        self._execute(f"DELETE FROM {_EVENTS} WHERE {_HERE} AND index = %(index)s", **place)
        self._execute(f"INSERT INTO {_EVENTS} ({_ALL}) VALUES ({names})", **values)
        self.target.hash_again(record.seq)

    def delete_raw(self, seq: int) -> None:
        """Removes a row."""
        self._execute(f"DELETE FROM {_EVENTS} WHERE {_HERE} AND index = %(index)s", index=seq)

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        """The body of one event in another one."""
        (victim,) = (one for one in self.read_all_raw() if one.seq == victim_seq)
        self.write_raw(Record(victim_seq, {**victim.fields, "state": donor.fields["state"]}))

    def read_meta(self, seq: int) -> dict[str, Any]:
        """Whose an event is and who caused it."""
        (record,) = (one for one in self.read_all_raw() if one.seq == seq)
        return {name: record.fields[name] for name in ("owner", "actor", "recorded_at")}

    def write_meta(self, seq: int, meta: dict[str, Any]) -> None:
        """Another owner."""
        (record,) = (one for one in self.read_all_raw() if one.seq == seq)
        owner = uuid4() if meta.pop("agmi_meta_tampered", False) else meta["owner"]
        self.write_raw(Record(seq, {**record.fields, **meta, "owner": owner}))

    def snapshot_store(self) -> Target:
        """A copy of database and home."""
        return self._open.enter_context(self.target.copied())

    def restore_store(self, token: object) -> None:
        """The copy takes their place."""
        assert isinstance(token, Target)
        self.target = token

    def mutate_payload(self, record: Record) -> Record:
        """One bit of the body."""
        state = bytearray(record.fields["state"])
        state[-1] ^= 1
        record.fields["state"] = bytes(state)
        return record

    def forge_record(self, template: Record) -> Record:
        """An event like the last one, after it."""
        tags = dict.fromkeys(("request_tag", "content_tag", "idempotency_tag"))
        new = {"event_id": uuid4(), "stream_id": uuid4(), "memory_id": uuid4(), **tags}
        later = template.fields["recorded_at"] + timedelta(milliseconds=1)
        fields = {**template.fields, **new, "recorded_at": later}
        return self.mutate_payload(Record(template.seq + 1, fields))

    def identity_of(self, record: Record) -> str:
        """The event's id."""
        return str(record.fields["event_id"])

    def payload_of(self, record: Record) -> str:
        """Its body as stored."""
        return bytes(record.fields["state"]).hex()

    def owner_of(self, record: Record) -> str:
        """Its tenant."""
        return str(record.fields["tenant"])

    def reload(self) -> None:
        """The ledger is opened anew, as after a restart."""
        with self.target.open() as ledger:
            ledger.memory(tenant=VICTIM, user="alice")

    def verify(self) -> bool:
        """What ``verify`` says of the tenant, its own checkpoints and the anchor's included."""
        return self._verified(anchors=True)

    def _verified(self, *, anchors: bool) -> bool:
        with self.target.open() as ledger:
            reports = ledger.verify(tenant=VICTIM, anchors=anchors)
        problems = [problem for report in reports for problem in report.problems]
        self.verify_detail = f"{problems[0].code} at {problems[0].index}" if problems else None
        return all(report.ok for report in reports)

    def _remember(self, tenant: str, *texts: str) -> None:
        with self.target.open() as ledger:
            memory = ledger.memory(tenant=tenant, user="alice")
            for text in texts:
                memory.remember(text)
            assert ledger.push(tenant=tenant).ok
            self.target.logs[tenant, "memory"] = ledger.tenant(tenant).log.log_id

    def _records(self, tenant: str) -> list[Record]:
        with (
            psycopg.connect(self.target.database.superuser_url) as connection,
            connection.cursor(row_factory=dict_row) as cursor,
        ):
            place = {"tenant": tenant, "log_id": self._log(tenant)}
            cursor.execute(
                f"SELECT {_ALL} FROM {_EVENTS} WHERE {_HERE} ORDER BY index".encode(), place
            )
            return [Record(row["index"], row) for row in cursor]

    def _execute(self, statement: str, **values: Any) -> None:
        place = {"tenant": VICTIM, "log_id": self._log(VICTIM)}
        with self.target.superuser() as connection:
            unique = connection.execute(
                "SELECT indexrelid::regclass::text FROM pg_index WHERE indisunique"
                " AND NOT indisprimary AND indrelid = 'ledger.ledger_events'::regclass"
            ).fetchall()
            for (name,) in unique:
                connection.execute(f"DROP INDEX {name}".encode())
            connection.execute(statement.encode(), {**place, **values})

    def _log(self, tenant: str) -> UUID:
        return self.target.logs[tenant, "memory"]


class WithoutAnchor(LedgerAdapter):
    """The same without what lies outside: all that it has can be set back together."""

    name = "memoriale without its anchor"

    def verify(self) -> bool:
        """Asks database and home alone."""
        return self._verified(anchors=False)


class Trusting(LedgerAdapter):
    """A store that opens whatever it finds, and calls that verified."""

    name = "trusting"

    def verify(self) -> bool:
        """Everything is fine."""
        return True
