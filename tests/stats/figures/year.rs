//! A year of history: its room, how soon months are made of its days, and the time that answers take.

use std::time::{Duration, Instant};

use super::*;
use crate::world::{Actor, eventually};

/// Sites. The n-th has so many requests a day, divided by n to the power of 1.4: half of them have three or less, and none
/// on some days.
const SITES: usize = 10_000;
const REQUESTS_OF_THE_FIRST: u32 = 500_000;
/// Days that are asked for, and those after which hours are gone.
const DAYS: u32 = 365;
const HOURS_FOR: u32 = 7;
/// Sites that are asked about: the most visited, and others by chance.
const FIRST: usize = 50;
const OTHERS: usize = 350;
/// What is asked about each.
const ANSWERS: [&str; 5] =
    ["?hours=72", "/history?days=365", "/audience?days=365", "/bots?days=365", "/errors?days=365"];

/// What a site has of each kind in a day with `n` requests: the shape of its keys, and their number.
const KINDS: &str = r"(VALUES
    ('hostname', 'site%s.example', 1),
    ('path', '/articles/%s/a-title-of-a-few-words', least(100, n, 1 + n ^ 0.5)),
    ('error', E'404\t/missing/%s\t', least(100, n, n ^ 0.35)),
    ('country', 'C%s', least(100, n, 1 + n ^ 0.3)),
    ('agent', E'ai_training\tAgent%s\tnetwork', least(100, n, 1 + n ^ 0.3)),
    ('agent_page', 'Agent%s', least(100, n, n ^ 0.3)),
    ('view', E'/articles/%s/a-title-of-a-few-words\tnews.example\tDE\tsite.example', least(200, (0.15 * n) ^ 0.7)),
    ('page', '/articles/%s/a-title-of-a-few-words', least(100, (0.15 * n) ^ 0.5)),
    ('referrer', 'host%s.example', least(100, (0.15 * n) ^ 0.4)),
    ('view_country', 'C%s', least(100, (0.15 * n) ^ 0.3))
) AS kinds (kind, shape, keys)";

/// Makes the rows that a year of traffic leaves.
async fn make_year(world: &World) {
    let sums = "requests, bytes, cache_hits, cache_misses, status_2xx, status_3xx, status_4xx, status_5xx, status_other, \
                pageviews, people_bytes";
    // Of n requests.
    let of_requests = "n, n * 20000, n * 7 / 10, n / 5, n * 8 / 10, n / 10, n / 10, 0, 0, n / 10, n * 12000";
    world
        .sql(&format!(
            "CREATE TABLE year_sites AS
             SELECT id, rank, {REQUESTS_OF_THE_FIRST} / rank ^ 1.4 AS n
             FROM (SELECT id, row_number() OVER (ORDER BY id) AS rank FROM projects) AS ranked;
             SELECT add_traffic_partition('traffic_days', (now() - n * interval '1 month')::date)
             FROM generate_series(1, 12) AS n;
             SELECT add_traffic_partition(whole, (now() - n * interval '1 day')::date)
             FROM unnest(ARRAY['traffic_hours', 'traffic_hour_entries']) AS whole, generate_series(1, {HOURS_FOR}) AS n;

             CREATE TABLE year_lists AS
             SELECT id, weekday, n, (
                 SELECT ('{{' || string_agg(to_json(kind) || ':[' || list || ']', ',') || '}}')::json
                 FROM (SELECT kind, (SELECT string_agg(
                                            '[' || to_json(format(shape, (place * 7 + weekday * 13 + rank) % 1000)) || ','
                                            || ceil(n / place / 4) || ',' || ceil(n / place / 4) * 20000 || ']', ','
                                            ORDER BY place)
                                     FROM generate_series(1, keys::integer) AS place) AS list
                       FROM {KINDS} WHERE keys >= 1) AS lists
             ) AS lists
             FROM year_sites, generate_series(0, 6) AS weekday;
             INSERT INTO traffic_days (day, project_id, visitors, lists, {sums})
             SELECT day, id, n / 20, lists, {of_requests}
             FROM (SELECT day::date, id, lists, ceil(n * (0.7 + random() * 0.6))::bigint AS n
                   FROM generate_series(now() - {DAYS} * interval '1 day', now() - interval '1 day',
                                        interval '1 day') AS day
                   JOIN year_lists ON weekday = extract(dow FROM day)
                   WHERE random() < 1 - exp(-least(n, 100))
                   ORDER BY day, id) AS made;

             INSERT INTO traffic_hours (hour, project_id, is_rolled, {sums})
             SELECT hour, id, hour < date_trunc('day', now(), 'UTC'), {of_requests}
             FROM (SELECT hour, id, ceil(n / 24 * (0.7 + random() * 0.6))::bigint AS n
                   FROM year_sites, generate_series(date_trunc('day', now(), 'UTC') - {HOURS_FOR} * interval '1 day',
                                                    now(), interval '1 hour') AS hour
                   WHERE random() < 1 - exp(-least(n / 24, 100))
                   ORDER BY hour, id) AS made;
             INSERT INTO traffic_hour_entries (hour, project_id, kind, key, requests, bytes)
             SELECT hour, project_id, kind, format(shape, place), ceil(n / place / 4), ceil(n / place / 4) * 20000
             FROM (SELECT hour, project_id, requests AS n FROM traffic_hours) AS hours,
                  LATERAL {KINDS}, generate_series(1, keys::integer) AS place
             WHERE kind NOT IN ('page', 'referrer', 'view_country');
             INSERT INTO traffic_visitors (day, project_id, hour, registers)
             SELECT day::date, id, 0, ARRAY(SELECT place << 6 | 1 + (place % 5)
                                         FROM generate_series(1, least(n / 20, 16000)::integer) AS place)
             FROM year_sites, generate_series(now() - {HOURS_FOR} * interval '1 day', now(), interval '1 day') AS day;
             DROP TABLE year_sites, year_lists",
        ))
        .await;
    world.sql("VACUUM ANALYZE").await;
}

