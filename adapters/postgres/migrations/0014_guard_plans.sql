-- Before: the look-ups of guards are planned anew in each append that carries a guard, which takes
--         longer than the look-ups.
-- After: each session plans them once. They ask in the full order of the key that serves them and
--        sorting is disabled, so a plan made on an empty log reads the same few rows of a long one.

SET LOCAL ROLE memoriale_owner;
SET LOCAL search_path = ledger, pg_temp;

ALTER FUNCTION broken_guards(
    text, uuid, smallint[], uuid[], bigint[], text[], uuid[], text[]
) SET plan_cache_mode = force_generic_plan;
