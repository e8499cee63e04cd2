-- Usage by month. Nothing is copied or looked through, and programs of every version find the whole under the same
-- name: a statement that waited for this lock is planned again. No program names an index; the constraint has served.
-- squawk-ignore-file renaming-object, ban-drop-constraint
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

-- Another table takes the name at once.
-- squawk-ignore renaming-table
ALTER TABLE ai_usage RENAME TO ai_usage_early;
ALTER INDEX ai_usage_pkey RENAME TO ai_usage_early_pkey;
ALTER INDEX ai_usage_of_account RENAME TO ai_usage_early_of_account;

CREATE TABLE ai_usage (LIKE ai_usage_early INCLUDING ALL) PARTITION BY RANGE (id);
ALTER INDEX ai_usage_account_id_id_idx RENAME TO ai_usage_of_account;
ALTER TABLE ai_usage DROP CONSTRAINT ai_usage_bound;

DO $$
DECLARE
    bound text := (SELECT substring(pg_get_constraintdef(oid) FROM 'cmp_[0-9a-z]+') FROM pg_constraint
                   WHERE conrelid = 'ai_usage_early'::regclass AND conname = 'ai_usage_bound');
BEGIN
    -- The constraint proves that every row fits, so none is looked at.
    EXECUTE format('ALTER TABLE ai_usage ATTACH PARTITION ai_usage_early FOR VALUES FROM (MINVALUE) TO (%L)', bound);
END
$$;
ALTER TABLE ai_usage_early DROP CONSTRAINT ai_usage_bound;

-- For completions whose month has no partition: none is refused.
CREATE TABLE ai_usage_default PARTITION OF ai_usage DEFAULT;

-- Makes the partition of a day's month, and moves there what the default partition holds of it. Returns the number of
-- rows that were moved; null when the month has a partition, or more rows than may be moved while others wait.
CREATE FUNCTION add_ai_usage_month(day date) RETURNS bigint
LANGUAGE plpgsql
SET lock_timeout = '1s'
AS $$
DECLARE
    most CONSTANT bigint := 100000;
    month CONSTANT timestamp := date_trunc('month', day::timestamp);
    part CONSTANT text := 'ai_usage_' || to_char(month, 'YYYY_MM');
    low CONSTANT text COLLATE "C" := first_completion_id(month::date);
    high CONSTANT text COLLATE "C" := first_completion_id((month + interval '1 month')::date);
    moved bigint;
BEGIN
    -- One at a time; what is recorded and read meanwhile does not wait.
    LOCK TABLE ONLY ai_usage IN SHARE UPDATE EXCLUSIVE MODE;
    IF EXISTS (
        SELECT FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid, pg_get_expr(relpartbound, inhrelid) AS bounds
        WHERE inhparent = 'ai_usage'::regclass
          AND coalesce(substring(bounds FROM 'FROM \(''(.*)''\) TO'), '') <= low
          AND substring(bounds FROM 'TO \(''(.*)''\)') > low)
    THEN
        RETURN NULL;
    END IF;
    -- A row of the month that is recorded meanwhile waits, and is then refused: its program sends it again.
    LOCK TABLE ai_usage_default IN ACCESS EXCLUSIVE MODE;
    SELECT count(*) INTO moved
    FROM (SELECT FROM ai_usage_default WHERE id >= low AND id < high LIMIT most + 1) AS found;
    IF moved > most THEN
        RETURN NULL;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE ai_usage INCLUDING ALL)', part);
    EXECUTE format('WITH moved AS (DELETE FROM ai_usage_default WHERE id >= $1 AND id < $2 RETURNING *)
                    INSERT INTO %I SELECT * FROM moved', part) USING low, high;
    EXECUTE format('ALTER TABLE ai_usage ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', part, low, high);
    RETURN moved;
END
$$;
