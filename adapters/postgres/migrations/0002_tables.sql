-- Before: the schema "ledger" without tables of its own.
-- After: logs, heads, events and subjects with their keys and checks. Every key begins with
--        the tenant, so that none tells one tenant of another's and the tables can be
--        partitioned or distributed by it.

SET LOCAL ROLE memoriale_owner;
SET LOCAL search_path = ledger, pg_temp;

CREATE TABLE ledger_logs (
    tenant text COLLATE "C" NOT NULL CHECK (tenant ~ '^[A-Za-z0-9_.:/-]{1,64}$'),
    log_kind text COLLATE "C" NOT NULL CHECK (log_kind IN ('memory', 'access', 'deployment')),
    log_id uuid NOT NULL,
    incarnation integer NOT NULL CHECK (incarnation >= 1),
    created_at timestamptz NOT NULL CHECK (isfinite(created_at)),
    PRIMARY KEY (tenant, log_kind, incarnation),
    UNIQUE (tenant, log_id, incarnation)
);

-- One row is updated by every append: room on its page keeps these updates heap-only.
CREATE TABLE ledger_heads (
    tenant text COLLATE "C" NOT NULL CHECK (tenant <> ''),
    log_id uuid NOT NULL,
    next bigint NOT NULL CHECK (next >= 0),
    last_recorded_at timestamptz CHECK (isfinite(last_recorded_at)),
    PRIMARY KEY (tenant, log_id)
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

CREATE TABLE ledger_events (
    tenant text COLLATE "C" NOT NULL,
    log_id uuid NOT NULL,
    index bigint NOT NULL,
    event_id uuid NOT NULL,
    append_first bigint NOT NULL,
    append_last bigint NOT NULL,
    stream_id uuid NOT NULL,
    stream_version bigint NOT NULL,
    continues bigint,
    memory_id uuid,
    branch uuid,
    kind text COLLATE "C",
    topic text COLLATE "C" NOT NULL,
    schema_version integer NOT NULL,
    recorded_at timestamptz NOT NULL,
    valid_from timestamptz,
    valid_until timestamptz,
    expires_at timestamptz,
    owner uuid NOT NULL,
    owner_type text COLLATE "C" NOT NULL,
    principal_user uuid,
    principal_agent uuid,
    principal_resource uuid,
    principal_session uuid,
    principal_team uuid,
    about uuid[] NOT NULL,
    visibility text COLLATE "C",
    namespace_tags bytea[] NOT NULL,
    actor uuid NOT NULL,
    actor_kind text COLLATE "C" NOT NULL,
    authentication text COLLATE "C" NOT NULL,
    on_behalf_of uuid,
    purpose text COLLATE "C",
    correlation_id uuid NOT NULL,
    causation_id uuid,
    source_run uuid,
    retention_class text COLLATE "C" NOT NULL,
    request_tag bytea,
    content_tag bytea,
    idempotency_tag bytea,
    header text COLLATE "C" NOT NULL,
    state bytea,
    state_hash bytea NOT NULL,
    leaf_version smallint NOT NULL,
    leaf_hash bytea NOT NULL,
    PRIMARY KEY (tenant, log_id, index),
    CONSTRAINT clear_words CHECK (
        tenant ~ '^[A-Za-z0-9_.:/-]{1,64}$'
        AND retention_class ~ '^[A-Za-z0-9_.:/-]{1,64}$'
        AND (kind IS NULL OR kind ~ '^[A-Za-z0-9_.:/-]{1,64}$')
        AND (purpose IS NULL OR purpose ~ '^[A-Za-z0-9_.:/-]{1,64}$')
    ),
    CONSTRAINT words_not_empty CHECK (
        topic <> '' AND owner_type <> '' AND actor_kind <> '' AND authentication <> ''
    ),
    CONSTRAINT place CHECK (
        index >= 0 AND append_first >= 0 AND append_first <= index AND index <= append_last
    ),
    CONSTRAINT versions CHECK (stream_version >= 0 AND schema_version >= 1 AND leaf_version = 1),
    CONSTRAINT finite_times CHECK (
        isfinite(recorded_at)
        AND (valid_from IS NULL OR isfinite(valid_from))
        AND (valid_until IS NULL OR isfinite(valid_until))
        AND (expires_at IS NULL OR isfinite(expires_at))
    ),
    CONSTRAINT known_visibility CHECK (
        visibility IS NULL
        OR visibility IN ('owner', 'user', 'agent', 'team', 'tenant', 'global')
    ),
    -- The leaf encodes plain lists only: one dimension, counted from 1, without nulls.
    CONSTRAINT about_list CHECK (
        cardinality(about) = 0
        OR (array_ndims(about) = 1 AND array_lower(about, 1) = 1 AND cardinality(about) <= 500
            AND array_position(about, NULL) IS NULL)
    ),
    CONSTRAINT namespace_tags_list CHECK (
        cardinality(namespace_tags) = 0
        OR (array_ndims(namespace_tags) = 1 AND array_lower(namespace_tags, 1) = 1
            AND cardinality(namespace_tags) <= 64
            AND array_position(namespace_tags, NULL) IS NULL)
    ),
    CONSTRAINT sizes CHECK (
        octet_length(header) <= 32768
        AND octet_length(state_hash) = 32
        AND octet_length(leaf_hash) = 32
    )
) WITH (
    -- Rows are only ever inserted: no room for updates, and vacuum (which freezes rows and
    -- keeps the visibility map) is driven by inserts. Whoever removes payloads is rare.
    fillfactor = 100,
    autovacuum_vacuum_insert_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_threshold = 500,
    autovacuum_analyze_scale_factor = 0.05
);

-- Sealed bytes do not shrink; trying to compress them costs time on each insert.
ALTER TABLE ledger_events ALTER COLUMN state SET STORAGE EXTERNAL;

CREATE UNIQUE INDEX ledger_events_event ON ledger_events (tenant, log_id, event_id);
CREATE UNIQUE INDEX ledger_events_stream
    ON ledger_events (tenant, log_id, stream_id, stream_version);
CREATE UNIQUE INDEX ledger_events_idempotency
    ON ledger_events (tenant, log_id, owner, idempotency_tag) WHERE idempotency_tag IS NOT NULL;
CREATE INDEX ledger_events_slice ON ledger_events (tenant, log_id, owner, kind, index);
CREATE INDEX ledger_events_memory
    ON ledger_events (tenant, log_id, memory_id, index) WHERE memory_id IS NOT NULL;

-- Which events are about whom. It repeats columns of the events and can be built anew.
CREATE TABLE ledger_subjects (
    tenant text COLLATE "C" NOT NULL CHECK (tenant <> ''),
    log_id uuid NOT NULL,
    subject uuid NOT NULL,
    index bigint NOT NULL CHECK (index >= 0),
    PRIMARY KEY (tenant, log_id, subject, index)
) WITH (
    autovacuum_vacuum_insert_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 0.05
);
