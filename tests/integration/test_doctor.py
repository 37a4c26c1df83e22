"""The doctor on whole installations: sound ones, shared logins, partitions, busy writers."""

import threading
from collections.abc import Iterator

import psycopg

from memoriale.adapters.doctor.checks import State, exit_code
from memoriale.adapters.doctor.examination import OF_THE_LEDGER, examine
from memoriale.adapters.doctor.sessions import APPLICATION
from memoriale.adapters.postgres.committer import Committer
from memoriale.adapters.postgres.datastore import Datastore
from memoriale.adapters.postgres.logs import open_log
from memoriale.adapters.postgres.migrate import migrate
from memoriale.adapters.postgres.roles import Logins
from memoriale.domain.errors import MemorialeError
from tests.contracts.ledger import append
from tests.fixtures.doctor import Patient, patient_of, separate_patient
from tests.fixtures.postgres import Database, Server, login, logins_of, temporary_database, unused

WRITERS = 8
REFUSALS = [name for name in OF_THE_LEDGER if name.startswith("refusals")]
DECLARED = [name for name in OF_THE_LEDGER if name != "views"]


def test_a_database_with_separate_logins_is_sound(patient: Patient) -> None:
    """Nothing fails and everything is tried where each purpose has a login of its own."""
    checks = examine(patient.settings, unused("tenant"))
    assert [check for check in checks if check.state in (State.FAILED, State.NOT_TRIED)] == []
    assert exit_code(checks) == 0
    said = {check.name: check.detail for check in checks}
    assert patient.spelt("memoriale_project as PROJECTOR") in said["separate logins"]
    assert all("refused" in said[name] for name in REFUSALS)


def test_the_doctor_goes_on_when_nothing_can_be_written(patient: Patient) -> None:
    """A ledger that refuses every append is told by its checks, not by an error."""
    patient.execute("REVOKE EXECUTE ON FUNCTION ledger.append FROM memoriale_append")
    try:
        checks = {check.name: check for check in examine(patient.settings, unused("tenant"))}
    finally:
        patient.execute(
            "SET ROLE memoriale_owner; GRANT EXECUTE ON FUNCTION ledger.append TO memoriale_append"
        )
    assert "memoriale_append lacks EXECUTE on ledger.append" in checks["grants"].detail
    assert set(checks) > set(OF_THE_LEDGER)


def test_the_oldest_server_is_sound_too(older_server: Server) -> None:
    """What PostgreSQL 15 prints and grants is as the checks expect."""
    with temporary_database(older_server) as database:
        migrate(database.superuser_url)
        with (
            logins_of(database.superuser_url) as logins,
            patient_of(database, logins) as patient,
        ):
            checks = [patient.check(name) for name in DECLARED]
    assert [check for check in checks if check.state in (State.FAILED, State.NOT_TRIED)] == []


def test_one_login_for_all_is_told(fresh_database: Database) -> None:
    """Roles that fall back on the first login are named with their settings, and still tried."""
    logins = Logins(fresh_database.app_url, admin=fresh_database.superuser_url)
    with patient_of(fresh_database, logins) as patient:
        check = patient.check("separate logins")
        assert check.state is State.WARNING
        assert "MEMORIALE_PROJECT_URL, MEMORIALE_ERASE_URL not set" in check.detail
        assert {patient.check(name).state for name in REFUSALS} == {State.OK}


def test_what_cannot_be_tried_is_said(fresh_database: Database) -> None:
    """Without a login for it a role is not tried: no failure, but not the exit code of a sound
    installation either."""
    with (
        login(fresh_database.superuser_url, "append", "read", "project") as url,
        patient_of(fresh_database, Logins(url)) as patient,
    ):
        checks = {name: patient.check(name) for name in REFUSALS}
        alone = patient.check("separate logins")
    assert {name for name, check in checks.items() if check.state is State.NOT_TRIED} == {
        "refusals: erase",
        "refusals: owner",
    }
    assert "MEMORIALE_ERASE_URL" in checks["refusals: erase"].detail
    assert "MEMORIALE_ADMIN_URL" in alone.detail
    assert exit_code([*checks.values()]) == 6
    assert all(check.ok for check in checks.values())


def test_a_login_without_its_role_is_a_failure(fresh_database: Database) -> None:
    """A setting that names a login which cannot do the work is named."""
    with (
        login(fresh_database.superuser_url, "append", "read", "erase") as first,
        login(fresh_database.superuser_url, "read") as wrong,
        patient_of(fresh_database, Logins(first, project=wrong)) as patient,
    ):
        check = patient.check("refusals: project")
    assert check.state is State.FAILED
    assert "MEMORIALE_PROJECT_URL" in check.detail


def test_a_locked_table_makes_the_doctor_give_up(patient: Patient) -> None:
    """Behind somebody's lock an attempt ends by itself, and the check says what was not tried."""
    with patient.database.connect() as connection, connection.transaction():
        connection.execute("LOCK TABLE ledger.ledger_probe IN ACCESS EXCLUSIVE MODE")
        check = patient.check("refusals: erase")
    assert (check.state, check.ok) == (State.NOT_TRIED, True)
    assert "ledger.ledger_probe" in check.detail
    assert patient.check("refusals: erase").state is State.OK


