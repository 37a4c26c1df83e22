"""Triggers, row security, functions and objects that were changed turn the doctor red."""

import pytest

from memoriale.adapters.doctor.checks import State
from tests.fixtures.doctor import Patient

EVENTS = "ledger.ledger_events"
PROBE = "ledger.ledger_probe"
SUBJECTS = "ledger.ledger_subjects"


TRIGGERS = [
    (
        f"ALTER TABLE {EVENTS} ENABLE TRIGGER append_only",
        f"ALTER TABLE {EVENTS} ENABLE ALWAYS TRIGGER append_only",
        ["triggers"],
        "is not ENABLE ALWAYS",
    ),
    (
        f"ALTER TABLE {EVENTS} DISABLE TRIGGER never_truncated",
        f"ALTER TABLE {EVENTS} ENABLE ALWAYS TRIGGER never_truncated",
        ["triggers"],
        "is disabled",
    ),
    (
        f"ALTER TABLE {PROBE} DISABLE TRIGGER append_only",
        f"ALTER TABLE {PROBE} ENABLE ALWAYS TRIGGER append_only",
        ["triggers", "refusals: owner"],
        "",
    ),
    (
        f"ALTER TABLE {PROBE} ENABLE TRIGGER never_truncated",
        f"ALTER TABLE {PROBE} ENABLE ALWAYS TRIGGER never_truncated",
        ["triggers"],
        "is not ENABLE ALWAYS",
    ),
    (
        "DROP TRIGGER only_grows ON ledger.ledger_heads",
        "CREATE TRIGGER only_grows BEFORE UPDATE ON ledger.ledger_heads FOR EACH ROW WHEN ("
        " NEW.tenant <> OLD.tenant OR NEW.log_id <> OLD.log_id OR NEW.next <= OLD.next"
        " OR NEW.last_recorded_at IS NULL OR NEW.last_recorded_at <= OLD.last_recorded_at)"
        " EXECUTE FUNCTION ledger.refuse_change();"
        "ALTER TABLE ledger.ledger_heads ENABLE ALWAYS TRIGGER only_grows",
        ["triggers"],
        "only_grows on ledger.ledger_heads is missing",
    ),
    (
        f"CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE ON {EVENTS}"
        " FOR EACH ROW WHEN (OLD.tenant = 'x') EXECUTE FUNCTION ledger.refuse_change();"
        f"ALTER TABLE {EVENTS} ENABLE ALWAYS TRIGGER append_only",
        f"CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE ON {EVENTS}"
        " FOR EACH ROW EXECUTE FUNCTION ledger.refuse_change();"
        f"ALTER TABLE {EVENTS} ENABLE ALWAYS TRIGGER append_only",
        ["triggers"],
        "was changed",
    ),
    (
        f"CREATE TRIGGER further BEFORE INSERT ON {EVENTS} FOR EACH ROW"
        " EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        f"DROP TRIGGER further ON {EVENTS}",
        ["triggers"],
        "further on ledger.ledger_events is not of the ledger",
    ),
]
ROW_SECURITY = [
    (
        f"ALTER TABLE {EVENTS} NO FORCE ROW LEVEL SECURITY",
        f"ALTER TABLE {EVENTS} FORCE ROW LEVEL SECURITY",
        ["row security"],
        "not FORCEd",
    ),
    (
        f"ALTER TABLE {PROBE} NO FORCE ROW LEVEL SECURITY",
        f"ALTER TABLE {PROBE} FORCE ROW LEVEL SECURITY",
        ["row security", "refusals: owner"],
        "",
    ),
    (
        f"ALTER TABLE {PROBE} DISABLE ROW LEVEL SECURITY",
        f"ALTER TABLE {PROBE} ENABLE ROW LEVEL SECURITY",
        ["row security", "refusals: read", "refusals: project"],
        "",
    ),
    (
        f"CREATE POLICY further ON {PROBE} FOR SELECT USING (true)",
        f"DROP POLICY further ON {PROBE}",
        ["row security", "refusals: read", "refusals: logins"],
        "",
    ),
    (
        f"ALTER POLICY tenant_only ON {PROBE} USING (true)",
        f"ALTER POLICY tenant_only ON {PROBE}"
        " USING (tenant = current_setting('ledger.tenant', true) AND tenant <> '')",
        ["row security", "refusals: read"],
        "",
    ),
    (
        f"ALTER POLICY tenant_only ON {PROBE}"
        " USING (tenant = coalesce(nullif(current_setting('ledger.tenant', true), ''), '_probe'))",
        f"ALTER POLICY tenant_only ON {PROBE}"
        " USING (tenant = current_setting('ledger.tenant', true) AND tenant <> '')",
        ["row security", "refusals: project"],
        "",
    ),
    (
        "DROP POLICY tenant_only ON ledger.ledger_heads",
        "CREATE POLICY tenant_only ON ledger.ledger_heads"
        " USING (tenant = current_setting('ledger.tenant', true) AND tenant <> '')"
        " WITH CHECK (tenant = current_setting('ledger.tenant', true) AND tenant <> '')",
        ["row security"],
        "tenant_only on ledger.ledger_heads is missing",
    ),
]
UNIQUENESS = [
    (
        "DROP INDEX ledger.ledger_events_stream",
        f"CREATE UNIQUE INDEX ledger_events_stream ON {EVENTS}"
        " (tenant, log_id, stream_id, stream_version)",
        ["uniqueness"],
        "stream_id, stream_version is missing",
    ),
    (
        "DROP INDEX ledger.ledger_events_idempotency;"
        f"CREATE UNIQUE INDEX ledger_events_idempotency ON {EVENTS}"
        " (tenant, log_id, owner, idempotency_tag) WHERE idempotency_tag = '\\x00'",
        "DROP INDEX ledger.ledger_events_idempotency;"
        f"CREATE UNIQUE INDEX ledger_events_idempotency ON {EVENTS}"
        " (tenant, log_id, owner, idempotency_tag) WHERE idempotency_tag IS NOT NULL",
        ["uniqueness"],
        "where (idempotency_tag IS NOT NULL) is missing",
    ),
    (
        f"ALTER TABLE {SUBJECTS} DROP CONSTRAINT ledger_subjects_pkey;"
        f"CREATE UNIQUE INDEX twin ON {SUBJECTS} (tenant, log_id, subject)",
        f"DROP INDEX ledger.twin; ALTER TABLE {SUBJECTS}"
        " ADD CONSTRAINT ledger_subjects_pkey PRIMARY KEY (tenant, log_id, subject, index)",
        ["uniqueness"],
        "ledger_subjects over tenant, log_id, subject, index",
    ),
    (
        "UPDATE pg_index SET indisvalid = false"
        " WHERE indexrelid = 'ledger.ledger_events_event'::regclass",
        "UPDATE pg_index SET indisvalid = true"
        " WHERE indexrelid = 'ledger.ledger_events_event'::regclass",
        ["uniqueness"],
        "is not valid",
    ),
    (
        f"ALTER TABLE {EVENTS} DROP CONSTRAINT place",
        f"ALTER TABLE {EVENTS} ADD CONSTRAINT place CHECK (index >= 0 AND append_first >= 0"
        " AND append_first <= index AND index <= append_last)",
        ["uniqueness"],
        "CHECK place of ledger.ledger_events is missing",
    ),
    (
        f"ALTER TABLE {PROBE} DROP CONSTRAINT ledger_probe_tenant_check;"
        f"ALTER TABLE {PROBE} ADD CONSTRAINT ledger_probe_tenant_check"
        " CHECK (tenant <> '') NOT VALID",
        f"ALTER TABLE {PROBE} VALIDATE CONSTRAINT ledger_probe_tenant_check",
        ["uniqueness"],
        "does not hold for all rows",
    ),
]
OBJECTS = [
    (
        f"ALTER TABLE {SUBJECTS} OWNER TO WRITER",
        f"ALTER TABLE {SUBJECTS} OWNER TO memoriale_owner;REVOKE ALL ON {SUBJECTS} FROM WRITER",
        ["owners", "privileges", "refusals: logins"],
        "ledger_subjects",
    ),
    (
        "ALTER FUNCTION ledger.open_log(text, text) OWNER TO CURRENT_USER",
        "ALTER FUNCTION ledger.open_log(text, text) OWNER TO memoriale_owner",
        ["owners"],
        "function ledger.open_log",
    ),
    (
        "CREATE VIEW public.peep AS SELECT tenant FROM ledger.ledger_events",
        "DROP VIEW public.peep",
        ["ways around"],
        "past row security",
    ),
    (
        "CREATE VIEW public.inner_one AS SELECT tenant FROM ledger.ledger_events;"
        "ALTER VIEW public.inner_one OWNER TO PROJECTOR;"
        "CREATE VIEW public.peep AS SELECT * FROM public.inner_one",
        "DROP VIEW public.peep; DROP VIEW public.inner_one",
        ["ways around"],
        "public.peep",
    ),
    (
        "CREATE MATERIALIZED VIEW public.copy AS SELECT tenant FROM ledger.ledger_probe",
        "DROP MATERIALIZED VIEW public.copy",
        ["ways around"],
        "does not reach",
    ),
    (
        "CREATE RULE quiet AS ON DELETE TO ledger.ledger_subjects DO INSTEAD NOTHING",
        "DROP RULE quiet ON ledger.ledger_subjects",
        ["ways around"],
        "rule quiet",
    ),
    (
        "CREATE TABLE public.above (LIKE ledger.ledger_subjects);"
        "ALTER TABLE ledger.ledger_subjects INHERIT public.above",
        "ALTER TABLE ledger.ledger_subjects NO INHERIT public.above; DROP TABLE public.above",
        ["ways around"],
        "through public.above",
    ),
    (
        "CREATE TABLE public.below () INHERITS (ledger.ledger_subjects)",
        "DROP TABLE public.below",
        ["ways around", "row security", "owners"],
        "public.below",
    ),
    (
        'CREATE TABLE public.child (tenant text COLLATE "C" REFERENCES ledger.ledger_probe)',
        "DROP TABLE public.child",
        ["ways around"],
        "foreign key",
    ),
    (
        "ALTER TABLE ledger.ledger_subjects SET UNLOGGED",
        "ALTER TABLE ledger.ledger_subjects SET LOGGED",
        ["ways around"],
        "unlogged",
    ),
    (
        "SET ROLE memoriale_owner; CREATE TABLE ledger.further (x int)",
        "DROP TABLE ledger.further",
        ["ways around"],
        "table ledger.further is not of the ledger",
    ),
    (
        "SET ROLE memoriale_owner; CREATE SEQUENCE ledger.rate",
        "DROP SEQUENCE ledger.rate",
        ["ways around"],
        "sequence ledger.rate",
    ),
]
PLANTS = [*TRIGGERS, *ROW_SECURITY, *UNIQUENESS, *OBJECTS]


