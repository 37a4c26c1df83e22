-- Before: no way to make a log.
-- After: ledger.open_log(tenant, kind) returns the log of that kind, made on first use.

SET LOCAL ROLE memoriale_owner;
SET LOCAL search_path = ledger, pg_temp;

CREATE FUNCTION open_log(p_tenant text, p_kind text) RETURNS ledger_logs
LANGUAGE plpgsql SECURITY DEFINER SET search_path = ledger, pg_temp AS $$
DECLARE
    v_log ledger_logs;
BEGIN
    PERFORM set_config('ledger.tenant', p_tenant, true);
    SELECT * INTO v_log FROM ledger_logs
    WHERE tenant = p_tenant AND log_kind = p_kind ORDER BY incarnation DESC LIMIT 1;
    IF FOUND THEN
        RETURN v_log;
    END IF;

    -- Of two first callers one inserts; the other waits here for its commit and then reads it.
    INSERT INTO ledger_logs (tenant, log_kind, log_id, incarnation, created_at)
    VALUES (p_tenant, p_kind, gen_random_uuid(), 1, clock_timestamp())
    ON CONFLICT (tenant, log_kind, incarnation) DO NOTHING
    RETURNING * INTO v_log;
    IF FOUND THEN
        INSERT INTO ledger_heads (tenant, log_id, next) VALUES (p_tenant, v_log.log_id, 0);
        RETURN v_log;
    END IF;
    SELECT * INTO STRICT v_log FROM ledger_logs
    WHERE tenant = p_tenant AND log_kind = p_kind ORDER BY incarnation DESC LIMIT 1;
    RETURN v_log;
END
$$;

REVOKE ALL ON FUNCTION open_log(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION open_log(text, text) TO memoriale_append;
