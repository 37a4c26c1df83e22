-- Before: what a resource did, and what happened in a session, is found by kind alone.
-- After: three indexes hold the events that resources and sessions own, those that were recorded
-- in a session, and the sessions that were opened for a resource, each in the order of the log.
-- Partitions get them as well.

SET LOCAL ROLE memoriale_owner;
SET LOCAL search_path = ledger, pg_temp;

CREATE INDEX ledger_events_episodes ON ledger_events (tenant, log_id, owner, index)
    WHERE owner_type IN ('resource', 'session');
CREATE INDEX ledger_events_in_sessions ON ledger_events (tenant, log_id, principal_session, index)
    WHERE principal_session IS NOT NULL;
CREATE INDEX ledger_events_sessions_of_resources
    ON ledger_events (tenant, log_id, principal_resource, index)
    WHERE topic = 'session.opened' AND principal_resource IS NOT NULL;
