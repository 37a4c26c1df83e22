-- Before: tables that their owner can change at will.
-- After: stored events and logs cannot be updated, deleted or truncated, a head only grows,
--        every table is closed but for the tenant that the transaction names, and the roles
--        hold what they need and nothing more. Partitions inherit none of this.

SET LOCAL ROLE memoriale_owner;
SET LOCAL search_path = ledger, pg_temp;

CREATE FUNCTION refuse_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = ledger, pg_temp AS $$
BEGIN
    RAISE EXCEPTION '% on ledger.% is refused: the ledger is append-only', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'ML003';
END
$$;

-- ALWAYS: a session in the replica role skips ordinary triggers without a word.
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON ledger_events
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_truncated BEFORE TRUNCATE ON ledger_events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE ledger_events ENABLE ALWAYS TRIGGER append_only;
ALTER TABLE ledger_events ENABLE ALWAYS TRIGGER never_truncated;

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON ledger_logs
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_truncated BEFORE TRUNCATE ON ledger_logs
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE ledger_logs ENABLE ALWAYS TRIGGER append_only;
ALTER TABLE ledger_logs ENABLE ALWAYS TRIGGER never_truncated;

CREATE TRIGGER append_only BEFORE DELETE ON ledger_heads
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER only_grows BEFORE UPDATE ON ledger_heads
    FOR EACH ROW WHEN (
        NEW.tenant <> OLD.tenant OR NEW.log_id <> OLD.log_id OR NEW.next <= OLD.next
        OR NEW.last_recorded_at IS NULL OR NEW.last_recorded_at <= OLD.last_recorded_at
    ) EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_truncated BEFORE TRUNCATE ON ledger_heads
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
ALTER TABLE ledger_heads ENABLE ALWAYS TRIGGER append_only;
ALTER TABLE ledger_heads ENABLE ALWAYS TRIGGER only_grows;
ALTER TABLE ledger_heads ENABLE ALWAYS TRIGGER never_truncated;

-- FORCE binds the owner too, as whom the append function runs. After a transaction that set
-- it the setting is '', not null, so the empty tenant must match nothing.
DO $policies$
DECLARE
    v_table text;
BEGIN
    FOREACH v_table IN ARRAY ARRAY['logs', 'heads', 'events', 'subjects'] LOOP
        v_table := 'ledger_' || v_table;
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', v_table);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', v_table);
        EXECUTE format(
            'CREATE POLICY tenant_only ON %I'
            ' USING (tenant = current_setting(''ledger.tenant'', true) AND tenant <> '''')'
            ' WITH CHECK (tenant = current_setting(''ledger.tenant'', true) AND tenant <> '''')',
            v_table
        );
        EXECUTE format('REVOKE ALL ON %I FROM PUBLIC', v_table);
        EXECUTE format('GRANT SELECT ON %I TO memoriale_read, memoriale_project', v_table);
    END LOOP;
END
$policies$;

REVOKE ALL ON FUNCTION refuse_change() FROM PUBLIC;
