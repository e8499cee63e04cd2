-- What an account has used of a month's bandwidth stays with it, whatever becomes of its projects: each part of a batch is
-- charged to the account that owned the project then, when the batch comes in.
SET LOCAL lock_timeout = '2s';
-- The sums below are read under no lock that anything waits for. Of very large tables they take minutes.
SET LOCAL statement_timeout = '10min';

-- What is still in `traffic_recent` comes on top.
CREATE TABLE bandwidth_months (
    month         date NOT NULL CHECK (extract(day FROM month) = 1),
    account       text COLLATE "C" NOT NULL CHECK (account ~ '^(usr|org)_[a-z0-9]{20}$'),
    -- Bytes that its sites sent to people.
    people_bytes  bigint NOT NULL,
    -- Time comes first: what is old lies together.
    PRIMARY KEY (month, account)
) WITH (fillfactor = 80);

-- Each end of an account's ownership of a project: it was moved, or deleted. For traffic that comes late.
CREATE TABLE former_owners (
    project_id  text COLLATE "C" NOT NULL,
    until       timestamptz NOT NULL,
    account     text COLLATE "C" NOT NULL,
    PRIMARY KEY (project_id, until)
);
CREATE INDEX former_owners_by_age ON former_owners (until);

-- Of the month that has begun, so far: of each project's day its own row or its hours, whichever has more requests.
INSERT INTO bandwidth_months (month, account, people_bytes)
SELECT date_trunc('month', best.day)::date, best.account, sum(best.people_bytes)
FROM (SELECT DISTINCT ON (project.id, found.day)
             COALESCE(project.org_id, project.user_id) AS account, found.day, found.people_bytes
      FROM projects AS project
      JOIN (SELECT project_id, day, requests, people_bytes FROM traffic_days
            WHERE day >= date_trunc('month', now() AT TIME ZONE 'UTC')
            UNION ALL
            SELECT project_id, (hour AT TIME ZONE 'UTC')::date, sum(requests), sum(people_bytes) FROM traffic_hours
            WHERE hour >= date_trunc('month', now(), 'UTC') GROUP BY 1, 2) AS found ON found.project_id = project.id
      ORDER BY project.id, found.day, found.requests DESC) AS best
GROUP BY 1, 2;

SET LOCAL statement_timeout = '5s';

-- The account that the part is charged to; null in a part of the version before, which is charged when it is folded.
ALTER TABLE traffic_recent ADD COLUMN account text COLLATE "C";
-- It holds the batches of some minutes.
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX traffic_recent_by_account ON traffic_recent (account, hour);

-- The last thing that a job has been through, when it goes through more than one batch can hold.
ALTER TABLE job_leases ADD COLUMN cursor text COLLATE "C";

CREATE FUNCTION keep_former_owner() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO former_owners (project_id, until, account) VALUES (OLD.id, now(), COALESCE(OLD.org_id, OLD.user_id))
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
CREATE TRIGGER projects_keep_former_owner AFTER DELETE ON projects
    FOR EACH ROW EXECUTE FUNCTION keep_former_owner();
CREATE TRIGGER projects_keep_mover AFTER UPDATE OF user_id, org_id ON projects
    FOR EACH ROW WHEN (OLD.user_id IS DISTINCT FROM NEW.user_id OR OLD.org_id IS DISTINCT FROM NEW.org_id)
    EXECUTE FUNCTION keep_former_owner();

-- Appends a batch of an edge; false when it was appended before. Part n of the first arrays is an hour of a project; an entry
-- and a register name their part by that number. An hour that cannot be, because a clock leapt, becomes the nearest that can.
--
-- A part is charged to the owner of its project in that hour: to the one who gave the project away first after the hour's
-- end, else to the present one. What a deleted project sent is charged to its last owner, and left out otherwise.
CREATE OR REPLACE FUNCTION append_traffic(
    edge text, batch bigint,
    hours timestamptz[], projects text[], sums bigint[],
    entry_parts integer[], entry_kinds text[], entry_keys text[], entry_requests bigint[], entry_bytes bigint[],
    register_parts integer[], registers integer[]
) RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    this_hour CONSTANT timestamptz := date_trunc('hour', now(), 'UTC');
    columns CONSTANT integer := 11;
