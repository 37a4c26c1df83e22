"""Rights and logins that are not as the migrations left them turn the doctor red."""

import pytest

from tests.fixtures.doctor import Patient

EVENTS = "ledger.ledger_events"
PROBE = "ledger.ledger_probe"
SUBJECTS = "ledger.ledger_subjects"
REPLICA = "session_replication_role"


# (what is done, how it is put right, the checks that see it, what each says)
RIGHTS = [
    (
        f"GRANT UPDATE ON {EVENTS} TO memoriale_append",
        f"REVOKE UPDATE ON {EVENTS} FROM memoriale_append",
        ["grants", "privileges", "refusals: append", "refusals: logins"],
        "ledger_events",
    ),
    (
        f"GRANT UPDATE (state) ON {EVENTS} TO memoriale_read",
        f"REVOKE UPDATE (state) ON {EVENTS} FROM memoriale_read",
        ["grants", "privileges"],
        "ledger_events",
    ),
    (
        "GRANT SELECT ON ledger.ledger_heads TO PUBLIC",
        "REVOKE SELECT ON ledger.ledger_heads FROM PUBLIC",
        ["grants", "privileges", "refusals: append", "refusals: erase"],
        "ledger_heads",
    ),
    (
        f"GRANT DELETE ON {SUBJECTS} TO WRITER",
        f"REVOKE DELETE ON {SUBJECTS} FROM WRITER",
        ["grants", "privileges", "refusals: logins"],
        "ledger_subjects",
    ),
    (
        "GRANT INSERT ON ledger.ledger_logs TO memoriale_project",
        "REVOKE INSERT ON ledger.ledger_logs FROM memoriale_project",
        ["grants", "privileges", "refusals: project"],
        "ledger_logs",
    ),
    (
        f"GRANT TRUNCATE ON {PROBE} TO memoriale_erase",
        f"REVOKE TRUNCATE ON {PROBE} FROM memoriale_erase",
        ["grants", "privileges", "refusals: erase"],
        "ledger_probe",
    ),
    (
        f"GRANT SELECT ON {EVENTS} TO memoriale_read WITH GRANT OPTION",
        f"REVOKE GRANT OPTION FOR SELECT ON {EVENTS} FROM memoriale_read",
        ["grants"],
        "WITH GRANT OPTION",
    ),
    (
        f"REVOKE SELECT ON {EVENTS} FROM memoriale_project",
        f"SET ROLE memoriale_owner; GRANT SELECT ON {EVENTS} TO memoriale_project",
        ["grants"],
        "memoriale_project lacks SELECT",
    ),
    (
        "GRANT EXECUTE ON FUNCTION ledger.open_log(text, text) TO memoriale_read",
        "REVOKE EXECUTE ON FUNCTION ledger.open_log(text, text) FROM memoriale_read",
        ["grants", "refusals: read"],
        "open_log",
    ),
    (
        "GRANT EXECUTE ON FUNCTION ledger.refuse_change() TO PUBLIC",
        "REVOKE EXECUTE ON FUNCTION ledger.refuse_change() FROM PUBLIC",
        ["grants", "refusals: project", "refusals: erase"],
        "refuse_change",
    ),
    (
        "GRANT CREATE ON SCHEMA ledger TO memoriale_project",
        "REVOKE CREATE ON SCHEMA ledger FROM memoriale_project",
        ["grants", "privileges", "refusals: project", "refusals: logins"],
        "",
    ),
    (
        "ALTER DEFAULT PRIVILEGES FOR ROLE memoriale_owner IN SCHEMA ledger"
        " GRANT SELECT ON TABLES TO PUBLIC",
        "ALTER DEFAULT PRIVILEGES FOR ROLE memoriale_owner IN SCHEMA ledger"
        " REVOKE SELECT ON TABLES FROM PUBLIC",
        ["grants"],
        "PUBLIC",
    ),
    (
        "GRANT pg_write_all_data TO WRITER",
        "REVOKE pg_write_all_data FROM WRITER",
        ["privileges", "refusals: logins"],
        "",
    ),
    (
        "GRANT pg_read_all_data TO ERASER",
        "REVOKE pg_read_all_data FROM ERASER",
        ["privileges", "refusals: logins"],
        "",
    ),
    (
        f"GRANT SET ON PARAMETER {REPLICA} TO WRITER",
        f"REVOKE SET ON PARAMETER {REPLICA} FROM WRITER",
        ["refusals: logins"],
        REPLICA,
    ),
    (
        "GRANT EXECUTE ON FUNCTION pg_catalog.pg_read_file(text) TO PROJECTOR",
        "REVOKE EXECUTE ON FUNCTION pg_catalog.pg_read_file(text) FROM PROJECTOR",
        ["refusals: logins"],
        "pg_read_file",
    ),
    (
        "GRANT pg_execute_server_program TO WRITER",
        "REVOKE pg_execute_server_program FROM WRITER",
        ["refusals: logins"],
        "PROGRAM",
    ),
]
LOGINS = [
    ("ALTER ROLE WRITER SUPERUSER", "ALTER ROLE WRITER NOSUPERUSER", ["login"], "superuser"),
    (
        "ALTER ROLE PROJECTOR BYPASSRLS",
        "ALTER ROLE PROJECTOR NOBYPASSRLS",
        ["login", "unbound", "refusals: logins"],
        "",
    ),
    ("ALTER ROLE ERASER CREATEROLE", "ALTER ROLE ERASER NOCREATEROLE", ["login"], "CREATEROLE"),
    (
        "ALTER ROLE memoriale_read LOGIN",
        "ALTER ROLE memoriale_read NOLOGIN",
        ["roles"],
        "memoriale_read has LOGIN",
    ),
    (
        "GRANT memoriale_owner TO WRITER",
        "REVOKE memoriale_owner FROM WRITER",
        ["members", "refusals: logins"],
        "memoriale_owner",
    ),
    (
        "GRANT memoriale_admin TO ERASER",
        "REVOKE memoriale_admin FROM ERASER",
        ["members", "refusals: logins"],
        "memoriale_",
    ),
    (
        "CREATE ROLE further LOGIN IN ROLE memoriale_owner",
        "DROP ROLE further",
        ["members"],
        "further can act as memoriale_owner",
    ),
    (
        "GRANT memoriale_erase TO WRITER",
        "REVOKE memoriale_erase FROM WRITER",
        ["separate logins", "refusals: logins"],
        "memoriale_erase",
    ),
    (
        "ALTER ROLE WRITER SET ledger.tenant = '_probe'",
        "ALTER ROLE WRITER RESET ledger.tenant",
        ["unbound", "refusals: read"],
        "tenant",
    ),
    (
        "ALTER DATABASE DATABASE_NAME SET synchronous_commit = off",
        "ALTER DATABASE DATABASE_NAME RESET synchronous_commit",
        ["unbound", "durability"],
        "synchronous_commit",
    ),
    (
        f"ALTER ROLE PROJECTOR IN DATABASE DATABASE_NAME SET {REPLICA} = replica",
        f"ALTER ROLE PROJECTOR IN DATABASE DATABASE_NAME RESET {REPLICA}",
        ["unbound"],
        REPLICA,
    ),
]
PLANTS = [*RIGHTS, *LOGINS]


@pytest.mark.parametrize(
    ("plant", "cure", "names", "word"), PLANTS, ids=[plant[0][:60] for plant in PLANTS]
)
def test_what_is_spoilt_is_found(
    patient: Patient, plant: str, cure: str, names: list[str], word: str
) -> None:
    """Every check that a fault concerns fails while it is there, names it, and passes after."""
    patient.shows(plant, cure, names, word)