def test_nothing_that_is_tried_stays(patient: Patient) -> None:
    """Also when everything is allowed, as for a superuser, no attempt leaves a trace."""
    before = traces(patient)
    patient.execute("ALTER ROLE WRITER SUPERUSER")
    try:
        checks = [patient.check(name) for name in REFUSALS]
    finally:
        patient.execute("ALTER ROLE WRITER NOSUPERUSER")
    assert "refusals: logins" in [check.name for check in checks if not check.ok]
    assert traces(patient) == before
    assert all(patient.check(name).ok for name in REFUSALS)


def traces(patient: Patient) -> list[tuple[object, ...]]:
    """What an attempt could have left behind."""
    with patient.database.connect() as connection:
        return connection.execute(
            "SELECT (SELECT array_agg(tenant ORDER BY tenant) FROM ledger.ledger_probe),"
            " (SELECT array_agg(relname ORDER BY relname) FROM pg_class"
            " WHERE relnamespace = 'ledger'::regnamespace),"
            " (SELECT array_agg(rolname || rolbypassrls ORDER BY rolname) FROM pg_roles),"
            " (SELECT count(*) FROM ledger.ledger_logs),"
            " (SELECT count(*) FROM pg_largeobject_metadata)"
        ).fetchall()


PARTITIONED = """
ALTER TABLE ledger.ledger_events RENAME TO single;
SET ROLE memoriale_owner;
CREATE TABLE ledger.ledger_events (LIKE ledger.single INCLUDING ALL) PARTITION BY HASH (tenant);
CREATE TABLE ledger.part_0 PARTITION OF ledger.ledger_events
    FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE ledger.part_1 PARTITION OF ledger.ledger_events
    FOR VALUES WITH (MODULUS 2, REMAINDER 1);
DROP TABLE ledger.single;
GRANT SELECT ON ledger.ledger_events TO memoriale_read, memoriale_project
"""
PROTECTED = """
SET ROLE memoriale_owner;
ALTER TABLE ledger.{0} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_only ON ledger.{0}
    USING (tenant = current_setting('ledger.tenant', true) AND tenant <> '');
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE ON ledger.{0}
    FOR EACH ROW EXECUTE FUNCTION ledger.refuse_change();
CREATE TRIGGER never_truncated BEFORE TRUNCATE ON ledger.{0}
    FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
ALTER TABLE ledger.{0} ENABLE ALWAYS TRIGGER append_only, ENABLE ALWAYS TRIGGER never_truncated
"""


def test_each_partition_is_looked_at(server: Server, template: str) -> None:
    """A partition without triggers, row security or policy fails, and so until all have them."""
    names = ["triggers", "row security"]
    with separate_patient(server, template) as patient:
        patient.execute(PARTITIONED)
        tables = ["part_0", "part_1", "ledger_events"]
        for place, table in enumerate(tables):
            for check in (patient.check(name) for name in names):
                assert check.state is State.FAILED
                assert [each for each in tables if f"ledger.{each}" in check.detail] == sorted(
                    tables[place:], key=tables.index
                )
            patient.execute(PROTECTED.format(table))
        checks = [patient.check(name) for name in DECLARED if name != "clock"]
    assert [check for check in checks if check.state in (State.FAILED, State.NOT_TRIED)] == []


def test_the_doctor_makes_no_writer_wait(patient: Patient) -> None:
    """While eight writers append, every check passes, every append is stored, and nobody waits
    for a session of the doctor's."""
    stop, failures = threading.Event(), list[MemorialeError]()
    stored, waited = list[int](), list[int]()

    def write() -> None:
        count = 0
        with (
            Datastore(patient.logins.first, application_name="busy") as datastore,
            Committer(datastore, open_log(datastore, unused("tenant"))) as committer,
        ):
            while not stop.is_set():
                try:
                    committer.submit(append())
                except MemorialeError as error:
                    failures.append(error)
                count += 1
        stored.append(count)

    def watch() -> None:
        with patient.database.connect() as connection:
            while not stop.is_set():
                waited.extend(waiting(connection))

    threads = [threading.Thread(target=write) for _ in range(WRITERS)]
    threads.append(threading.Thread(target=watch))
    for thread in threads:
        thread.start()
    try:
        checks = [patient.check(name) for name in DECLARED]
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert [check for check in checks if check.state in (State.FAILED, State.NOT_TRIED)] == []
    assert failures == []
    assert waited == []
    assert len(stored) == WRITERS
    assert min(stored) > 0


def waiting(connection: psycopg.Connection) -> Iterator[int]:
    """Writers that wait for the doctor at this moment."""
    found = connection.execute(
        "SELECT w.pid FROM pg_stat_activity w, unnest(pg_blocking_pids(w.pid)) AS b (pid)"
        " JOIN pg_stat_activity d ON d.pid = b.pid"
        " WHERE w.application_name = 'busy' AND d.application_name = %s",
        [APPLICATION],
    )
    yield from (pid for (pid,) in found)