@pytest.mark.parametrize(
    ("plant", "cure", "names", "word"), PLANTS, ids=[plant[0][:60] for plant in PLANTS]
)
def test_what_is_spoilt_is_found(
    patient: Patient, plant: str, cure: str, names: list[str], word: str
) -> None:
    """Every check that a fault concerns fails while it is there, names it, and passes after."""
    patient.shows(plant, cure, names, word)


GUARDS = "broken_guards(text, uuid, smallint[], uuid[], bigint[], text[], uuid[], text[])"
FUNCTIONS = [
    (
        "CREATE OR REPLACE FUNCTION ledger.refuse_change() RETURNS trigger LANGUAGE plpgsql"
        " SET search_path = ledger, pg_temp AS $$BEGIN RETURN coalesce(NEW, OLD); END$$",
        "refuse_change()",
        ["functions", "refusals: owner"],
    ),
    (
        "ALTER FUNCTION ledger.open_log(text, text) RESET search_path",
        "open_log(text, text)",
        ["functions"],
    ),
    (
        "ALTER FUNCTION ledger.open_log(text, text) SECURITY INVOKER",
        "open_log(text, text)",
        ["functions"],
    ),
    (
        "ALTER FUNCTION ledger.open_log(text, text) SET row_security = off",
        "open_log(text, text)",
        ["functions"],
    ),
    (
        f"ALTER FUNCTION ledger.{GUARDS} SET plan_cache_mode = force_custom_plan",
        GUARDS,
        ["functions"],
    ),
]


