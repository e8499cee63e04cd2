-- The number of a change does not say which history it belongs to: after the promotion of a copy that lacks the last commits, or after
-- a restored backup, numbers are given again. An edge that knows the former bearer of a number took the new change for one that it
-- had applied, and acknowledged it.
--
-- So the counter names an epoch, within which no number is given twice, and each change has a nonce. An edge that meets another epoch
-- looks whether the change that it applied last is still there with its nonce. If so nothing that it knows was lost.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

ALTER TABLE route_counter
    ADD COLUMN epoch text NOT NULL DEFAULT '',
    -- What `route_history` returned when the epoch began.
    ADD COLUMN history text NOT NULL DEFAULT '';

-- Without a value in the rows that are there: for them, an edge that meets another epoch starts over.
ALTER TABLE route_changes ADD COLUMN nonce bigint;
ALTER TABLE route_changes ALTER COLUMN nonce SET DEFAULT floor(random() * 9007199254740992)::bigint;

-- What differs after anything that may have lost commits of `counter`: another server; another timeline, as after a promotion or a
-- recovery to a point in time; a dump that was restored into another database or table; a restart, before which the files may have
-- been put back.
CREATE FUNCTION route_history(counter regclass) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    server text;
BEGIN
    BEGIN
        -- A segment of the log is named by its timeline first. That of the last checkpoint may be a former one for some minutes.
        SELECT system_identifier || '-' || left(pg_walfile_name(pg_current_wal_lsn()), 8) INTO server
        FROM pg_control_system();
    EXCEPTION WHEN OTHERS THEN
        -- Some services keep it from their customers. The start of the server tells most of it.
        server := '';
    END;
    RETURN concat_ws('/', server, (SELECT oid FROM pg_database WHERE datname = current_database()), counter::oid,
                     pg_relation_filenode(counter), extract(epoch FROM pg_postmaster_start_time()));
END
$$;

-- In a trigger, so that it holds for every program that counts, of the version before as well, and for rows that are restored or
-- counted back by hand.
CREATE FUNCTION name_route_epoch() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    present text := route_history(TG_RELID);
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.last_seq > OLD.last_seq AND OLD.history = present THEN
            NEW.epoch := OLD.epoch;
            NEW.history := OLD.history;
            RETURN NEW;
        END IF;
    END IF;
    NEW.epoch := gen_random_uuid()::text;
    NEW.history := present;
    RETURN NEW;
END
$$;
CREATE TRIGGER route_counter_epoch BEFORE INSERT OR UPDATE ON route_counter
    FOR EACH ROW EXECUTE FUNCTION name_route_epoch();

-- Not a step on, so this begins the first epoch.
UPDATE route_counter SET last_seq = last_seq;
