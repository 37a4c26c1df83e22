-- Before: nothing looks at stored events on behalf of an append.
-- After: broken_guards() says which guards do not hold, and sort_appends() says of each append
--        of a call whether it is new, stored before, in conflict, refused or must wait.
--        Both run under the head lock of ledger.append.
--
-- Each look-up must use the one key made for it. All keys begin with the tenant and the log,
-- and without statistics the planner takes that beginning alone for unique: it then reads
-- the whole log through any key, for each event. So every look-up asks for the next entry of
-- its key in the key's own order, and sorting is disabled: only that key gives that order.
-- The row found is the neighbour when there is no match, so it is compared once more.

SET LOCAL ROLE memoriale_owner;
SET LOCAL search_path = ledger, pg_temp;

-- Guard types: 1 the stream has p_at events; 2 nothing new of an owner and kind after p_at;
-- 3 no event of these topics after p_at. States: 0 holds, 1 broken for good, 2 the stream is
-- still behind, so that an earlier append of the same call may make it true.
CREATE FUNCTION broken_guards(
    p_tenant text,
    p_log_id uuid,
    p_type smallint[],
    p_id uuid[],
    p_at bigint[],
    p_kind text[],
    p_branch uuid[],
    p_topics text[],
    OUT states smallint[]
)
LANGUAGE plpgsql
SET search_path = ledger, pg_temp
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_sort = off
SET enable_incremental_sort = off
SET jit = off
AS $$
DECLARE
    v_part smallint[];
BEGIN
    states := array_fill(0::smallint, ARRAY[cardinality(p_type)]);
    IF 1 = ANY (p_type) THEN
        SELECT array_agg(
            CASE WHEN g.type <> 1 OR h.version = g.at THEN 0 WHEN h.version > g.at THEN 1 ELSE 2 END
            ORDER BY g.ord
        ) INTO v_part
        FROM unnest(p_type, p_id, p_at) WITH ORDINALITY AS g (type, id, at, ord)
        CROSS JOIN LATERAL (
            SELECT coalesce((
                SELECT CASE WHEN s.log_id = p_log_id AND s.stream_id = g.id
                    THEN s.stream_version END
                FROM ledger_events s
                WHERE s.tenant = p_tenant AND (s.log_id, s.stream_id) <= (p_log_id, g.id)
                ORDER BY s.log_id DESC, s.stream_id DESC, s.stream_version DESC LIMIT 1
            ), 0) AS version
        ) AS h;
        states := v_part;
    END IF;
    IF 2 = ANY (p_type) THEN
        SELECT array_agg(
            CASE WHEN g.type = 2 AND EXISTS (
                SELECT FROM (
                    SELECT FROM ledger_events s
                    WHERE s.tenant = p_tenant
                    AND (s.log_id, s.owner, s.kind, s.index) > (p_log_id, g.id, g.kind, g.at)
                    AND (s.log_id, s.owner, s.kind) <= (p_log_id, g.id, g.kind)
                    AND (g.branch IS NULL OR s.branch = g.branch)
                    ORDER BY s.log_id, s.owner, s.kind, s.index LIMIT 1
                ) AS late
            ) THEN 1 ELSE g.state END
            ORDER BY g.ord
        ) INTO v_part
        FROM unnest(states, p_type, p_id, p_at, p_kind, p_branch) WITH ORDINALITY
            AS g (state, type, id, at, kind, branch, ord);
        states := v_part;
    END IF;
    IF 3 = ANY (p_type) THEN
        -- Reads the log after p_at, not all that the owner ever wrote: guard what was folded
        -- up to a recent index.
        SELECT array_agg(
            CASE WHEN g.type = 3 AND EXISTS (
                SELECT FROM (
                    SELECT s.topic, s.owner FROM ledger_events s
                    WHERE s.tenant = p_tenant AND s.log_id = p_log_id AND s.index > g.at
                    ORDER BY s.index OFFSET 0
                ) AS late
                WHERE late.topic = ANY (g.topics::text[]) AND (g.id IS NULL OR late.owner = g.id)
            ) THEN 1 ELSE g.state END
            ORDER BY g.ord
        ) INTO v_part
        FROM unnest(states, p_type, p_id, p_at, p_topics) WITH ORDINALITY
            AS g (state, type, id, at, topics, ord);
        states := v_part;
    END IF;
