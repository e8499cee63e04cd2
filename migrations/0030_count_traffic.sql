-- What sites answered, as sums by hour and by day: the edges count, `record_traffic` adds, a job makes days of hours.
SET LOCAL lock_timeout = '2s';
SET LOCAL statement_timeout = '5s';

-- The newest batch of each edge. An edge numbers its batches and sends one at a time, so a number that is not above this
-- one was recorded before.
CREATE TABLE traffic_edges (
    edge_id      text COLLATE "C" PRIMARY KEY,
    last_batch   bigint NOT NULL,
    recorded_at  timestamptz NOT NULL
);
CREATE INDEX traffic_edges_by_age ON traffic_edges (recorded_at);

-- By hour. Time comes first in every key: what is old lies together, and goes without looking through the rest. No foreign
-- keys: the rows of a project are too many to go in one statement, so `traffic_removals` lists it for a job.
CREATE TABLE traffic_hours (
    hour           timestamptz NOT NULL,
    project_id     text COLLATE "C" NOT NULL,
    requests       bigint NOT NULL,
    bytes          bigint NOT NULL,
    cache_hits     bigint NOT NULL,
    cache_misses   bigint NOT NULL,
    status_2xx     bigint NOT NULL,
    status_3xx     bigint NOT NULL,
    status_4xx     bigint NOT NULL,
    status_5xx     bigint NOT NULL,
    status_other   bigint NOT NULL,
    -- Distinct keys below, which are bounded.
    paths          integer NOT NULL DEFAULT 0,
    missing_paths  integer NOT NULL DEFAULT 0,
    -- Whether the day's row has this hour as it is.
    is_rolled      boolean NOT NULL DEFAULT false,
    PRIMARY KEY (hour, project_id)
) WITH (fillfactor = 60);
CREATE INDEX traffic_hours_unrolled ON traffic_hours (hour, project_id) WHERE NOT is_rolled;

-- The same by what was asked for. The key `(other)` stands for all that found no room.
CREATE TABLE traffic_hour_entries (
    hour        timestamptz NOT NULL,
    project_id  text COLLATE "C" NOT NULL,
    kind        text COLLATE "C" NOT NULL CHECK (kind IN ('hostname', 'path', 'country', 'missing_path')),
    key         text COLLATE "C" NOT NULL,
    requests    bigint NOT NULL,
    bytes       bigint NOT NULL,
    PRIMARY KEY (hour, project_id, kind, key)
) WITH (fillfactor = 80);

-- By UTC day.
CREATE TABLE traffic_days (
    day            date NOT NULL,
    project_id     text COLLATE "C" NOT NULL,
    requests       bigint NOT NULL,
    bytes          bigint NOT NULL,
    cache_hits     bigint NOT NULL,
    cache_misses   bigint NOT NULL,
    status_2xx     bigint NOT NULL,
    status_3xx     bigint NOT NULL,
    status_4xx     bigint NOT NULL,
    status_5xx     bigint NOT NULL,
    status_other   bigint NOT NULL,
    PRIMARY KEY (day, project_id)
);

-- By UTC day and what was asked for: the most frequent of each kind, and `(other)`.
CREATE TABLE traffic_day_entries (
    day         date NOT NULL,
    project_id  text COLLATE "C" NOT NULL,
    kind        text COLLATE "C" NOT NULL CHECK (kind IN ('hostname', 'path', 'country', 'missing_path')),
    key         text COLLATE "C" NOT NULL,
    requests    bigint NOT NULL,
    bytes       bigint NOT NULL,
    PRIMARY KEY (day, project_id, kind, key)
);

-- Projects that were deleted, whose rows above are still to go.
CREATE TABLE traffic_removals (
    project_id  text COLLATE "C" PRIMARY KEY,
    queued_at   timestamptz NOT NULL DEFAULT now()
);

CREATE FUNCTION queue_traffic_removal() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO traffic_removals (project_id) VALUES (OLD.id) ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
CREATE TRIGGER projects_queue_traffic_removal AFTER DELETE ON projects
    FOR EACH ROW EXECUTE FUNCTION queue_traffic_removal();

-- Adds a batch of an edge; false when it was added before. Row n of the first arrays is an hour of a project; an entry names
-- its hour and project by that number. Traffic of projects that are gone is left out. An hour that cannot be, because a
-- clock leapt, becomes the nearest that can.
CREATE FUNCTION record_traffic(
    edge text, batch bigint,
    hours timestamptz[], projects text[], sums bigint[],
    entry_hours integer[], entry_kinds text[], entry_keys text[], entry_requests bigint[], entry_bytes bigint[]
) RETURNS boolean
LANGUAGE plpgsql
-- Every row is found by its key, also when the planner takes a batch for larger, or a table for smaller, than it is.
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
    -- Distinct keys of a project in an hour. Beyond them a key that is new becomes `(other)`.
    most_paths CONSTANT integer := 50000;
    most_missing_paths CONSTANT integer := 1000;
    this_hour CONSTANT timestamptz := date_trunc('hour', now(), 'UTC');
    columns CONSTANT integer := 9;
