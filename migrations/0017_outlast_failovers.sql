-- What outlasts the server that Postgres runs on. Edges keep usage for this database on their disks, and Redis its totals: both have to
-- find it again after a failover, a restore or a move to another host, though it may have lost its last moments then.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

-- The name stays with the data, so a copy has the same; and no other database has it.
CREATE TABLE database_name (
    -- There is one row.
    is_only  boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    name     text COLLATE "C" NOT NULL
);
INSERT INTO database_name (name) VALUES (replace(gen_random_uuid()::text, '-', ''));

-- A version is never less than the time in milliseconds. A copy that lacks the last writes has older versions than Redis has seen; from
-- its first write on they are newer all the same, and its totals are not taken for outdated ones.
CREATE FUNCTION date_ai_usage_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.version := greatest(NEW.version, (extract(epoch FROM clock_timestamp()) * 1000)::bigint);
    RETURN NEW;
END
$$;
CREATE TRIGGER ai_usage_versions_follow_time BEFORE INSERT OR UPDATE ON ai_usage_versions
    FOR EACH ROW EXECUTE FUNCTION date_ai_usage_version();