END
$$;

-- Verdicts: 1 new; 2 stored before; 3 mismatch (details: 1 the idempotency tag, 2 an event id
-- stands for something else); 4 refused (details: 0 a stream version is taken, n the n-th
-- guard of the append); 5 wait (an earlier append of this call decides about this one).
CREATE FUNCTION sort_appends(
    p_tenant text,
    p_log_id uuid,
    p_appends integer,
    p_append integer[],
    p_event_id uuid[],
    p_stream_id uuid[],
    p_stream_version bigint[],
    p_owner uuid[],
    p_kind text[],
    p_branch uuid[],
    p_topic text[],
    p_request_tag bytea[],
    p_idempotency_tag bytea[],
    p_guard_append integer[],
    p_guard_number integer[],
    p_guard_type smallint[],
    p_guard_id uuid[],
    p_guard_at bigint[],
    p_guard_kind text[],
    p_guard_branch uuid[],
    p_guard_topics text[],
    OUT verdicts smallint[],
    OUT details integer[],
    OUT stored_append integer[],
    OUT stored_index bigint[],
    OUT stored_event uuid[],
    OUT stored_leaf bytea[],
    OUT stored_at timestamptz[]
)
LANGUAGE plpgsql
SET search_path = ledger, pg_temp
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_sort = off
SET enable_incremental_sort = off
SET jit = off
AS $$
DECLARE
    v_states smallint[] := '{}';
    v_waiting integer[];
    v_behind integer[];