/// Time within which the months that are over are made.
const CONDENSED_WITHIN: Duration = Duration::from_mins(40);

/// Has admin move the days of old months into their months, as it would have month by month. Returns the minutes it took.
async fn condense(world: &mut World) -> f64 {
    let start = Instant::now();
    world.restart_admin_later().await;
    // Which costs nothing while there are some.
    let old = "SELECT count(*) FROM (SELECT FROM traffic_days
               WHERE day < date_trunc('month', now() AT TIME ZONE 'UTC') - interval '1 month' LIMIT 1) AS remaining";
    eventually(CONDENSED_WITHIN, "old days are in months", async || world.sql_number(old).await == 0).await;
    let minutes = start.elapsed().as_secs_f64() / 60.0;
    world.sql("VACUUM ANALYZE").await;
    minutes
}

/// The time of one answer.
async fn asked(actor: &Actor, path: &str) -> f64 {
    let start = Instant::now();
    actor.get(path).await.ok();
    start.elapsed().as_secs_f64() * 1e3
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only history`"]
async fn year_of_many_sites() {
    let mut world = World::builder().set("LIMITS__API_PER_MIN", 1_000_000).start().await;
    let ada = world.user("ada").await;
    projects(&world, SITES).await;
    make_year(&world).await;
    let made = world.sql_number("SELECT count(*) FROM traffic_days").await;
    let minutes = condense(&mut world).await;
    let size = |what: &str| {
        format!(
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class WHERE relname LIKE '{what}'"
        )
    };
    let mut gigabytes = Vec::new();
    for table in ["traffic\\_days%", "traffic\\_months%", "traffic\\_hour%"] {
        let tables = format!("{} AND relkind = 'r'", size(table));
        gigabytes.push(world.sql_number(&tables).await);
    }
    gigabytes.push(world.sql_number("SELECT pg_database_size(current_database())").await);
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let gigabytes =
        gigabytes.into_iter().map(|bytes| format!("{:.2}", bytes as f64 / 1e9)).collect::<Vec<_>>().join(" | ");
    let rows = ["traffic_days", "traffic_months"].map(|table| format!("SELECT count(*) FROM {table}"));
    let (days, months) = (world.sql_number(&rows[0]).await, world.sql_number(&rows[1]).await);
    let kept = format!("{SITES} | {made} | {days} | {months} | {minutes:.1} | {gigabytes}");
    let mut dice = Dice(1);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a place")]
    let others = (0..OTHERS).map(|_| (dice.roll() * SITES as f64) as usize + 1);
    let asked_about: Vec<usize> = (1..=FIRST).chain(others).collect();
    for answer in ANSWERS {
        let mut times = Vec::new();
        for _ in 0..2 {
            for site in &asked_about {
                times.push(asked(&ada, &format!("/projects/site{site}/stats{answer}")).await);
            }
        }
        times.sort_by(f64::total_cmp);
        let [median, p99, slowest] = [times.len() / 2, times.len() * 99 / 100, times.len() - 1].map(|at| times[at]);
        print(&format!("| {kept} | `stats{answer}` | {median:.1} | {p99:.1} | {slowest:.1} |"));
    }
}
