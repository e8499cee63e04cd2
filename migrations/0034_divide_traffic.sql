-- Hours and what they are made of by day, days by month: what is old goes with its partition. Nothing is copied or looked
-- through, and programs of every version find the whole under the same names. No program names an index or a constraint.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

DO $$
DECLARE
    whole text;
    early text;
    index_name text;
    bound text;
    has_rows boolean;
BEGIN
    FOREACH whole IN ARRAY ARRAY['traffic_hours', 'traffic_hour_entries', 'traffic_days'] LOOP
        early := whole || '_early';
        bound := (SELECT substring(pg_get_constraintdef(oid) FROM '''(.*)''') FROM pg_constraint
                  WHERE conrelid = whole::regclass AND conname = whole || '_bound');
        EXECUTE format('ALTER TABLE %I RENAME TO %I', whole, early);
        FOR index_name IN SELECT indexname FROM pg_indexes WHERE schemaname = current_schema AND tablename = early LOOP
            EXECUTE format('ALTER INDEX %I RENAME TO %I', index_name, index_name || '_early');
        END LOOP;
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL) PARTITION BY RANGE (%I)', whole, early,
                       CASE whole WHEN 'traffic_days' THEN 'day' ELSE 'hour' END);
        EXECUTE format('ALTER TABLE %I DROP CONSTRAINT %I', whole, whole || '_bound');
        EXECUTE format('SELECT EXISTS (SELECT FROM %I)', early) INTO has_rows;
        IF has_rows THEN
            -- The constraint proves that every row fits, so none is looked at.
            EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (MINVALUE) TO (%L)', whole, early, bound);
            EXECUTE format('ALTER TABLE %I DROP CONSTRAINT %I', early, whole || '_bound');
        ELSE
            EXECUTE format('DROP TABLE %I', early);
        END IF;
        -- For what has no partition of its own: none is refused.
        EXECUTE format('CREATE TABLE %I PARTITION OF %I DEFAULT', whole || '_default', whole);
    END LOOP;
END
$$;
-- Its name is of this migration.
-- squawk-ignore renaming-object
ALTER INDEX traffic_hours_hour_project_id_idx RENAME TO traffic_hours_unrolled;

-- Makes the partition of a day of `traffic_hours` or `traffic_hour_entries`, or of a month of `traffic_days`, and moves there
-- what the default partition holds of it. Returns whether it did: not when there is one, or more rows than may be moved
-- while others wait.
CREATE FUNCTION add_traffic_partition(whole text, first_day date) RETURNS boolean
LANGUAGE plpgsql
SET lock_timeout = '1s'
SET timezone = 'UTC'
AS $$
DECLARE
    most CONSTANT bigint := 20000;
    is_month CONSTANT boolean := whole = 'traffic_days';
    low CONSTANT timestamptz := date_trunc(CASE WHEN is_month THEN 'month' ELSE 'day' END, first_day::timestamp);
    high CONSTANT timestamptz := low + CASE WHEN is_month THEN interval '1 month' ELSE interval '1 day' END;
    key CONSTANT text := CASE WHEN is_month THEN 'day' ELSE 'hour' END;
    part CONSTANT text := whole || to_char(low, CASE WHEN is_month THEN '_YYYY_MM' ELSE '_YYYY_MM_DD' END);
    rest CONSTANT text := whole || '_default';
    found bigint;
BEGIN
    -- One at a time; what is added and read meanwhile does not wait.
    EXECUTE format('LOCK TABLE ONLY %I IN SHARE UPDATE EXCLUSIVE MODE', whole);
    IF EXISTS (SELECT FROM traffic_partitions WHERE parent = whole AND lower_bound < high AND upper_bound > low) THEN
        RETURN false;
    END IF;
    -- A row of this time that is added meanwhile waits, and is then refused: the job that adds it does so again.
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', rest);
    EXECUTE format('SELECT count(*) FROM (SELECT FROM %I WHERE %I >= $1 AND %I < $2 LIMIT $3 + 1) AS found', rest, key, key)
    INTO found USING low, high, most;
    IF found > most THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL) WITH (fillfactor = %s)', part, whole,
                   CASE WHEN is_month THEN 100 ELSE 85 END);
    EXECUTE format('WITH moved AS (DELETE FROM %I WHERE %I >= $1 AND %I < $2 RETURNING *) INSERT INTO %I SELECT * FROM moved',
                   rest, key, key, part) USING low, high;
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', whole, part, low, high);
    RETURN true;
END
$$;

-- Drops the oldest partition that lies wholly before `until`. Returns whether there was one. Hours that are in no day yet
-- stay, and what they are made of.
CREATE FUNCTION drop_traffic_partition(whole text, until timestamptz) RETURNS boolean
LANGUAGE plpgsql
SET lock_timeout = '1s'
SET timezone = 'UTC'
AS $$
DECLARE
    part text;
    high timestamptz;
BEGIN
    SELECT name, upper_bound INTO part, high FROM traffic_partitions
    WHERE parent = whole AND upper_bound <= until ORDER BY upper_bound LIMIT 1;
    IF part IS NULL THEN
        RETURN false;
    END IF;
    IF whole <> 'traffic_days' AND EXISTS (SELECT FROM traffic_hours WHERE NOT is_rolled AND hour < high) THEN
        RETURN false;
    END IF;
    EXECUTE format('DROP TABLE %I', part);
    RETURN true;
END
$$;

-- The partitions and their bounds, without the default ones.
CREATE VIEW traffic_partitions AS
SELECT whole.relname::text AS parent, part.relname::text AS name,
       coalesce(substring(bounds.text FROM 'FROM \(''(.*?)''\)')::timestamptz, '-infinity') AS lower_bound,
       substring(bounds.text FROM 'TO \(''(.*?)''\)')::timestamptz AS upper_bound
FROM pg_class AS whole
JOIN pg_inherits ON inhparent = whole.oid
JOIN pg_class AS part ON part.oid = inhrelid
CROSS JOIN LATERAL (SELECT pg_get_expr(part.relpartbound, part.oid)) AS bounds (text)
WHERE whole.relname IN ('traffic_hours', 'traffic_hour_entries', 'traffic_days') AND bounds.text <> 'DEFAULT';

-- A job makes those of later days.
SELECT add_traffic_partition(whole, (now() AT TIME ZONE 'UTC')::date + n)
FROM unnest(ARRAY['traffic_hours', 'traffic_hour_entries']) AS whole, generate_series(0, 2) AS n;
SELECT add_traffic_partition('traffic_days', ((now() AT TIME ZONE 'UTC')::date + n * interval '1 month')::date)
FROM generate_series(0, 1) AS n;
