-- Before: nobody can write events.
-- After: ledger.append() is the only way in, for the role memoriale_append.

SET LOCAL ROLE memoriale_owner;
SET LOCAL search_path = ledger, pg_temp;

-- Many independent appends in one call, each stored whole or not at all. p_counts holds the
-- number of events of each append; the arrays from p_event_id to p_state hold one item per
-- event (one that is empty stands for nulls only), "about" and "namespace_tags" as array
-- literals; the guard arrays hold one item per guard, p_guard_append and p_guard_number
-- counting from 1. p_header is stored and hashed as the text that it is.
--
-- Answer: verdicts and details as sort_appends() gives them, or null when every append is new.
-- The new ones stand at next_index, next_index + 1, …; the first of them was recorded at
-- first_recorded_at, each further append one microsecond later; leaves has one hash per new
-- event; the stored_ arrays have one item per event of the appends stored before.
--
-- The usual call looks at no stored event: it inserts, and the unique keys refuse. So one
-- generic plan serves all calls; the only table read here is the heads, by its key.
--
-- A guard "the stream has n events" compares n with the highest version of the stream, and
-- the append's own events of that stream must be n + 1, n + 2, …: no hole can come from an
-- append that carries one. Without it only doubles are refused, not holes.
CREATE FUNCTION append(
    p_tenant text,
    p_log_id uuid,
    p_counts integer[],
    p_event_id uuid[],
    p_stream_id uuid[],
    p_stream_version bigint[],
    p_continues bigint[],
    p_memory_id uuid[],
    p_branch uuid[],
    p_kind text[],
    p_topic text[],
    p_schema_version integer[],
    p_valid_from timestamptz[],
    p_valid_until timestamptz[],
    p_expires_at timestamptz[],
    p_owner uuid[],
    p_owner_type text[],
    p_principal_user uuid[],
    p_principal_agent uuid[],
    p_principal_resource uuid[],
    p_principal_session uuid[],
    p_principal_team uuid[],
    p_about text[],
    p_visibility text[],
    p_namespace_tags text[],
    p_actor uuid[],
    p_actor_kind text[],
    p_authentication text[],
    p_on_behalf_of uuid[],
    p_purpose text[],
    p_correlation_id uuid[],
    p_causation_id uuid[],
    p_source_run uuid[],
    p_retention_class text[],
    p_request_tag bytea[],
    p_content_tag bytea[],
    p_idempotency_tag bytea[],
    p_header text[],
    p_state bytea[],
    p_guard_append integer[],
    p_guard_number integer[],
    p_guard_type smallint[],
    p_guard_id uuid[],
    p_guard_at bigint[],
    p_guard_kind text[],
    p_guard_branch uuid[],
    p_guard_topics text[],
    OUT next_index bigint,
    OUT first_recorded_at timestamptz,
    OUT leaves bytea[],
    OUT verdicts smallint[],
    OUT details integer[],
    OUT stored_append integer[],
    OUT stored_index bigint[],
    OUT stored_event uuid[],
    OUT stored_leaf bytea[],
    OUT stored_at timestamptz[]
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = ledger, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $$
DECLARE
    v_appends integer := cardinality(p_counts);
    v_last_recorded_at timestamptz;
    v_append integer[];
    v_index bigint[];
    v_first bigint[];
    v_last bigint[];
    v_recorded_at timestamptz[];
    v_events bigint;
    v_rank bigint;
    v_sort boolean;
    v_states smallint[];
    v_null CONSTANT bytea := '\xffffffff';
    v_prefix bytea;
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        RAISE EXCEPTION 'a session with synchronous_commit = off cannot append: its receipts could be lost'
            USING ERRCODE = 'ML002';
    END IF;
    PERFORM set_config('ledger.tenant', p_tenant, true);
    SELECT h.next, h.last_recorded_at INTO next_index, v_last_recorded_at FROM ledger_heads h
    WHERE h.tenant = p_tenant AND h.log_id = p_log_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'tenant % has no log %', p_tenant, p_log_id USING ERRCODE = 'ML001';
    END IF;
    -- Under the lock, so that the order of times is the order of the log, also when the
    -- clock went back.
    first_recorded_at := greatest(clock_timestamp(), v_last_recorded_at + interval '1 microsecond');

    IF v_appends = 1 THEN
        v_append := array_fill(1, ARRAY[p_counts[1]]);
    ELSE
        SELECT array_agg(c.append ORDER BY c.append) INTO v_append
        FROM unnest(p_counts) WITH ORDINALITY AS c (count, append), generate_series(1, c.count);
    END IF;
    IF 0 >= ANY (p_counts) OR cardinality(v_append) IS DISTINCT FROM cardinality(p_event_id) THEN
        RAISE EXCEPTION 'p_counts does not fit the events' USING ERRCODE = '22023';
    END IF;
    v_prefix := '\x00'::bytea || '\x00000010'::bytea || 'memoriale/leaf/1'::bytea
        || int4send(octet_length(p_tenant)) || convert_to(p_tenant, 'UTF8')
        || '\x00000010'::bytea || uuid_send(p_log_id);

    v_sort := false;
    IF cardinality(p_guard_type) > 0 THEN
        PERFORM FROM unnest(p_guard_type, p_guard_append, p_guard_id, p_guard_at)
            AS g (type, append, id, at)
        JOIN (
            SELECT append, stream_id, min(version) AS low, max(version) AS high, count(*) AS events
            FROM unnest(v_append, p_stream_id, p_stream_version) AS u (append, stream_id, version)
            GROUP BY append, stream_id
        ) AS e ON e.append = g.append AND e.stream_id = g.id
        WHERE g.type = 1 AND (e.low <> g.at + 1 OR e.high <> g.at + e.events);
        IF FOUND THEN
            RAISE EXCEPTION 'an append does not continue the stream that its guard names'
                USING ERRCODE = '22023';
        END IF;
        -- Several appends may touch each other's guards, which only sorting can tell.
        v_sort := v_appends > 1;
        IF NOT v_sort THEN
            v_states := broken_guards(
                p_tenant, p_log_id, p_guard_type, p_guard_id, p_guard_at, p_guard_kind,
                p_guard_branch, p_guard_topics
            );
            v_sort := 0 < ANY (v_states);
        END IF;
    END IF;

    LOOP
        IF v_sort THEN
            SELECT s.* INTO verdicts, details, stored_append, stored_index, stored_event,
                stored_leaf, stored_at
            FROM sort_appends(
                p_tenant, p_log_id, v_appends, v_append, p_event_id, p_stream_id, p_stream_version,
                p_owner, p_kind, p_branch, p_topic, p_request_tag, p_idempotency_tag,
                p_guard_append, p_guard_number, p_guard_type, p_guard_id, p_guard_at,
                p_guard_kind, p_guard_branch, p_guard_topics
            ) AS s;
            IF NOT 1 = ANY (verdicts) THEN
                RETURN;
            END IF;
        END IF;

        IF v_appends = 1 THEN
            v_events := cardinality(v_append);
            v_rank := 1;
            v_first := array_fill(next_index, ARRAY[v_events::integer]);
            v_last := array_fill(next_index + v_events - 1, ARRAY[v_events::integer]);
            v_recorded_at := array_fill(first_recorded_at, ARRAY[v_events::integer]);
            IF v_events = 1 THEN
                v_index := v_first;
            ELSE
                SELECT array_agg(i) INTO v_index
                FROM generate_series(next_index, next_index + v_events - 1) AS i;
            END IF;
        ELSE
            -- Only new appends get a place; the others stay null and are left out below.
            SELECT
                array_agg(CASE WHEN p.new THEN next_index + p.start + n - 1 END ORDER BY p.append, n),
                array_agg(next_index + p.start ORDER BY p.append, n),
                array_agg(next_index + p.start + p.count - 1 ORDER BY p.append, n),
                array_agg(first_recorded_at + (p.rank - 1) * interval '1 microsecond'
                    ORDER BY p.append, n),
                count(*) FILTER (WHERE p.new), max(p.rank)
            INTO v_index, v_first, v_last, v_recorded_at, v_events, v_rank
            FROM (
                SELECT c.append, c.count, c.new,
                    sum(c.new::integer) OVER w AS rank,
                    sum(CASE WHEN c.new THEN c.count ELSE 0 END) OVER w - c.count AS start
                FROM (
                    SELECT u.append, u.count, verdicts IS NULL OR u.verdict = 1 AS new
                    FROM unnest(p_counts, verdicts) WITH ORDINALITY AS u (count, verdict, append)
                ) AS c
                WINDOW w AS (ORDER BY c.append)
            ) AS p, generate_series(1, p.count) AS n;
        END IF;

        BEGIN
            WITH stored AS (
                INSERT INTO ledger_events (
                    tenant, log_id, index, event_id, append_first, append_last, stream_id,
                    stream_version, continues, memory_id, branch, kind, topic, schema_version,
                    recorded_at, valid_from, valid_until, expires_at, owner, owner_type,
                    principal_user, principal_agent, principal_resource, principal_session,
                    principal_team, about, visibility, namespace_tags, actor, actor_kind,
                    authentication, on_behalf_of, purpose, correlation_id, causation_id, source_run,
                    retention_class, request_tag, content_tag, idempotency_tag, header, state,
                    state_hash, leaf_version, leaf_hash
                )
                SELECT
                    p_tenant, p_log_id,
                    e.index, e.event_id, e.append_first, e.append_last, e.stream_id,
                    e.stream_version, e.continues, e.memory_id, e.branch, e.kind, e.topic,
                    e.schema_version, e.recorded_at, e.valid_from, e.valid_until, e.expires_at,
                    e.owner, e.owner_type, e.principal_user, e.principal_agent,
                    e.principal_resource, e.principal_session, e.principal_team, e.about,
                    e.visibility, e.namespace_tags, e.actor, e.actor_kind, e.authentication,
                    e.on_behalf_of, e.purpose, e.correlation_id, e.causation_id, e.source_run,
                    e.retention_class, e.request_tag, e.content_tag, e.idempotency_tag, e.header,
                    e.state, e.state_hash,
                    1, sha256(v_prefix
                || '\x00000008'::bytea || int8send(e.index)
                || '\x00000010'::bytea || uuid_send(e.event_id)
                || '\x00000008'::bytea || int8send(e.append_first)
                || '\x00000008'::bytea || int8send(e.append_last)
                || '\x00000010'::bytea || uuid_send(e.stream_id)
                || '\x00000008'::bytea || int8send(e.stream_version)
                || coalesce('\x00000008'::bytea || int8send(e.continues), v_null)
                || coalesce('\x00000010'::bytea || uuid_send(e.memory_id), v_null)
                || coalesce('\x00000010'::bytea || uuid_send(e.branch), v_null)
                || coalesce(int4send(octet_length(e.kind)) || convert_to(e.kind, 'UTF8'), v_null)
                || int4send(octet_length(e.topic)) || convert_to(e.topic, 'UTF8')
                || '\x00000004'::bytea || int4send(e.schema_version)
                || '\x00000008'::bytea || timestamptz_send(e.recorded_at)
                || coalesce('\x00000008'::bytea || timestamptz_send(e.valid_from), v_null)
                || coalesce('\x00000008'::bytea || timestamptz_send(e.valid_until), v_null)
                || coalesce('\x00000008'::bytea || timestamptz_send(e.expires_at), v_null)
                || '\x00000010'::bytea || uuid_send(e.owner)
                || int4send(octet_length(e.owner_type)) || convert_to(e.owner_type, 'UTF8')
                || coalesce('\x00000010'::bytea || uuid_send(e.principal_user), v_null)
                || coalesce('\x00000010'::bytea || uuid_send(e.principal_agent), v_null)
                || coalesce('\x00000010'::bytea || uuid_send(e.principal_resource), v_null)
                || coalesce('\x00000010'::bytea || uuid_send(e.principal_session), v_null)
                || coalesce('\x00000010'::bytea || uuid_send(e.principal_team), v_null)
                || int4send(4 + 20 * cardinality(e.about)) || int4send(cardinality(e.about))
                || substring(array_send(e.about) FROM 21)
                || coalesce(int4send(octet_length(e.visibility)) || convert_to(e.visibility, 'UTF8'), v_null)
                || int4send(greatest(octet_length(array_send(e.namespace_tags)) - 16, 4))
                || int4send(cardinality(e.namespace_tags))
                || substring(array_send(e.namespace_tags) FROM 21)
                || '\x00000010'::bytea || uuid_send(e.actor)
                || int4send(octet_length(e.actor_kind)) || convert_to(e.actor_kind, 'UTF8')
                || int4send(octet_length(e.authentication)) || convert_to(e.authentication, 'UTF8')
                || coalesce('\x00000010'::bytea || uuid_send(e.on_behalf_of), v_null)
                || coalesce(int4send(octet_length(e.purpose)) || convert_to(e.purpose, 'UTF8'), v_null)
                || '\x00000010'::bytea || uuid_send(e.correlation_id)
                || coalesce('\x00000010'::bytea || uuid_send(e.causation_id), v_null)
                || coalesce('\x00000010'::bytea || uuid_send(e.source_run), v_null)
                || int4send(octet_length(e.retention_class)) || convert_to(e.retention_class, 'UTF8')
                || coalesce(int4send(octet_length(e.request_tag)) || e.request_tag, v_null)
                || coalesce(int4send(octet_length(e.content_tag)) || e.content_tag, v_null)
                || coalesce(int4send(octet_length(e.idempotency_tag)) || e.idempotency_tag, v_null)
                || int4send(octet_length(e.header)) || convert_to(e.header, 'UTF8')
                || '\x00000020'::bytea || e.state_hash
                || '\x000000020001'::bytea)
                FROM (
                    SELECT
                        u.index, u.append_first, u.append_last, u.recorded_at, u.event_id,
                        u.stream_id, u.stream_version, u.continues, u.memory_id, u.branch, u.kind,
                        u.topic, u.schema_version, u.valid_from, u.valid_until, u.expires_at,
                        u.owner, u.owner_type, u.principal_user, u.principal_agent,
                        u.principal_resource, u.principal_session, u.principal_team,
                        coalesce(u.about::uuid[], '{}') AS about, u.visibility,
                        coalesce(u.namespace_tags::bytea[], '{}') AS namespace_tags, u.actor,
                        u.actor_kind, u.authentication, u.on_behalf_of, u.purpose, u.correlation_id,
                        u.causation_id, u.source_run, u.retention_class, u.request_tag,
                        u.content_tag, u.idempotency_tag, u.header, u.state, sha256(u.state) AS
                        state_hash
                    FROM unnest(
                        v_index, v_first, v_last, v_recorded_at,
                        p_event_id, p_stream_id, p_stream_version, p_continues, p_memory_id,
                        p_branch, p_kind, p_topic, p_schema_version, p_valid_from, p_valid_until,
                        p_expires_at, p_owner, p_owner_type, p_principal_user, p_principal_agent,
                        p_principal_resource, p_principal_session, p_principal_team, p_about,
                        p_visibility, p_namespace_tags, p_actor, p_actor_kind, p_authentication,
                        p_on_behalf_of, p_purpose, p_correlation_id, p_causation_id, p_source_run,
                        p_retention_class, p_request_tag, p_content_tag, p_idempotency_tag,
                        p_header, p_state
                    ) AS u (
                        index, append_first, append_last, recorded_at,
                        event_id, stream_id, stream_version, continues, memory_id, branch, kind,
                        topic, schema_version, valid_from, valid_until, expires_at, owner,
                        owner_type, principal_user, principal_agent, principal_resource,
                        principal_session, principal_team, about, visibility, namespace_tags, actor,
                        actor_kind, authentication, on_behalf_of, purpose, correlation_id,
                        causation_id, source_run, retention_class, request_tag, content_tag,
                        idempotency_tag, header, state
                    )
                    WHERE u.index IS NOT NULL
                    OFFSET 0
                ) AS e
                RETURNING index, owner, owner_type, about, leaf_hash
            ), subjects AS (
                INSERT INTO ledger_subjects (tenant, log_id, subject, index)
                SELECT p_tenant, p_log_id, s.owner, s.index FROM stored s
                WHERE s.owner_type = 'user'
                UNION
                SELECT p_tenant, p_log_id, a.subject, s.index
                FROM stored s CROSS JOIN LATERAL unnest(s.about) AS a (subject)
            )
            SELECT array_agg(s.leaf_hash ORDER BY s.index) INTO leaves FROM stored s;
            EXIT;
        EXCEPTION WHEN unique_violation THEN
            IF v_sort THEN
                RAISE;
            END IF;
            v_sort := true;
        END;
    END LOOP;

    UPDATE ledger_heads h
    SET next = next_index + v_events,
        last_recorded_at = first_recorded_at + (v_rank - 1) * interval '1 microsecond'
    WHERE h.tenant = p_tenant AND h.log_id = p_log_id;
END
$$;

-- The function has one signature only, so its arguments need not be repeated.
REVOKE ALL ON FUNCTION append FROM PUBLIC;
GRANT EXECUTE ON FUNCTION append TO memoriale_append;
