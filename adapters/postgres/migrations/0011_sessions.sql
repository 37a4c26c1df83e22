-- Before: sessions are found by their id alone.
-- After: an index holds the events that opened them, by the user for whom and in the order of
-- the log. Partitions get it as well.

SET LOCAL ROLE memoriale_owner;
SET LOCAL search_path = ledger, pg_temp;

CREATE INDEX ledger_events_sessions ON ledger_events (tenant, log_id, principal_user, index)
    WHERE topic = 'session.opened';
