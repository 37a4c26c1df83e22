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
    v_grant text[];
    v_grants text[] := ARRAY[ARRAY['memoriale_owner', 'memoriale_admin']];
    -- A login that creates a role administers it from version 16 on without being able to
    -- act as it, which "MEMBER" does not tell.
    v_able CONSTANT text := CASE
        WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER'
    END;
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

    -- Whoever migrates must be able to act as the owner. The roles of the software go to its
    -- login, or to whoever migrates when there is none of that name.
    v_grants := v_grants || ARRAY['memoriale_owner', session_user::text];
    v_login := CASE WHEN to_regrole('memoriale_app') IS NULL THEN session_user ELSE 'memoriale_app' END;
    FOREACH v_role IN ARRAY ARRAY['append', 'read', 'project', 'erase'] LOOP
        v_grants := v_grants || ARRAY['memoriale_' || v_role, v_login];
    END LOOP;
    FOREACH v_grant SLICE 1 IN ARRAY v_grants LOOP
        FOR v_attempt IN 1..20 LOOP
            EXIT WHEN pg_has_role(v_grant[2], v_grant[1], v_able);
            BEGIN
                EXECUTE format('GRANT %I TO %I', v_grant[1], v_grant[2]);
            EXCEPTION WHEN unique_violation OR internal_error THEN
                PERFORM pg_sleep(0.05);
            END;
        END LOOP;
        IF NOT pg_has_role(v_grant[2], v_grant[1], v_able) THEN
            RAISE EXCEPTION 'the role % could not be granted to %', v_grant[1], v_grant[2];
        END IF;
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
