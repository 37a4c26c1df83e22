-- Before: what an owner has of a kind is folded from the first event on in every new process.
-- After: ledger.ledger_owner_snapshots keeps what was folded up to an index, sealed. It repeats
--        the log and can be thrown away: no trigger protects it, who posts views writes and
--        deletes it, and who erases deletes it. Row security closes it like every other table.

SET LOCAL ROLE memoriale_owner;
SET LOCAL search_path = ledger, pg_temp;

CREATE TABLE ledger_owner_snapshots (
    tenant text COLLATE "C" NOT NULL CHECK (tenant <> ''),
    log_id uuid NOT NULL,
    owner uuid NOT NULL,
    kind text COLLATE "C" NOT NULL,
    branch uuid NOT NULL,
    fold_version integer NOT NULL,
    index bigint NOT NULL CHECK (index >= 0),
    state bytea NOT NULL,
    PRIMARY KEY (tenant, log_id, owner, kind, branch, fold_version, index)
);

-- Sealed bytes do not shrink; trying to compress them costs time.
ALTER TABLE ledger_owner_snapshots ALTER COLUMN state SET STORAGE EXTERNAL;

ALTER TABLE ledger_owner_snapshots ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger_owner_snapshots FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_only ON ledger_owner_snapshots
    USING (tenant = current_setting('ledger.tenant', true) AND tenant <> '')
    WITH CHECK (tenant = current_setting('ledger.tenant', true) AND tenant <> '');
REVOKE ALL ON ledger_owner_snapshots FROM PUBLIC;
GRANT SELECT ON ledger_owner_snapshots TO memoriale_read;
GRANT SELECT, INSERT, DELETE ON ledger_owner_snapshots TO memoriale_project;
GRANT SELECT, DELETE ON ledger_owner_snapshots TO memoriale_erase;