@pytest.mark.parametrize(("plant", "function", "names"), FUNCTIONS)
def test_a_changed_function_is_found(
    patient: Patient, plant: str, function: str, names: list[str]
) -> None:
    """A body, a setting or SECURITY that is not the migration's fails the check."""
    with patient.database.connect() as connection:
        defined = "SELECT pg_get_functiondef(%s::regprocedure)"
        ((before,),) = connection.execute(defined, [f"ledger.{function}"]).fetchall()
    patient.execute(plant)
    try:
        found = [patient.check(name) for name in names]
    finally:
        patient.execute(
            f"ALTER FUNCTION ledger.{function} RESET ALL; {before};"
            f"ALTER FUNCTION ledger.{function} OWNER TO memoriale_owner"
        )
    assert [(check.name, check.state) for check in found] == [
        (name, State.FAILED) for name in names
    ]
    assert function.partition("(")[0] in found[0].detail
    assert all(patient.check(name).ok for name in names)


def test_a_function_that_no_migration_made_is_found(patient: Patient) -> None:
    """A further function, or a second one of a known name, is named with whose rights it has."""
    for name in ("further", "append"):
        patient.execute(
            f"SET ROLE memoriale_owner; CREATE FUNCTION ledger.{name}() RETURNS int LANGUAGE sql"
            " SECURITY DEFINER AS 'SELECT 1'"
        )
        try:
            check = patient.check("functions")
        finally:
            patient.execute(f"DROP FUNCTION ledger.{name}()")
        assert check.state is State.FAILED
        assert f"ledger.{name} that is not of the ledger" in check.detail
        assert "does not pin its search_path" in check.detail
    assert patient.check("functions").state is State.OK