BEGIN
    INSERT INTO traffic_edges AS known (edge_id, last_batch, recorded_at) VALUES (edge, batch, now())
    ON CONFLICT (edge_id) DO UPDATE SET last_batch = excluded.last_batch, recorded_at = excluded.recorded_at
    WHERE known.last_batch < excluded.last_batch;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    WITH given AS (
        SELECT part.n, part.project_id,
               greatest(least(date_trunc('hour', part.hour, 'UTC'), this_hour + interval '1 hour'),
                        this_hour - interval '6 days') AS hour,
               append_traffic.sums[(part.n - 1) * columns + 1:part.n * columns] AS counted
        FROM unnest(hours, projects) WITH ORDINALITY AS part (hour, project_id, n)
    ), part AS MATERIALIZED (
        SELECT given.*, alive.id IS NOT NULL AS is_alive,
               COALESCE((SELECT former.account FROM former_owners AS former
                         WHERE former.project_id = given.project_id AND former.until >= given.hour + interval '1 hour'
                         ORDER BY former.until LIMIT 1),
                        alive.org_id, alive.user_id,
                        (SELECT former.account FROM former_owners AS former
                         WHERE former.project_id = given.project_id ORDER BY former.until DESC LIMIT 1)) AS account
        FROM given LEFT JOIN projects AS alive ON alive.id = given.project_id
    ), charged AS (
        INSERT INTO bandwidth_months AS known (month, account, people_bytes)
        SELECT date_trunc('month', part.hour AT TIME ZONE 'UTC')::date, part.account, sum(part.counted[11])
        FROM part WHERE NOT part.is_alive AND part.account IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2
        ON CONFLICT (month, account) DO UPDATE SET people_bytes = known.people_bytes + excluded.people_bytes
    )
    INSERT INTO traffic_recent (project_id, hour, sums, kinds, keys, requests, bytes, visitors, account)
    SELECT part.project_id, part.hour, part.counted,
           coalesce(entry.kinds, '{}'), coalesce(entry.keys, '{}'), coalesce(entry.requests, '{}'),
           coalesce(entry.bytes, '{}'), coalesce(register.registers, '{}'), part.account
    FROM part
    LEFT JOIN (SELECT given.n, array_agg(given.kind) AS kinds, array_agg(given.key) AS keys,
                      array_agg(given.requests) AS requests, array_agg(given.bytes) AS bytes
               FROM unnest(entry_parts, entry_kinds, entry_keys, entry_requests, entry_bytes)
                    AS given (n, kind, key, requests, bytes)
               GROUP BY given.n) AS entry ON entry.n = part.n
    LEFT JOIN (SELECT given.n, array_agg(given.register) AS registers
               FROM unnest(register_parts, append_traffic.registers) AS given (n, register)
               GROUP BY given.n) AS register ON register.n = part.n
    WHERE part.is_alive;
    RETURN true;
END
$$;

