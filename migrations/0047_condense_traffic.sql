-- A month of days that has been over for a while is one row of a project: its days share most of their keys, which are
-- stored once, and compressed. A report of a year reads a dozen rows.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

-- `common/db` alone knows the form of what is in here. The lists lie beside each other, so that a report reads only its own.
CREATE TABLE traffic_months (
    month       date NOT NULL CHECK (extract(day FROM month) = 1),
    project_id  text COLLATE "C" NOT NULL,
    -- The sums and the visitors of each day.
    days        bytea NOT NULL,
    -- Lists: pages, referrers and countries of views.
    audience    bytea,
    -- Whole views.
    views       bytea,
    -- Hostnames, paths, countries of requests.
    requests    bytea,
    errors      bytea,
    agents      bytea,
    PRIMARY KEY (project_id, month)
);
-- They are compressed already.
ALTER TABLE traffic_months
    ALTER COLUMN days SET STORAGE EXTERNAL,
    ALTER COLUMN audience SET STORAGE EXTERNAL,
    ALTER COLUMN views SET STORAGE EXTERNAL,
    ALTER COLUMN requests SET STORAGE EXTERNAL,
    ALTER COLUMN errors SET STORAGE EXTERNAL,
    ALTER COLUMN agents SET STORAGE EXTERNAL;
-- Its table is empty.
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX traffic_months_month ON traffic_months (month);

-- Drops the oldest partition of days that lies wholly before `until`, if it is empty. Returns whether there was one.
CREATE FUNCTION drop_condensed_partition(until date) RETURNS boolean
LANGUAGE plpgsql
SET lock_timeout = '1s'
SET timezone = 'UTC'
AS $$
DECLARE
    part text;
    is_empty boolean;
BEGIN
    SELECT name INTO part FROM traffic_partitions
    WHERE parent = 'traffic_days' AND upper_bound <= until ORDER BY upper_bound LIMIT 1;
    IF part IS NULL THEN
        RETURN false;
    END IF;
    -- Whoever adds a row meanwhile waits, and then adds it to the partition of what has no other.
    EXECUTE format('LOCK TABLE traffic_days, %I IN ACCESS EXCLUSIVE MODE', part);
    EXECUTE format('SELECT NOT EXISTS (SELECT FROM %I)', part) INTO is_empty;
    IF NOT is_empty THEN
        RETURN false;
    END IF;
    EXECUTE format('DROP TABLE %I', part);
    RETURN true;
END
$$;
