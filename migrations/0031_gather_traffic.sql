-- Batches of traffic are appended as they come, and a job adds them to the hours: an hour's row is written once a minute
-- and not with every batch. Hours and days lie in partitions, which are dropped when they are old. A day's lists are one value.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

-- A part of a batch: traffic of one project within one hour. `fold_traffic` takes it out again.
CREATE TABLE traffic_recent (
    project_id  text COLLATE "C" NOT NULL,
    hour        timestamptz NOT NULL,
    -- requests, bytes, cache_hits, cache_misses, 2xx, 3xx, 4xx, 5xx, other statuses, pageviews, bytes to people
    sums        bigint[] NOT NULL CHECK (cardinality(sums) = 11),
    -- Its entries, a column each.
    kinds       text[] NOT NULL,
    keys        text[] NOT NULL,
    requests    bigint[] NOT NULL,
    bytes       bigint[] NOT NULL,
    -- Registers of the day's sketch of visitors.
    visitors    integer[] NOT NULL,
    CHECK (cardinality(kinds) = cardinality(keys) AND cardinality(keys) = cardinality(requests)
           AND cardinality(requests) = cardinality(bytes))
);
CREATE INDEX traffic_recent_by_project ON traffic_recent (project_id, hour);

-- Registers of the sketch of a day's visitors, as far as an hour has raised them: the index in the upper bits, the rank in
-- the six lowest. An hour has one of each index, and the day the highest of its hours: so little of it is written again.
CREATE TABLE traffic_visitors (
    day         date NOT NULL,
    project_id  text COLLATE "C" NOT NULL,
    hour        smallint NOT NULL CHECK (hour BETWEEN 0 AND 23),
    registers   integer[] NOT NULL,
    PRIMARY KEY (day, project_id, hour)
);

-- The key under which the edges hash visitors of a UTC day; it goes when the day is over.
CREATE TABLE visitor_salts (
    day   date PRIMARY KEY,
    salt  bytea NOT NULL CHECK (octet_length(salt) = 32)
);

-- Networks that operators of agents publish, as they were last read.
CREATE TABLE agent_networks (
    source      text COLLATE "C" PRIMARY KEY,
    networks    text[] NOT NULL,
    read_at     timestamptz NOT NULL
);

-- Public links to a project's statistics.
CREATE TABLE public_stats (
    project_id  text COLLATE "C" PRIMARY KEY REFERENCES projects (id) ON DELETE CASCADE,
    token       text COLLATE "C" NOT NULL UNIQUE,
    created_at  timestamptz NOT NULL DEFAULT now(),
    created_by  text COLLATE "C"
);

-- A day's sums go on, its lists are one value: {"<kind>": [[key, requests, bytes], …]}, the most frequent first, the key
-- `(other)` last. As text, which takes half the room: most days have too little for compression. Kinds: hostname, path,
-- country, page, referrer, view_country, view, error, agent, agent_page, agent_disallowed.
ALTER TABLE traffic_days
    ADD COLUMN pageviews bigint NOT NULL DEFAULT 0,
    ADD COLUMN people_bytes bigint NOT NULL DEFAULT 0,
    ADD COLUMN visitors bigint NOT NULL DEFAULT 0,
    ADD COLUMN lists json NOT NULL DEFAULT '{}';
ALTER TABLE traffic_hours
    ADD COLUMN pageviews bigint NOT NULL DEFAULT 0,
    ADD COLUMN people_bytes bigint NOT NULL DEFAULT 0,
    -- Distinct keys, as `paths` and `missing_paths` (those of errors) are.
    ADD COLUMN views integer NOT NULL DEFAULT 0,
    ADD COLUMN other_keys integer NOT NULL DEFAULT 0;
-- There are more kinds; `EntryKind` names them.
-- squawk-ignore ban-drop-constraint
ALTER TABLE traffic_hour_entries DROP CONSTRAINT traffic_hour_entries_kind_check;

-- The tables that are there become the partitions of everything up to a bound that lies ahead. Here they promise to hold
-- nothing from there on; 0033 sees that they hold none, and 0034 divides.
DO $$
DECLARE
    midnight CONSTANT timestamptz := date_trunc('day', now(), 'UTC') + interval '4 days';
    month CONSTANT date := date_trunc('month', now() AT TIME ZONE 'UTC') + interval '2 months';