-- Adds at most `most` parts of batches to their hours and to what their accounts have used, and takes them out. Returns their
-- number. A project's parts come together, so that each row is written once however many batches it was in.
CREATE OR REPLACE FUNCTION fold_traffic(most bigint) RETURNS bigint
LANGUAGE sql
-- Every row is found by its key, and what goes through here is joined as a whole, also when the planner takes either for
-- smaller than it is.
SET enable_seqscan = off
SET enable_nestloop = off
SET work_mem = '32MB'
SET jit = off
AS $$
    WITH taken AS (
        DELETE FROM traffic_recent
        WHERE ctid = ANY(ARRAY(SELECT ctid FROM traffic_recent ORDER BY project_id, hour LIMIT most))
        RETURNING *
    ), part AS (
        SELECT hour, project_id, sum(sums[1]) AS requests, sum(sums[2]) AS bytes, sum(sums[3]) AS cache_hits,
               sum(sums[4]) AS cache_misses, sum(sums[5]) AS status_2xx, sum(sums[6]) AS status_3xx,
               sum(sums[7]) AS status_4xx, sum(sums[8]) AS status_5xx, sum(sums[9]) AS status_other,
               sum(sums[10]) AS pageviews, sum(sums[11]) AS people_bytes
        FROM taken GROUP BY hour, project_id
    ), entry AS (
        SELECT hour, project_id, given.kind, given.key, sum(given.requests) AS requests, sum(given.bytes) AS bytes,
               CASE given.kind WHEN 'path' THEN 1 WHEN 'error' THEN 2 WHEN 'view' THEN 3 ELSE 4 END AS bound
        FROM taken, unnest(taken.kinds, taken.keys, taken.requests, taken.bytes) AS given (kind, key, requests, bytes)
        GROUP BY hour, project_id, given.kind, given.key
    -- Distinct keys of a project in an hour: 50,000 paths, 1,000 errors, 20,000 views, 5,000 others. Beyond them a key that is
    -- new becomes `(other)`.
    ), room AS (
        SELECT hour, project_id, bound, count(*) AS keys, (ARRAY[50000, 1000, 20000, 5000])[bound] - coalesce((
                   SELECT (ARRAY[paths, missing_paths, views, other_keys])[entry.bound] FROM traffic_hours AS known
                   WHERE known.hour = entry.hour AND known.project_id = entry.project_id), 0) AS free
        FROM entry GROUP BY hour, project_id, bound
    ), sized AS (
        SELECT entry.*, room.free, room.keys > room.free AS is_tight
        FROM entry JOIN room USING (hour, project_id, bound)
    ), found AS MATERIALIZED (
        -- Only there does it matter beforehand which keys are new.
        SELECT *, sized.key <> '(other)' AND (
                   SELECT true FROM traffic_hour_entries AS known
                   WHERE known.hour = sized.hour AND known.project_id = sized.project_id
                     AND known.kind = sized.kind AND known.key = sized.key) IS NULL AS is_new
        FROM sized WHERE is_tight
    ), ranked AS (
        SELECT *, row_number() OVER (PARTITION BY hour, project_id, bound, is_new ORDER BY requests DESC, key) AS place
        FROM found
    ), placed AS (
        SELECT hour, project_id, kind, key, requests, bytes, bound FROM sized WHERE NOT is_tight
        UNION ALL
        SELECT hour, project_id, kind, CASE WHEN is_new AND place > free THEN '(other)' ELSE key END,
               sum(requests), sum(bytes), bound
        FROM ranked GROUP BY 1, 2, 3, 4, 7
    ), added_entries AS (
        INSERT INTO traffic_hour_entries AS known (hour, project_id, kind, key, requests, bytes)
        SELECT hour, project_id, kind, key, requests, bytes FROM placed ORDER BY hour, project_id, kind, key
        ON CONFLICT (hour, project_id, kind, key) DO UPDATE SET
            requests = known.requests + excluded.requests, bytes = known.bytes + excluded.bytes
        RETURNING *
    ), more AS (
        -- A row is new that has no more than was added.
        SELECT hour, project_id, count(*) FILTER (WHERE bound = 1) AS paths,
               count(*) FILTER (WHERE bound = 2) AS errors, count(*) FILTER (WHERE bound = 3) AS views,
               count(*) FILTER (WHERE bound = 4) AS others
        FROM placed JOIN added_entries USING (hour, project_id, kind, key, requests, bytes)
        WHERE key <> '(other)' GROUP BY hour, project_id
    ), added_hours AS (
        INSERT INTO traffic_hours AS known (hour, project_id, requests, bytes, cache_hits, cache_misses,
                                            status_2xx, status_3xx, status_4xx, status_5xx, status_other, pageviews,
                                            people_bytes, paths, missing_paths, views, other_keys)
        SELECT part.*, coalesce(more.paths, 0), coalesce(more.errors, 0), coalesce(more.views, 0),
               coalesce(more.others, 0)
        FROM part
        LEFT JOIN more ON more.hour = part.hour AND more.project_id = part.project_id
        ORDER BY part.hour, part.project_id
        ON CONFLICT (hour, project_id) DO UPDATE SET
            requests = known.requests + excluded.requests, bytes = known.bytes + excluded.bytes,
            cache_hits = known.cache_hits + excluded.cache_hits, cache_misses = known.cache_misses + excluded.cache_misses,
            status_2xx = known.status_2xx + excluded.status_2xx, status_3xx = known.status_3xx + excluded.status_3xx,
            status_4xx = known.status_4xx + excluded.status_4xx, status_5xx = known.status_5xx + excluded.status_5xx,
            status_other = known.status_other + excluded.status_other,
            pageviews = known.pageviews + excluded.pageviews, people_bytes = known.people_bytes + excluded.people_bytes,
            paths = known.paths + excluded.paths, missing_paths = known.missing_paths + excluded.missing_paths,
            views = known.views + excluded.views, other_keys = known.other_keys + excluded.other_keys, is_rolled = false
    ), seen AS (
        -- Of each index the highest rank, which stands in the lowest bits.
        SELECT hour, project_id, array_agg(register) AS registers
        FROM (SELECT hour, project_id, max(register) AS register
              FROM taken, unnest(visitors) AS register GROUP BY hour, project_id, register >> 6) AS highest
        GROUP BY hour, project_id
    ), added_visitors AS (
        INSERT INTO traffic_visitors AS known (day, project_id, hour, registers)
        SELECT (hour AT TIME ZONE 'UTC')::date, project_id, extract(hour FROM hour AT TIME ZONE 'UTC'), registers
        FROM seen ORDER BY hour, project_id
        ON CONFLICT (day, project_id, hour) DO UPDATE SET registers = (
            SELECT array_agg(highest.register)
            FROM (SELECT max(register) AS register FROM unnest(known.registers || excluded.registers) AS register
                  GROUP BY register >> 6) AS highest)
    ), charged AS (
        INSERT INTO bandwidth_months AS known (month, account, people_bytes)
        SELECT date_trunc('month', owed.hour AT TIME ZONE 'UTC')::date, owed.account, sum(owed.people_bytes)
        FROM (SELECT taken.hour, taken.sums[11] AS people_bytes,
                     COALESCE(taken.account, (SELECT COALESCE(present.org_id, present.user_id) FROM projects AS present
                                              WHERE present.id = taken.project_id)) AS account
              FROM taken) AS owed
        WHERE owed.account IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2
        ON CONFLICT (month, account) DO UPDATE SET people_bytes = known.people_bytes + excluded.people_bytes
    )
    SELECT count(*) FROM taken
$$;
