-- Changes waited for one another: the counter's row stayed locked through each one's commit, so that `seq` followed the order of
-- commits, and only as many were possible in a second as a disk, or a copy that confirms, takes one after another.
--
-- Now a transaction leaves its change here, without a number, and commits together with others. After that a function gives all
-- that are committed their numbers at once. A snapshot that sees a number sees every change up to it; what it sees of a change that
-- has none yet is newer than the snapshot's position, never older.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

CREATE TABLE pending_route_changes (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subject     text COLLATE "C" NOT NULL,
    hosts       text[] NOT NULL,
    created_at  timestamptz NOT NULL,
    -- Kept with the number: a copy that is promoted before it has the number gives it again, and edges see that it is the same change.
    nonce       bigint NOT NULL DEFAULT floor(random() * 9007199254740992)::bigint
);

-- By which whoever left a change finds the number that another program gave it. Absent from changes of the version before.
ALTER TABLE route_changes ADD COLUMN pending_id bigint;

-- Gives at most `most` committed changes their numbers, and returns them. In a transaction of its own.
CREATE FUNCTION number_route_changes(most integer)
RETURNS TABLE (pending_id bigint, seq bigint, subject text, hosts text[], epoch text, nonce bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF NOT EXISTS (SELECT FROM pending_route_changes) THEN
        RETURN;
    END IF;
    -- The changes are safe already. Where commits wait for copies, their numbers need not.
    IF current_setting('synchronous_commit') IN ('on', 'remote_write', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'local', true);
    END IF;
    -- Whoever had it before has committed, and the next statement sees what was.
    PERFORM FROM route_counter FOR UPDATE;
    RETURN QUERY
    WITH taken AS (
        DELETE FROM pending_route_changes
        WHERE id IN (SELECT id FROM pending_route_changes ORDER BY id LIMIT most)
        RETURNING id, subject, hosts, created_at, nonce),
    ordered AS (
        SELECT taken.*, row_number() OVER (ORDER BY id) AS place FROM taken),
    counted AS (
        UPDATE route_counter SET last_seq = last_seq + waiting.count
        FROM (SELECT count(*) AS count FROM taken) AS waiting WHERE waiting.count > 0
        RETURNING last_seq - waiting.count AS former, epoch)
    INSERT INTO route_changes (seq, subject, hosts, created_at, nonce, pending_id)
    SELECT counted.former + ordered.place, ordered.subject, ordered.hosts, ordered.created_at, ordered.nonce, ordered.id
    FROM ordered, counted
    RETURNING pending_id, seq, subject, hosts, (SELECT epoch FROM counted), nonce;
END
$$;