BEGIN
    INSERT INTO traffic_edges AS known (edge_id, last_batch, recorded_at) VALUES (edge, batch, now())
    ON CONFLICT (edge_id) DO UPDATE SET last_batch = excluded.last_batch, recorded_at = excluded.recorded_at
    WHERE known.last_batch < excluded.last_batch;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    hours := ARRAY(SELECT greatest(least(date_trunc('hour', given.hour, 'UTC'), this_hour + interval '1 hour'),
                                   this_hour - interval '6 days')
                   FROM unnest(hours) WITH ORDINALITY AS given (hour, n) ORDER BY n);

    -- In one order by all edges, so that none waits for another that waits for it.
    INSERT INTO traffic_hours AS known (hour, project_id, requests, bytes, cache_hits, cache_misses,
                                        status_2xx, status_3xx, status_4xx, status_5xx, status_other)
    SELECT given.hour, given.project_id,
           sum(sums[at + 1]), sum(sums[at + 2]), sum(sums[at + 3]), sum(sums[at + 4]), sum(sums[at + 5]),
           sum(sums[at + 6]), sum(sums[at + 7]), sum(sums[at + 8]), sum(sums[at + 9])
    FROM unnest(hours, projects) WITH ORDINALITY AS given (hour, project_id, n),
         LATERAL (SELECT (n - 1)::integer * columns AS at) AS place
    WHERE EXISTS (SELECT FROM projects AS alive WHERE alive.id = given.project_id)
    GROUP BY given.hour, given.project_id
    ORDER BY given.hour, given.project_id
    ON CONFLICT (hour, project_id) DO UPDATE SET
        requests = known.requests + excluded.requests, bytes = known.bytes + excluded.bytes,
        cache_hits = known.cache_hits + excluded.cache_hits, cache_misses = known.cache_misses + excluded.cache_misses,
        status_2xx = known.status_2xx + excluded.status_2xx, status_3xx = known.status_3xx + excluded.status_3xx,
        status_4xx = known.status_4xx + excluded.status_4xx, status_5xx = known.status_5xx + excluded.status_5xx,
        status_other = known.status_other + excluded.status_other, is_rolled = false;

    WITH given AS (
        SELECT known.hour, known.project_id, entry.kind, entry.key, entry.requests, entry.bytes,
               (entry.kind = 'path' AND known.paths >= most_paths)
               OR (entry.kind = 'missing_path' AND known.missing_paths >= most_missing_paths) AS is_full
        FROM unnest(entry_hours, entry_kinds, entry_keys, entry_requests, entry_bytes)
             AS entry (n, kind, key, requests, bytes)
        JOIN traffic_hours AS known ON known.hour = hours[entry.n] AND known.project_id = projects[entry.n]
    ), placed AS (
        SELECT given.hour, given.project_id, given.kind,
               CASE WHEN given.is_full AND NOT EXISTS (
                        SELECT FROM traffic_hour_entries AS there
                        WHERE there.hour = given.hour AND there.project_id = given.project_id
                          AND there.kind = given.kind AND there.key = given.key)
                    THEN '(other)' ELSE given.key END AS key,
               given.requests, given.bytes
        FROM given
    ), added AS (
        INSERT INTO traffic_hour_entries AS known (hour, project_id, kind, key, requests, bytes)
        SELECT hour, project_id, kind, key, sum(requests), sum(bytes) FROM placed
        GROUP BY hour, project_id, kind, key ORDER BY hour, project_id, kind, key
        ON CONFLICT (hour, project_id, kind, key) DO UPDATE SET
            requests = known.requests + excluded.requests, bytes = known.bytes + excluded.bytes
        RETURNING hour, project_id, kind, xmax = 0 AS is_new
    )
    UPDATE traffic_hours AS known
    SET paths = known.paths + more.paths, missing_paths = known.missing_paths + more.missing_paths
    FROM (SELECT hour, project_id, count(*) FILTER (WHERE kind = 'path') AS paths,
                 count(*) FILTER (WHERE kind = 'missing_path') AS missing_paths
          FROM added WHERE is_new AND kind IN ('path', 'missing_path') GROUP BY hour, project_id) AS more
    WHERE known.hour = more.hour AND known.project_id = more.project_id;
    RETURN true;
END
$$;