BEGIN
    EXECUTE format('ALTER TABLE traffic_hours ADD CONSTRAINT traffic_hours_bound CHECK (hour < %L) NOT VALID', midnight);
    EXECUTE format('ALTER TABLE traffic_hour_entries
                    ADD CONSTRAINT traffic_hour_entries_bound CHECK (hour < %L) NOT VALID', midnight);
    EXECUTE format('ALTER TABLE traffic_days ADD CONSTRAINT traffic_days_bound CHECK (day < %L) NOT VALID', month);
END
$$;

-- The jobs of the version before find a row by its place, which will be unique within a partition only: they do not run
-- again. Those of this version have other names.
INSERT INTO job_leases (job, leased_until)
SELECT job, now() + interval '10 years'
FROM unnest(ARRAY['make days of traffic', 'delete old traffic', 'delete traffic of deleted projects']) AS old (job)
ON CONFLICT (job) DO UPDATE SET leased_until = excluded.leased_until;

-- Nothing has ever read it: the lists of a day are one value now.
-- squawk-ignore ban-drop-table
DROP TABLE traffic_day_entries;
-- Only the first of those jobs calls it.
-- squawk-ignore ban-drop-function
DROP FUNCTION roll_traffic(timestamptz, bigint);

-- Appends a batch of an edge; false when it was appended before. Part n of the first arrays is an hour of a project; an entry
-- and a register name their part by that number. Traffic of projects that are gone is left out. An hour that cannot be,
-- because a clock leapt, becomes the nearest that can.
CREATE FUNCTION append_traffic(
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
    INSERT INTO traffic_recent (project_id, hour, sums, kinds, keys, requests, bytes, visitors)
    SELECT part.project_id,
           greatest(least(date_trunc('hour', part.hour, 'UTC'), this_hour + interval '1 hour'), this_hour - interval '6 days'),
           append_traffic.sums[(part.n - 1) * columns + 1:part.n * columns],
           coalesce(entry.kinds, '{}'), coalesce(entry.keys, '{}'), coalesce(entry.requests, '{}'),
           coalesce(entry.bytes, '{}'), coalesce(register.registers, '{}')
    FROM unnest(hours, projects) WITH ORDINALITY AS part (hour, project_id, n)
    LEFT JOIN (SELECT given.n, array_agg(given.kind) AS kinds, array_agg(given.key) AS keys,
                      array_agg(given.requests) AS requests, array_agg(given.bytes) AS bytes
               FROM unnest(entry_parts, entry_kinds, entry_keys, entry_requests, entry_bytes)
                    AS given (n, kind, key, requests, bytes)
               GROUP BY given.n) AS entry ON entry.n = part.n
    LEFT JOIN (SELECT given.n, array_agg(given.register) AS registers
               FROM unnest(register_parts, append_traffic.registers) AS given (n, register)
               GROUP BY given.n) AS register ON register.n = part.n
    WHERE EXISTS (SELECT FROM projects AS alive WHERE alive.id = part.project_id);
    RETURN true;
END
$$;

-- Appends a batch of an edge of the version before.
CREATE OR REPLACE FUNCTION record_traffic(
    edge text, batch bigint,
    hours timestamptz[], projects text[], sums bigint[],
    entry_hours integer[], entry_kinds text[], entry_keys text[], entry_requests bigint[], entry_bytes bigint[]
) RETURNS boolean
LANGUAGE sql
RESET enable_seqscan
RESET enable_hashjoin
RESET enable_mergejoin
AS $$
    SELECT append_traffic(
        edge, batch, hours, projects,
        -- Nine sums each, and none of people.
        ARRAY(SELECT CASE WHEN place <= 9 THEN sums[(n - 1) * 9 + place] ELSE 0 END
              FROM generate_series(1, cardinality(hours)) AS n, generate_series(1, 11) AS place ORDER BY n, place),
        entry_hours,
        ARRAY(SELECT CASE kind WHEN 'missing_path' THEN 'error' ELSE kind END
              FROM unnest(entry_kinds) WITH ORDINALITY AS given (kind, n) ORDER BY n),
        ARRAY(SELECT CASE WHEN kind = 'missing_path' AND key <> '(other)' THEN concat_ws(E'\t', '404', key, '') ELSE key END
              FROM unnest(entry_kinds, entry_keys) WITH ORDINALITY AS given (kind, key, n) ORDER BY n),
        entry_requests, entry_bytes, '{}', '{}')
$$;

-- Adds at most `most` parts of batches to their hours, and takes them out. Returns their number. A project's parts come
-- together, so that each row is written once however many batches it was in.
CREATE FUNCTION fold_traffic(most bigint) RETURNS bigint
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
    )
    SELECT count(*) FROM taken
$$;

-- Makes days of the hours that lie before `until`, a midnight, where they are not in their day's row yet: at most `most` of
-- them, and the others of their days. Returns the days that it looked at. Run twice it changes nothing.
CREATE FUNCTION roll_traffic(until timestamptz, most bigint) RETURNS TABLE (rolled_day date, rolled_project text)
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    days date[];
    projects text[];
BEGIN
    SELECT array_agg(picked.day), array_agg(picked.project_id) INTO days, projects
    FROM (SELECT DISTINCT (first.hour AT TIME ZONE 'UTC')::date AS day, first.project_id
          FROM (SELECT hour, project_id FROM traffic_hours WHERE NOT is_rolled AND hour < until
                ORDER BY hour, project_id LIMIT most) AS first) AS picked;
    IF days IS NULL THEN
        RETURN;
    END IF;
    -- What is added from here on waits, and finds its hour not rolled again.
    PERFORM FROM traffic_hours AS known
    JOIN (SELECT day::timestamp AT TIME ZONE 'UTC' + n * interval '1 hour' AS hour, project_id
          FROM unnest(days, projects) AS wanted (day, project_id), generate_series(0, 23) AS n) AS wanted
      ON known.hour = wanted.hour AND known.project_id = wanted.project_id
    ORDER BY known.hour, known.project_id FOR UPDATE OF known;

    -- A sum that is lower than the day's row is of a day whose hours have gone in part.
    INSERT INTO traffic_days AS known (day, project_id, requests, bytes, cache_hits, cache_misses, status_2xx, status_3xx,
                                       status_4xx, status_5xx, status_other, pageviews, people_bytes, lists)
    SELECT wanted.day, wanted.project_id, sum(requests), sum(bytes), sum(cache_hits), sum(cache_misses), sum(status_2xx),
           sum(status_3xx), sum(status_4xx), sum(status_5xx), sum(status_other), sum(pageviews), sum(people_bytes),
           traffic_lists(wanted.day, wanted.project_id)
    FROM unnest(days, projects) AS wanted (day, project_id), generate_series(0, 23) AS n,
         LATERAL (SELECT * FROM traffic_hours AS known
                  WHERE known.hour = wanted.day::timestamp AT TIME ZONE 'UTC' + n * interval '1 hour'
                    AND known.project_id = wanted.project_id) AS known
    GROUP BY wanted.day, wanted.project_id ORDER BY wanted.day, wanted.project_id
    ON CONFLICT (day, project_id) DO UPDATE SET
        requests = excluded.requests, bytes = excluded.bytes, cache_hits = excluded.cache_hits,
        cache_misses = excluded.cache_misses, status_2xx = excluded.status_2xx, status_3xx = excluded.status_3xx,
        status_4xx = excluded.status_4xx, status_5xx = excluded.status_5xx, status_other = excluded.status_other,
        pageviews = excluded.pageviews, people_bytes = excluded.people_bytes, lists = excluded.lists
    WHERE known.requests <= excluded.requests AND known.bytes <= excluded.bytes;

    UPDATE traffic_hours AS known SET is_rolled = true
    FROM (SELECT day::timestamp AT TIME ZONE 'UTC' + n * interval '1 hour' AS hour, project_id
          FROM unnest(days, projects) AS wanted (day, project_id), generate_series(0, 23) AS n) AS wanted
    WHERE known.hour = wanted.hour AND known.project_id = wanted.project_id AND NOT known.is_rolled;
    RETURN QUERY SELECT * FROM unnest(days, projects);
END
$$;

-- Returns the lists of a project's day, of its hours.
CREATE FUNCTION traffic_lists(day date, project text) RETURNS json
LANGUAGE sql STABLE
SET enable_seqscan = off
SET jit = off
AS $$
    WITH entry AS (
        SELECT known.kind, known.key, sum(known.requests) AS requests, sum(known.bytes) AS bytes
        FROM traffic_hour_entries AS known
        WHERE known.hour = ANY(ARRAY(SELECT day::timestamp AT TIME ZONE 'UTC' + n * interval '1 hour'
                                     FROM generate_series(0, 23) AS n))
          AND known.project_id = project
        GROUP BY known.kind, known.key
    ), listed AS (
        SELECT kind, key, requests, bytes FROM entry
        UNION ALL
        -- The parts of a view's key; `(other)` has none, and stands for all of them.
        SELECT part.kind, part.key, sum(entry.requests), sum(entry.bytes)
        FROM entry, LATERAL (VALUES ('page', split_part(entry.key, E'\t', 1)),
                                    ('referrer', CASE entry.key WHEN '(other)' THEN '(other)'
                                                 ELSE split_part(entry.key, E'\t', 2) END),
                                    ('view_country', CASE entry.key WHEN '(other)' THEN '(other)'
                                                     ELSE split_part(entry.key, E'\t', 3) END)) AS part (kind, key)
        WHERE entry.kind = 'view' AND part.key <> '' GROUP BY part.kind, part.key
    ), ranked AS (
        SELECT *, row_number() OVER (PARTITION BY kind ORDER BY key = '(other)', requests DESC, bytes DESC, key)
                  <= CASE WHEN kind IN ('path', 'error', 'page', 'referrer', 'view_country') THEN 100
                          WHEN kind = 'view' THEN 200 ELSE 1000 END AS is_kept
        FROM listed
    ), kept AS (
        SELECT kind, CASE WHEN is_kept THEN key ELSE '(other)' END AS key, sum(requests) AS requests, sum(bytes) AS bytes
        FROM ranked GROUP BY 1, 2
    ), list AS (
        SELECT kind, string_agg('[' || to_json(key) || ',' || requests || ',' || bytes || ']', ','
                                ORDER BY key = '(other)', requests DESC, bytes DESC, key) AS entries
        FROM kept GROUP BY kind
    )
    SELECT ('{' || coalesce(string_agg(to_json(kind) || ':[' || entries || ']', ',' ORDER BY kind), '') || '}')::json
    FROM list
$$;