BEGIN
    IF cardinality(p_guard_type) > 0 THEN
        v_states := broken_guards(
            p_tenant, p_log_id, p_guard_type, p_guard_id, p_guard_at, p_guard_kind, p_guard_branch,
            p_guard_topics
        );
    END IF;

    -- What the stored events say.
    WITH e AS MATERIALIZED (
        SELECT * FROM unnest(
            p_append, p_event_id, p_stream_id, p_stream_version, p_owner, p_request_tag,
            p_idempotency_tag
        ) WITH ORDINALITY AS u (
            append, event_id, stream_id, stream_version, owner, request_tag, idempotency_tag, ord
        )
    ), events AS (
        SELECT e.append, count(s.event_id) AS found, count(*) AS given,
            bool_and(s.request_tag IS NOT DISTINCT FROM e.request_tag) AS same
        FROM e LEFT JOIN LATERAL (
            SELECT s.log_id, s.event_id, s.request_tag FROM ledger_events s
            WHERE s.tenant = p_tenant AND (s.log_id, s.event_id) >= (p_log_id, e.event_id)
            ORDER BY s.log_id, s.event_id LIMIT 1
        ) AS s ON s.log_id = p_log_id AND s.event_id = e.event_id
        GROUP BY e.append
    ), tags AS (
        SELECT e.append, bool_and(s.request_tag IS NOT DISTINCT FROM e.request_tag) AS same
        FROM e JOIN LATERAL (
            SELECT s.log_id, s.owner, s.idempotency_tag, s.request_tag FROM ledger_events s
            WHERE s.tenant = p_tenant AND s.idempotency_tag IS NOT NULL
            AND (s.log_id, s.owner, s.idempotency_tag) >= (p_log_id, e.owner, e.idempotency_tag)
            ORDER BY s.log_id, s.owner, s.idempotency_tag LIMIT 1
        ) AS s ON s.log_id = p_log_id AND s.owner = e.owner
            AND s.idempotency_tag = e.idempotency_tag
        WHERE e.idempotency_tag IS NOT NULL
        GROUP BY e.append
    ), taken AS (
        SELECT DISTINCT e.append
        FROM e JOIN LATERAL (
            SELECT s.log_id, s.stream_id, s.stream_version FROM ledger_events s
            WHERE s.tenant = p_tenant
            AND (s.log_id, s.stream_id, s.stream_version)
                >= (p_log_id, e.stream_id, e.stream_version)
            ORDER BY s.log_id, s.stream_id, s.stream_version LIMIT 1
        ) AS s ON s.log_id = p_log_id AND s.stream_id = e.stream_id
            AND s.stream_version = e.stream_version
    ), guards AS (
        SELECT g.append, min(g.number) FILTER (WHERE g.state = 1) AS broken,
            min(g.number) FILTER (WHERE g.state = 2) AS behind
        FROM unnest(v_states, p_guard_append, p_guard_number) AS g (state, append, number)
        WHERE g.state > 0
        GROUP BY g.append
    ), judged AS (
        SELECT n.append,
            CASE
                WHEN events.found = events.given AND events.same THEN 2
                WHEN events.found > 0 THEN 3
                WHEN tags.same THEN 2
                WHEN NOT tags.same THEN 3
                WHEN taken.append IS NOT NULL OR guards.broken IS NOT NULL THEN 4
                ELSE 1
            END AS verdict,
            CASE
                WHEN events.found > 0 THEN CASE WHEN events.found = events.given AND events.same
                    THEN 0 ELSE 2 END
                WHEN tags.append IS NOT NULL THEN 1
                WHEN taken.append IS NOT NULL THEN 0
                ELSE coalesce(guards.broken, 0)
            END AS detail,
            guards.behind
        FROM generate_series(1, p_appends) AS n (append)
        LEFT JOIN events USING (append)
        LEFT JOIN tags USING (append)
        LEFT JOIN taken USING (append)
        LEFT JOIN guards USING (append)
    )
    SELECT array_agg(verdict ORDER BY append), array_agg(detail ORDER BY append),
        array_agg(behind ORDER BY append)
    INTO verdicts, details, v_behind FROM judged;

    -- What earlier appends of this call say. An append that may yet be stored holds back every
    -- later one that shares a key with it or has a guard that it touches: first come, first
    -- served, and the first of them is always decided now.
    WITH e AS MATERIALIZED (
        SELECT * FROM unnest(
            p_append, p_event_id, p_stream_id, p_stream_version, p_owner, p_kind, p_branch, p_topic,
            p_idempotency_tag
        ) AS u (
            append, event_id, stream_id, stream_version, owner, kind, branch, topic, idempotency_tag
        )
        WHERE verdicts[u.append] = 1
    ), g AS MATERIALIZED (
        SELECT * FROM unnest(
            p_guard_append, p_guard_type, p_guard_id, p_guard_kind, p_guard_branch, p_guard_topics
        ) AS u (append, type, id, kind, branch, topics)
        WHERE verdicts[u.append] = 1
    )
    SELECT array_agg(DISTINCT append) INTO v_waiting FROM (
        SELECT append FROM (
            SELECT append, min(append) OVER (PARTITION BY event_id) AS earliest FROM e
        ) AS k WHERE earliest < append
        UNION ALL
        SELECT append FROM (
            SELECT append, min(append) OVER (PARTITION BY stream_id, stream_version) AS earliest
            FROM e
        ) AS k WHERE earliest < append
        UNION ALL
        SELECT append FROM (
            SELECT append, min(append) OVER (PARTITION BY owner, idempotency_tag) AS earliest
            FROM e WHERE idempotency_tag IS NOT NULL
        ) AS k WHERE earliest < append
        UNION ALL
        SELECT g.append FROM g JOIN (
            SELECT stream_id, min(append) AS earliest FROM e GROUP BY stream_id
        ) AS k ON g.id = k.stream_id WHERE g.type = 1 AND k.earliest < g.append
        UNION ALL
        SELECT g.append FROM g JOIN (
            SELECT owner, kind, branch, min(append) AS earliest FROM e GROUP BY owner, kind, branch
        ) AS k ON g.id = k.owner AND g.kind = k.kind
        WHERE g.type = 2 AND (g.branch IS NULL OR g.branch = k.branch) AND k.earliest < g.append
        UNION ALL
        SELECT g.append FROM g CROSS JOIN LATERAL unnest(g.topics::text[]) AS t (topic) JOIN (
            SELECT topic, owner, min(append) AS earliest FROM e GROUP BY topic, owner
        ) AS k ON t.topic = k.topic
        WHERE g.type = 3 AND (g.id IS NULL OR g.id = k.owner) AND k.earliest < g.append
    ) AS w;

    SELECT
        array_agg(CASE WHEN w.append IS NOT NULL THEN 5 WHEN j.verdict = 1 AND j.behind IS NOT NULL
            THEN 4 ELSE j.verdict END ORDER BY j.append),
        array_agg(CASE WHEN w.append IS NULL AND j.verdict = 1 AND j.behind IS NOT NULL
            THEN j.behind ELSE j.detail END ORDER BY j.append)
    INTO verdicts, details
    FROM unnest(verdicts, details, v_behind) WITH ORDINALITY AS j (verdict, detail, behind, append)
    LEFT JOIN unnest(v_waiting) AS w (append) ON w.append = j.append;

    IF NOT 2 = ANY (verdicts) THEN
        RETURN;
    END IF;
    WITH e AS MATERIALIZED (
        SELECT u.append, u.event_id, u.owner, u.idempotency_tag
        FROM unnest(p_append, p_event_id, p_owner, p_idempotency_tag)
            AS u (append, event_id, owner, idempotency_tag)
        WHERE verdicts[u.append] = 2
    ), stored AS (
        SELECT e.append, s.index, s.event_id, s.leaf_hash, s.recorded_at
        FROM e CROSS JOIN LATERAL (
            SELECT s.index, s.event_id, s.leaf_hash, s.recorded_at FROM ledger_events s
            WHERE s.tenant = p_tenant AND (s.log_id, s.event_id) >= (p_log_id, e.event_id)
            ORDER BY s.log_id, s.event_id LIMIT 1
        ) AS s
        WHERE details[e.append] = 0
        UNION ALL
        SELECT e.append, s.index, s.event_id, s.leaf_hash, s.recorded_at
        FROM e JOIN LATERAL (
            SELECT s.log_id, s.owner, s.idempotency_tag, s.append_first, s.append_last
            FROM ledger_events s
            WHERE s.tenant = p_tenant AND s.idempotency_tag IS NOT NULL
            AND (s.log_id, s.owner, s.idempotency_tag) >= (p_log_id, e.owner, e.idempotency_tag)
            ORDER BY s.log_id, s.owner, s.idempotency_tag LIMIT 1
        ) AS a ON a.log_id = p_log_id AND a.owner = e.owner
            AND a.idempotency_tag = e.idempotency_tag
        CROSS JOIN LATERAL (
            SELECT s.index, s.event_id, s.leaf_hash, s.recorded_at FROM ledger_events s
            WHERE s.tenant = p_tenant AND s.log_id = p_log_id
            AND s.index BETWEEN a.append_first AND a.append_last
            ORDER BY s.index OFFSET 0
        ) AS s
        WHERE details[e.append] = 1 AND e.idempotency_tag IS NOT NULL
    )
    SELECT array_agg(append ORDER BY append, index), array_agg(index ORDER BY append, index),
        array_agg(event_id ORDER BY append, index), array_agg(leaf_hash ORDER BY append, index),
        array_agg(recorded_at ORDER BY append, index)
    INTO stored_append, stored_index, stored_event, stored_leaf, stored_at FROM stored;
END
$$;

REVOKE ALL ON FUNCTION broken_guards(
    text, uuid, smallint[], uuid[], bigint[], text[], uuid[], text[]
) FROM PUBLIC;
REVOKE ALL ON FUNCTION sort_appends(
    text, uuid, integer, integer[], uuid[], uuid[], bigint[], uuid[], text[], uuid[], text[],
    bytea[], bytea[], integer[], integer[], smallint[], uuid[], bigint[], text[], uuid[], text[]
) FROM PUBLIC;