-- Makes days of the hours that lie before `until`, a midnight, where they are not in their day's row yet: at most `most` of
-- them, and the others of their days. Returns the number of days made. Run twice it changes nothing.
CREATE FUNCTION roll_traffic(until timestamptz, most bigint) RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
    -- Keys of each kind that a day keeps by name.
    kept CONSTANT integer := 100;
    days date[];
    projects text[];
    made_days date[];
    made_projects text[];
BEGIN
    SELECT array_agg(picked.day), array_agg(picked.project_id) INTO days, projects
    FROM (SELECT DISTINCT (first.hour AT TIME ZONE 'UTC')::date AS day, first.project_id
          FROM (SELECT hour, project_id FROM traffic_hours WHERE NOT is_rolled AND hour < until
                ORDER BY hour, project_id LIMIT most) AS first) AS picked;
    IF days IS NULL THEN
        RETURN 0;
    END IF;
    -- What is recorded from here on waits, and finds its hour not rolled again.
    PERFORM FROM traffic_hours AS known
    JOIN (SELECT day::timestamp AT TIME ZONE 'UTC' + n * interval '1 hour' AS hour, project_id
          FROM unnest(days, projects) AS wanted (day, project_id), generate_series(0, 23) AS n) AS wanted
      ON known.hour = wanted.hour AND known.project_id = wanted.project_id
    ORDER BY known.hour, known.project_id FOR UPDATE OF known;

    -- A sum that is lower than the day's row is of a day whose hours have gone in part.
    WITH summed AS (
        SELECT wanted.day, wanted.project_id, sum(requests) AS requests, sum(bytes) AS bytes,
               sum(cache_hits) AS cache_hits, sum(cache_misses) AS cache_misses, sum(status_2xx) AS status_2xx,
               sum(status_3xx) AS status_3xx, sum(status_4xx) AS status_4xx, sum(status_5xx) AS status_5xx,
               sum(status_other) AS status_other
        FROM unnest(days, projects) AS wanted (day, project_id), generate_series(0, 23) AS n
        JOIN LATERAL (SELECT * FROM traffic_hours AS known
                      WHERE known.hour = wanted.day::timestamp AT TIME ZONE 'UTC' + n * interval '1 hour'
                        AND known.project_id = wanted.project_id) AS known ON true
        GROUP BY wanted.day, wanted.project_id
    ), made AS (
        INSERT INTO traffic_days AS known (day, project_id, requests, bytes, cache_hits, cache_misses,
                                           status_2xx, status_3xx, status_4xx, status_5xx, status_other)
        SELECT * FROM summed ORDER BY day, project_id
        ON CONFLICT (day, project_id) DO UPDATE SET
            requests = excluded.requests, bytes = excluded.bytes, cache_hits = excluded.cache_hits,
            cache_misses = excluded.cache_misses, status_2xx = excluded.status_2xx, status_3xx = excluded.status_3xx,
            status_4xx = excluded.status_4xx, status_5xx = excluded.status_5xx, status_other = excluded.status_other
        WHERE known.requests <= excluded.requests AND known.bytes <= excluded.bytes
        RETURNING known.day, known.project_id
    )
    SELECT array_agg(made.day), array_agg(made.project_id) INTO made_days, made_projects FROM made;

    DELETE FROM traffic_day_entries AS known USING unnest(made_days, made_projects) AS made (day, project_id)
    WHERE known.day = made.day AND known.project_id = made.project_id;
    WITH ranked AS (
        SELECT made.day, made.project_id, entry.kind, entry.key, sum(entry.requests) AS requests,
               sum(entry.bytes) AS bytes,
               row_number() OVER (PARTITION BY made.day, made.project_id, entry.kind
                                  ORDER BY (entry.key = '(other)'), sum(entry.requests) DESC, entry.key) AS place
        FROM unnest(made_days, made_projects) AS made (day, project_id), generate_series(0, 23) AS n
        JOIN LATERAL (SELECT * FROM traffic_hour_entries AS known
                      WHERE known.hour = made.day::timestamp AT TIME ZONE 'UTC' + n * interval '1 hour'
                        AND known.project_id = made.project_id) AS entry ON true
        GROUP BY made.day, made.project_id, entry.kind, entry.key
    )
    INSERT INTO traffic_day_entries (day, project_id, kind, key, requests, bytes)
    SELECT day, project_id, kind, CASE WHEN place > kept THEN '(other)' ELSE key END, sum(requests), sum(bytes)
    FROM ranked GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4;

    UPDATE traffic_hours AS known SET is_rolled = true
    FROM (SELECT day::timestamp AT TIME ZONE 'UTC' + n * interval '1 hour' AS hour, project_id
          FROM unnest(days, projects) AS wanted (day, project_id), generate_series(0, 23) AS n) AS wanted
    WHERE known.hour = wanted.hour AND known.project_id = wanted.project_id AND NOT known.is_rolled;
    RETURN cardinality(days);
END
$$;
