-- Before: a log has the one incarnation that it was made with.
-- After: ledger.begin_incarnation(tenant, log, incarnation) notes that a log came back from a
--        backup and that its history goes on from there under another number. For the owner
--        and the role memoriale_admin; the software's other roles cannot call it.

SET LOCAL ROLE memoriale_owner;
SET LOCAL search_path = ledger, pg_temp;

CREATE FUNCTION begin_incarnation(p_tenant text, p_log_id uuid, p_incarnation integer)
RETURNS ledger_logs
LANGUAGE plpgsql SECURITY DEFINER SET search_path = ledger, pg_temp AS $$
DECLARE
    v_log ledger_logs;
BEGIN
    PERFORM set_config('ledger.tenant', p_tenant, true);
    -- Appends of the log wait meanwhile.
    PERFORM FROM ledger_heads WHERE tenant = p_tenant AND log_id = p_log_id FOR UPDATE;
    SELECT * INTO v_log FROM ledger_logs
    WHERE tenant = p_tenant AND log_id = p_log_id ORDER BY incarnation DESC LIMIT 1;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'tenant % has no log %', p_tenant, p_log_id USING ERRCODE = 'ML001';
    END IF;
    -- Whoever repeats the call after a crash finds what it had done.
    IF v_log.incarnation = p_incarnation THEN
        RETURN v_log;
    END IF;
    IF v_log.incarnation <> p_incarnation - 1 THEN
        RAISE EXCEPTION 'log % is in incarnation %, so % cannot begin',
            p_log_id, v_log.incarnation, p_incarnation USING ERRCODE = '22023';
    END IF;
    INSERT INTO ledger_logs (tenant, log_kind, log_id, incarnation, created_at)
    VALUES (p_tenant, v_log.log_kind, p_log_id, p_incarnation, clock_timestamp())
    RETURNING * INTO v_log;
    RETURN v_log;
END
$$;

REVOKE ALL ON FUNCTION begin_incarnation(text, uuid, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION begin_incarnation(text, uuid, integer) TO memoriale_admin;
