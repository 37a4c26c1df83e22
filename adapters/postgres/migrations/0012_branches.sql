-- Before: branches are found by their owner alone.
-- After: an index holds the events of branches, in the order of the log. Partitions get it as
-- well.

SET LOCAL ROLE memoriale_owner;
SET LOCAL search_path = ledger, pg_temp;

CREATE INDEX ledger_events_branches ON ledger_events (tenant, log_id, kind, index)
    WHERE kind = 'branch';
