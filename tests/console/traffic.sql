-- A year of visitors for the sites of the scene, as the edges and the jobs leave it.
SELECT setseed(0.42);
CREATE TEMPORARY TABLE scene_sites AS
SELECT id, name, n FROM projects JOIN (VALUES
    ('field-notes', 5200.0), ('harbour-docs', 12400.0), ('portfolio', 830.0), ('recipes', 2600.0), ('handbook', 310.0),
    ('tide-tables', 7100.0), ('launch-plan', 64.0)) AS sites (name, n) USING (name);
CREATE TEMPORARY TABLE scene_keys (kind text, key text, share double precision);
INSERT INTO scene_keys VALUES
    ('hostname', 'notes.ada.localhost', 0.62), ('hostname', 'field-notes.svc.localhost', 0.38),
    ('path', '/', 0.31), ('path', '/notes/lighthouses/', 0.14), ('path', '/assets/cover.webp', 0.12), ('path', '/assets/style.css', 0.11),
    ('path', '/notes/tides/', 0.09), ('path', '/feed.xml', 0.08), ('path', '/about/', 0.05), ('path', '/archive/', 0.03),
    ('country', 'NL', 0.34), ('country', 'DE', 0.21), ('country', 'GB', 0.13), ('country', 'US', 0.11), ('country', 'FR', 0.08),
    ('country', 'JP', 0.05), ('country', 'BR', 0.03),
    ('page', '/', 0.12), ('page', '/notes/lighthouses/', 0.07), ('page', '/notes/tides/', 0.045), ('page', '/about/', 0.025),
    ('page', '/notes/salt-marsh/', 0.021), ('page', '/archive/', 0.015), ('page', '/reading/', 0.009),
    ('referrer', 'news.ycombinator.com', 0.061), ('referrer', 'duckduckgo.com', 0.034), ('referrer', 'mastodon.social', 0.019),
    ('referrer', 'www.google.com', 0.012), ('referrer', 'lobste.rs', 0.006),
    ('view_country', 'NL', 0.11), ('view_country', 'DE', 0.07), ('view_country', 'GB', 0.04), ('view_country', 'US', 0.03),
    ('view_country', 'FR', 0.02), ('view_country', 'JP', 0.01),
    ('agent', E'person\t\tbehaviour', 0.58), ('agent', E'search\tGooglebot\tnetwork', 0.07), ('agent', E'search\tBingbot\tnetwork', 0.03),
    ('agent', E'ai_training\tGPTBot\tnetwork', 0.06), ('agent', E'ai_training\tClaudeBot\tname', 0.04),
    ('agent', E'ai_search\tPerplexityBot\tname', 0.02), ('agent', E'automation\t\tbehaviour', 0.09),
    ('error', E'404\t/old-feed.rss\tfeedly.com', 0.006), ('error', E'404\t/notes/tide\tnotes.ada.localhost', 0.003),
    ('error', E'404\t/favicon.png\t', 0.002),
    ('view', E'/\tnews.ycombinator.com\tNL\tnotes.ada.localhost', 0.06), ('view', E'/\tduckduckgo.com\tDE\tnotes.ada.localhost', 0.035),
    ('view', E'/\tmastodon.social\tNL\tnotes.ada.localhost', 0.025), ('view', E'/notes/tides/\tmastodon.social\tGB\tnotes.ada.localhost', 0.03),
    ('view', E'/notes/lighthouses/\tnews.ycombinator.com\tGB\tnotes.ada.localhost', 0.045),
    ('view', E'/notes/lighthouses/\tduckduckgo.com\tUS\tnotes.ada.localhost', 0.025),
    ('view', E'/about/\twww.google.com\tFR\tnotes.ada.localhost', 0.016), ('view', E'/archive/\tlobste.rs\tJP\tnotes.ada.localhost', 0.007);

SELECT add_traffic_partition('traffic_days', (now() - n * interval '1 month')::date) FROM generate_series(1, 12) AS n;
SELECT add_traffic_partition(whole, (now() - n * interval '1 day')::date)
FROM unnest(ARRAY['traffic_hours', 'traffic_hour_entries']) AS whole, generate_series(1, 4) AS n;

INSERT INTO traffic_days (day, project_id, visitors, lists, requests, bytes, cache_hits, cache_misses, status_2xx, status_3xx,
                          status_4xx, status_5xx, status_other, pageviews, people_bytes)
SELECT day, id, n / 9, lists, n, n * 21000, n * 9 / 10, n / 10, n * 93 / 100, n * 5 / 100, n * 2 / 100, 0, 0, n * 28 / 100, n * 14000
FROM (SELECT day::date, id,
             (n * (0.45 + 0.55 * (365 - extract(day FROM now() - day)) / 365)
                * CASE WHEN extract(isodow FROM day) > 5 THEN 0.55 ELSE 1 END * (0.85 + random() * 0.3))::bigint AS n
      FROM generate_series(now() - interval '364 days', now() - interval '1 day', interval '1 day') AS day, scene_sites) AS days,
     LATERAL (SELECT json_object_agg(kind, list) AS lists
              FROM (SELECT kind, json_agg(json_build_array(key, ceil(n * share), ceil(n * share) * 9000) ORDER BY share DESC) AS list
                    FROM scene_keys WHERE kind <> 'view' GROUP BY kind) AS kinds) AS made;

INSERT INTO traffic_hours (hour, project_id, is_rolled, requests, bytes, cache_hits, cache_misses, status_2xx, status_3xx,
                           status_4xx, status_5xx, status_other, pageviews, people_bytes)
SELECT hour, id, hour < date_trunc('day', now(), 'UTC'), n, n * 21000, n * 9 / 10, n / 10, n * 93 / 100, n * 5 / 100, n * 2 / 100, 0, 0,
       n * 28 / 100, n * 14000
FROM (SELECT hour, id,
             ceil(n / 24 * (1 + 0.75 * sin((extract(hour FROM hour) - 9) / 24 * 2 * pi())) * (0.8 + random() * 0.4))::bigint AS n
      FROM generate_series(date_trunc('hour', now(), 'UTC') - interval '75 hours', date_trunc('hour', now(), 'UTC'),
                           interval '1 hour') AS hour, scene_sites) AS hours;
INSERT INTO traffic_hour_entries (hour, project_id, kind, key, requests, bytes)
SELECT hour, project_id, kind, key, ceil(requests * share), ceil(requests * share) * 9000
FROM traffic_hours, scene_keys WHERE kind NOT IN ('page', 'referrer', 'view_country');
