-- Before: events of jobs are found by reading the whole log.
-- After: an index holds them alone, in the order of the log. Partitions get it as well.

SET LOCAL ROLE memoriale_owner;
SET LOCAL search_path = ledger, pg_temp;

CREATE INDEX ledger_events_jobs ON ledger_events (tenant, log_id, kind, index) WHERE kind = 'job';
