-- Usage is to be kept by month, a partition each, by the time that an id begins with. So an id alone stays unique, and
-- a completion that is recorded again meets its own row, whatever time it is then said to be of. The table that is there
-- becomes the partition of everything up to an id that lies ahead. Here it promises to hold none from there on; the
-- next migration sees that it holds none, and the one after that divides.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

-- Returns the lowest id of a completion that is admitted on a UTC day or later: the milliseconds since 1970 in base 36.
CREATE FUNCTION first_completion_id(day date) RETURNS text
LANGUAGE sql IMMUTABLE STRICT
AS $$
    SELECT 'cmp_' || string_agg(
               substr('0123456789abcdefghijklmnopqrstuvwxyz',
                      (extract(epoch FROM day)::bigint * 1000 / (36 ^ place)::bigint % 36)::int + 1, 1),
               '' ORDER BY place DESC) || repeat('0', 11)
    FROM generate_series(0, 8) AS place
$$;

DO $$
DECLARE
    -- Far enough for a rollout that is interrupted and taken up again.
    month date := date_trunc('month', now() AT TIME ZONE 'UTC') + interval '2 months';
    last text COLLATE "C" := (SELECT max(id) FROM ai_usage);
BEGIN
    -- Beyond what a clock of Redis's that was once ahead has left.
    FOR more IN 1..1200 LOOP
        EXIT WHEN last IS NULL OR last < first_completion_id(month);
        month := month + interval '1 month';
    END LOOP;
    EXECUTE format('ALTER TABLE ai_usage ADD CONSTRAINT ai_usage_bound CHECK (id < %L) NOT VALID',
                   first_completion_id(month));
END
$$;