WARNINGS = [
    (
        "CREATE PUBLICATION further FOR TABLE ledger.ledger_logs",
        "DROP PUBLICATION further",
        "copies",
        "publication further",
    ),
    (
        "CREATE FUNCTION public.noted() RETURNS event_trigger LANGUAGE plpgsql AS"
        " 'BEGIN RETURN; END';"
        "CREATE EVENT TRIGGER further ON ddl_command_end EXECUTE FUNCTION public.noted()",
        "DROP EVENT TRIGGER further; DROP FUNCTION public.noted()",
        "copies",
        "event trigger further",
    ),
    (
        "CREATE VIEW public.mine WITH (security_invoker = true) AS"
        " SELECT tenant FROM ledger.ledger_events",
        "DROP VIEW public.mine",
        "ways around",
        "public.mine",
    ),
    (
        "CREATE ROLE further LOGIN IN ROLE memoriale_admin",
        "DROP ROLE further",
        "members",
        "further can act as memoriale_owner",
    ),
    (
        "CREATE ROLE newcomer LOGIN IN ROLE memoriale_read",
        "DROP ROLE newcomer",
        "members",
        "newcomer",
    ),
    ("CREATE ROLE further SUPERUSER LOGIN", "DROP ROLE further", "unbound", "further"),
]


@pytest.mark.parametrize(("plant", "cure", "name", "word"), WARNINGS)
def test_what_somebody_should_know_is_a_warning(
    patient: Patient, plant: str, cure: str, name: str, word: str
) -> None:
    """What weakens nothing by itself is told, and the check does not fail."""
    patient.execute(plant)
    try:
        check = patient.check(name)
    finally:
        patient.execute(cure)
    assert (check.state, check.ok) == (State.WARNING, True)
    assert word in check.detail
    assert word not in patient.check(name).detail
