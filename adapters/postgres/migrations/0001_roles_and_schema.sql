-- Before: a database of PostgreSQL 15 or newer with the encoding UTF8.
-- After: the six roles exist in the cluster, the schema "ledger" belongs to memoriale_owner,
--        and ledger.migrations can note what was applied.

-- Roles belong to the whole cluster, so a migration of another database may create or grant
-- the same ones at the same moment; whoever comes second finds them and goes on. Which of
-- the errors that one sees depends on how far the first one is.
DO $roles$
DECLARE
    v_role text;
    v_login text;
    v_statement text;
    v_todo text[] := '{}';
BEGIN
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION 'the database has the encoding %, the ledger needs UTF8',
            current_setting('server_encoding') USING ERRCODE = 'ML004';
    END IF;
    FOREACH v_role IN ARRAY ARRAY['owner', 'append', 'read', 'project', 'erase', 'admin'] LOOP
        v_role := 'memoriale_' || v_role;
        IF to_regrole(v_role) IS NULL THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', v_role);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;
            END;
        END IF;
    END LOOP;

    v_login := CASE WHEN to_regrole('memoriale_app') IS NULL THEN session_user ELSE 'memoriale_app' END;
    FOREACH v_role IN ARRAY ARRAY['append', 'read', 'project', 'erase'] LOOP
        v_todo := v_todo || format('GRANT %I TO %I', 'memoriale_' || v_role, v_login);
    END LOOP;
    v_todo := v_todo || 'GRANT memoriale_owner TO memoriale_admin'::text;
    -- Whoever migrates must be able to become the owner; a superuser already is.
    v_todo := v_todo || format('GRANT memoriale_owner TO %I', session_user);
    FOREACH v_statement IN ARRAY v_todo LOOP
        FOR v_attempt IN 1..20 LOOP
            BEGIN
                EXECUTE v_statement;
                EXIT;
            EXCEPTION WHEN unique_violation OR internal_error THEN
                PERFORM pg_sleep(0.05);
            END;
        END LOOP;
    END LOOP;
END
$roles$;

CREATE SCHEMA IF NOT EXISTS ledger AUTHORIZATION memoriale_owner;

SET LOCAL ROLE memoriale_owner;

-- Functions are executable by everybody unless their owner says otherwise.
ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;

CREATE TABLE ledger.migrations (
    version integer PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    checksum text COLLATE "C" NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

REVOKE ALL ON SCHEMA ledger FROM PUBLIC;
GRANT USAGE ON SCHEMA ledger
    TO memoriale_append, memoriale_read, memoriale_project, memoriale_erase, memoriale_admin;
GRANT SELECT ON ledger.migrations
    TO memoriale_read, memoriale_project, memoriale_erase, memoriale_admin;
