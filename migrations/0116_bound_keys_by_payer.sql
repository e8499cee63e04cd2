-- How many distinct keys of traffic stay is bounded by who pays, over all their projects: projects are free to make, and every visitor of
-- a site that answers all paths with one page makes up as many as they like.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

-- The keys of one hour that were new at any project of a payer.
CREATE TABLE traffic_payer_hours (
    hour     timestamptz NOT NULL,
    -- The owner, or the creator of an organization without a subscription: see `payer_of`.
    payer    text COLLATE "C" NOT NULL,
    -- 1 for paths, 2 for errors, 3 for views, 4 for the others.
    list     smallint NOT NULL CHECK (list BETWEEN 1 AND 4),
    keys     bigint NOT NULL,
    -- Those that the last fold was given.
    granted  bigint NOT NULL,
    -- Time comes first: what is old lies together.
    PRIMARY KEY (hour, payer, list)
) WITH (fillfactor = 80);

-- As before, but that the bounds of a project are lower, and that those of its payer stand beside them. The accounts' sums and the
-- payers' keys are each written in the order of their keys, and in this order of tables, so that shards never wait for each other both ways.
CREATE OR REPLACE FUNCTION fold_traffic(most bigint, shard integer, shards integer) RETURNS bigint
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
        WHERE ctid = ANY(ARRAY(SELECT ctid FROM traffic_recent
                               WHERE hashtext(project_id) & 255 = ANY (ARRAY(SELECT generate_series(shard, 255, shards)))
                               ORDER BY project_id, hour LIMIT most))
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
    ), found AS MATERIALIZED (
        SELECT *, entry.key <> '(other)' AND (
                   SELECT true FROM traffic_hour_entries AS known
                   WHERE known.hour = entry.hour AND known.project_id = entry.project_id
                     AND known.kind = entry.kind AND known.key = entry.key) IS NULL AS is_new
        FROM entry
    -- Distinct keys of a project in an hour: 2,000 paths, 1,000 errors, 4,000 views, 2,000 others. Beyond them a key that is
    -- new becomes `(other)`, the rarest first.
    ), room AS (
        SELECT hour, project_id, bound, (ARRAY[2000, 1000, 4000, 2000])[bound] - coalesce((
                   SELECT (ARRAY[paths, missing_paths, views, other_keys])[found.bound] FROM traffic_hours AS known
                   WHERE known.hour = found.hour AND known.project_id = found.project_id), 0) AS free
        FROM found WHERE is_new GROUP BY hour, project_id, bound
    ), ranked AS (
        SELECT *, row_number() OVER (PARTITION BY hour, project_id, bound ORDER BY requests DESC, key) AS place
        FROM found WHERE is_new
    ), owned AS MATERIALIZED (
        SELECT hour, project_id, payer_of(coalesce(max(account), (
                   SELECT coalesce(present.org_id, present.user_id) FROM projects AS present
                   WHERE present.id = taken.project_id), project_id)) AS payer
        FROM taken GROUP BY hour, project_id
    ), wanted AS (
        SELECT ranked.*, owned.payer, row_number() OVER (PARTITION BY ranked.hour, owned.payer, ranked.bound
                                                         ORDER BY ranked.requests DESC, ranked.place, project_id) AS turn
        FROM ranked JOIN room USING (hour, project_id, bound) JOIN owned USING (hour, project_id)
        WHERE ranked.place <= room.free
    -- And of all projects of their payer: 10,000 paths, 5,000 errors, 10,000 views, 10,000 others. Who else adds for the payer
    -- waits here, and finds what is left.
    ), granted AS (
        INSERT INTO traffic_payer_hours AS known (hour, payer, list, keys, granted)
        SELECT hour, payer, bound, least(count(*), (ARRAY[10000, 5000, 10000, 10000])[bound]),
               least(count(*), (ARRAY[10000, 5000, 10000, 10000])[bound])
        FROM wanted GROUP BY hour, payer, bound ORDER BY hour, payer, bound
        ON CONFLICT (hour, payer, list) DO UPDATE SET
            keys = greatest(known.keys, least(known.keys + excluded.keys, (ARRAY[10000, 5000, 10000, 10000])[known.list])),
            granted = greatest(0, least(excluded.keys, (ARRAY[10000, 5000, 10000, 10000])[known.list] - known.keys))
        RETURNING hour, payer, list AS bound, granted
    ), kept AS (
        SELECT hour, project_id, kind, key, true AS is_kept
        FROM wanted JOIN granted USING (hour, payer, bound) WHERE turn <= granted
    ), placed AS (
        SELECT hour, project_id, kind, CASE WHEN is_new AND is_kept IS NULL THEN '(other)' ELSE key END AS key,
               sum(requests) AS requests, sum(bytes) AS bytes, bound
        FROM found LEFT JOIN kept USING (hour, project_id, kind, key) GROUP BY 1, 2, 3, 4, 7
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
