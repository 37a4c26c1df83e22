-- Before: who migrates hands out the roles of the software, and only the real tables could show
--         what is refused.
-- After: the logins memoriale_writer, memoriale_projector and memoriale_eraser hold the roles
--        that are theirs, where the cluster has them. ledger.ledger_probe holds a row of each of
--        two tenants who are nobody; it is protected like the events, and `memoriale doctor`
--        tries on it what must be refused.

-- Another database's migration may grant the same at the same moment; see the first migration.
DO $logins$
DECLARE
    v_grant text[];
    v_able CONSTANT text := CASE
        WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER'
    END;
BEGIN
    FOREACH v_grant SLICE 1 IN ARRAY ARRAY[
        ARRAY['memoriale_append', 'memoriale_writer'],
        ARRAY['memoriale_read', 'memoriale_writer'],
        ARRAY['memoriale_project', 'memoriale_projector'],
        ARRAY['memoriale_erase', 'memoriale_eraser']
    ] LOOP
        CONTINUE WHEN to_regrole(v_grant[2]) IS NULL;
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
$logins$;

SET LOCAL ROLE memoriale_owner;
SET LOCAL search_path = ledger, pg_temp;

CREATE TABLE ledger_probe (
    tenant text COLLATE "C" PRIMARY KEY CHECK (tenant <> '')
);
INSERT INTO ledger_probe (tenant) VALUES ('_probe'), ('_probe-other');

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON ledger_probe
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_truncated BEFORE TRUNCATE ON ledger_probe
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE ledger_probe ENABLE ALWAYS TRIGGER append_only;
ALTER TABLE ledger_probe ENABLE ALWAYS TRIGGER never_truncated;

ALTER TABLE ledger_probe ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger_probe FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_only ON ledger_probe
    USING (tenant = current_setting('ledger.tenant', true) AND tenant <> '')
    WITH CHECK (tenant = current_setting('ledger.tenant', true) AND tenant <> '');
REVOKE ALL ON ledger_probe FROM PUBLIC;
GRANT SELECT ON ledger_probe TO memoriale_read, memoriale_project;
