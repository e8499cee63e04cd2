//! Each completion is counted exactly once, while edges, Redis, admin and Postgres are killed and stopped.

use std::{collections::BTreeSet, ops::Range};

use domain::usage::UsageRow;
use live::Redis;
use sqlx::{Connection as _, PgConnection};

use super::{
    journals::row,
    served::{Received, UNLIMITED_TOKENS, completions, numbered, without_limits},
    *,
};

#[tokio::test]
async fn a_delivered_answer_is_counted_although_its_edge_is_killed() {
    let (mut metered, mut received) = Metered::after_one(without_limits).await;
    // Postgres is away, so that only the journal has them.
    metered.world.stop_postgres().await;
    received.extend(metered.serve_all(0, (0..completions(2)).map(numbered)).await);
    metered.world.edges[0].process.kill();
    assert!(files(&spool(&metered)) > 0);
    metered.world.start_postgres().await;
    metered.world.restart_edge(0).await;
    metered.assert_ledger(&received, 0).await;
    // Redis has it too: nothing is reserved any more, and the dead edge's journal is deleted.
    assert_budget(&metered, &received).await;
    eventually(BACKGROUND, "one journal is left", async || files(&spool(&metered)) == 1).await;
}

#[tokio::test]
async fn a_stream_cut_by_its_edges_death_is_estimated_by_the_next_edge() {
    let mut metered = Metered::start_with(without_limits).await;
    let count = completions(1);
    let held = (0..count).map(|number| numbered(number).at_most(300).streamed().held());
    let under_way = metered.hold(0, held).await;
    metered.world.edges[0].process.kill();
    assert!(under_way.end().await.is_empty());
    metered.world.restart_edge(0).await;
    let estimates = "estimated AND completion_tokens = 300 AND prompt_tokens > 0";
    metered.rows_become(count.try_into().unwrap(), estimates).await;
    let mut received = Received::default();
    received.extend(metered.serve_all(0, [Completion::of(1, 1)]).await);
    metered.assert_ledger(&received, 0).await;
}

#[tokio::test]
async fn admin_settles_for_a_lost_edge_and_a_later_journal_replaces_its_estimates() {
    let (mut metered, mut received) = Metered::after_one(|builder| without_limits(builder).edges(2)).await;
    // Some completions have ended but are not in Postgres, and some are open.
    let (count, rows) = (completions(1), i64::try_from(completions(1)).unwrap());
    let under_way = metered.hold(0, (0..count).map(|number| numbered(number).at_most(300).held())).await;
    metered.world.stop_postgres().await;
    received.extend(metered.serve_all(0, (count..2 * count).map(numbered)).await);
    let told = async || open_in_redis(&metered, "\"estimated\":false").await;
    eventually(BACKGROUND, "Redis is told", async || told().await == Some(rows)).await;
    metered.world.edges[0].process.kill();
    assert!(under_way.end().await.is_empty());
    // The machine is lost, and its journal with it.
    let (here, away) = (spool(&metered), metered.world.folder().join("away"));
    std::fs::create_dir(&away).unwrap();
    let own = |path: &Path| std::fs::read_to_string(path).unwrap().contains("\"open\"");
    let journals: Vec<PathBuf> = files_in(&here).into_iter().filter(|path| own(path)).collect();
    assert_eq!(journals.len(), 1);
    let moved = away.join(journals[0].file_name().unwrap());
    std::fs::rename(&journals[0], &moved).unwrap();
    metered.world.start_postgres().await;

    metered.rows_become(rows, "estimated AND completion_tokens = 300").await;
    // The usage of the others had been reported to Redis.
    metered.assert_ledger(&received, 0).await;
    // The machine is back: its journal is not counted again.
    std::fs::rename(&moved, &journals[0]).unwrap();
    eventually(BACKGROUND, "the journal is taken over", async || !journals[0].exists()).await;
    received.extend(metered.serve_all(1, [Completion::of(4, 4)]).await);
    metered.assert_ledger(&received, 0).await;
}

#[tokio::test]
async fn an_estimate_is_replaced_by_the_real_usage() {
    let mut metered = Metered::start_with(|builder| builder.edges(2)).await;
    metered.ask(&Completion::of(1, 1)).await.assert_status(200);
    metered.rows_become(1, "NOT estimated").await;
    metered.world.stop_postgres().await;
    metered.ask(&Completion::of(2, 7).at_most(200)).await.assert_status(200);
    metered.world.edges[0].process.kill();
    metered.world.start_postgres().await;
    metered.rows_become(1, "prompt_tokens = 2").await;
    // As if admin had settled it before the journal was taken over.
    metered
        .world
        .sql(
            "UPDATE ai_usage SET estimated = true, certainty = 0, completion_tokens = 200 WHERE prompt_tokens = 2;
             UPDATE ai_usage_days SET completion_tokens = completion_tokens + 193",
        )
        .await;
    let row =
        metered.world.sql_text("SELECT id || ' ' || account_id || ' ' || token_id FROM ai_usage WHERE estimated").await;
    let [id, account, token] = row.split(' ').collect::<Vec<_>>()[..] else { panic!("{row}") };
    let ended = json!({ "ended": {
        "id": id, "account": account, "token": token, "model": "svc/gpt-oss-20b", "provider": "ovhcloud",
        "prompt": 2, "completion": 7, "estimated": false, "cost": 2 * 10 + 7 * 40,
        "at": domain::Clock::system().now(),
    }});
    std::fs::write(spool(&metered).join("deadedge-00000000.usage"), format!("{ended}\n{ended}\n")).unwrap();
    metered.rows_become(0, "estimated").await;
    metered.rows_become(1, "prompt_tokens = 2 AND completion_tokens = 7").await;
    let days = metered.world.sql_number("SELECT sum(completion_tokens)::bigint FROM ai_usage_days").await;
    assert_eq!(days, 8);
}

#[tokio::test]
async fn a_clean_stop_writes_everything_to_postgres() {
    let mut metered = Metered::start_with(without_limits).await;
    let mut received = Received::default();
    received.extend(metered.serve_all(0, (0..completions(20)).map(numbered)).await);
    metered.world.edges[0].process.stop();
    assert_eq!(metered.rows("NOT estimated").await, i64::try_from(received.len()).unwrap());
    assert_eq!(files(&spool(&metered)), 0, "a journal is left");
    metered.assert_ledger(&received, 0).await;
}

#[tokio::test]
async fn postgres_away_for_a_while_loses_nothing() {
    let (metered, mut received) = Metered::after_one(without_limits).await;
    metered.world.stop_postgres().await;
    received.extend(metered.serve_all(0, (0..completions(60)).map(numbered)).await);
    metered.world.start_postgres().await;
    metered.assert_ledger(&received, 0).await;
}

#[tokio::test]
async fn what_is_under_way_is_reported_to_an_emptied_redis() {
    let (metered, mut received) = Metered::after_one(without_limits).await;
    let count = completions(1);
    let under_way = metered.hold(0, (0..count).map(|number| numbered(number).at_most(300).held())).await;
    metered.world.redis_command("FLUSHALL").await;
    let is_told = async || open_in_redis(&metered, "").await == Some(count.try_into().unwrap());
    eventually(BACKGROUND, "Redis is told of what is under way", is_told).await;
    received.extend(metered.serve_all(0, (count..2 * count).map(numbered)).await);
    // Once more, at the moment at which they end.
    metered.provider.release();
    metered.world.redis_command("FLUSHALL").await;
    received.extend(under_way.end().await);
    assert_eq!(received.len(), 1 + 2 * count);
    let figures = metered.assert_ledger(&received, 0).await;
    assert_eq!(figures.estimated, 0);
    assert_budget(&metered, &received).await;
}

/// A Redis that saves once a second loses up to a second in a crash, and with it the ends of completions.
#[tokio::test]
async fn reservations_restored_by_redis_are_released() {
    let (mut metered, mut received) = Metered::after_one(|builder| without_limits(builder).lasting_redis()).await;
    // As the log was while these were under way: some are so still when Redis comes back with it.
    let (count, rows) = (completions(1), |times: u64| i64::try_from(times * completions(1)).unwrap());
    let held = |numbers: Range<u64>| numbers.map(|number| numbered(number).at_most(300).held());
    let ending = metered.hold(0, held(0..count)).await;
    let lasting = metered.hold(0, held(count..2 * count)).await;
    let log = RedisLog::keep(&metered, 1 + 2 * count).await;
    metered.provider.release_below(numbered(count).prompt);
    received.extend(ending.end().await);
    // It knows nothing of these.
    let unknown = metered.hold(0, held(2 * count..3 * count)).await;
    received.extend(metered.serve_all(0, (3 * count..4 * count).map(numbered)).await);
    eventually(BACKGROUND, "what has ended is settled", async || {
        open_in_redis(&metered, "").await == Some(rows(2)) && metered.rows("true").await == 1 + rows(2)
    })
    .await;
    log.bring_back(&mut metered).await;
    let asked_for = async || asked_for_in_redis(&metered).await == Some(rows(3));
    eventually(BACKGROUND, "what has ended is open again", asked_for).await;
    let open = async || open_in_redis(&metered, "").await == Some(rows(2));
    eventually(BACKGROUND, "it is released, and spares with it", open).await;
    metered.provider.release();
    received.extend(lasting.end().await);
    received.extend(unknown.end().await);
    assert_eq!(received.len(), 1 + 4 * count);
    let figures = metered.assert_ledger(&received, 0).await;
    assert_eq!(figures.estimated, 0);
    assert_budget(&metered, &received).await;
}

#[tokio::test]
async fn what_redis_restores_of_an_edge_that_has_stopped_is_not_made_up() {
    let Failed { mut metered, received, count, log } = Failed::of_a_lasting_redis().await;
    metered.world.edges[0].process.stop();
    log.bring_back(&mut metered).await;
    metered.assert_ledger(&received, count).await;
    metered.world.restart_edge(0).await;
    assert_budget(&metered, &received).await;
}

#[tokio::test]
async fn what_redis_restores_of_an_edge_whose_journal_was_taken_over_is_not_made_up() {
    let Failed { mut metered, received, count, log } = Failed::of_a_lasting_redis().await;
    // The first to take the journal over cannot settle what is in it, and is killed as well.
    let mut holder = PgConnection::connect(metered.world.database.as_str()).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE ai_usage_days, settled_edges IN EXCLUSIVE MODE")
        .execute(&mut holder)
        .await
        .unwrap();
    let journals = files_in(&spool(&metered));
    assert_eq!(journals.len(), 1);
    metered.world.edges[0].process.kill();
    metered.world.restart_edge(0).await;
    eventually(BACKGROUND, "its journal is taken over", async || !journals[0].exists()).await;
    metered.world.edges[0].process.kill();
    metered.world.restart_edge(0).await;
    holder.close().await.unwrap();
    eventually(BACKGROUND, "both edges are settled", async || {
        metered.world.sql_number("SELECT count(*) FROM settled_edges").await == 2
    })
    .await;
    log.bring_back(&mut metered).await;
    metered.assert_ledger(&received, count).await;
}

#[tokio::test]
async fn a_reservation_of_long_ago_is_given_back_and_rows_of_settled_edges_outlast_it() {
    let (mut metered, received) = Metered::after_one(|builder| builder).await;
    let redis = Redis::connect(&format!("redis://127.0.0.1:{}", metered.world.redis_port)).unwrap();
    let now = domain::Clock::system().now();
    for (edge, days) in [("old", 31), ("lost", 29)] {
        let at = now - Duration::from_hours(24 * days);
        let row = UsageRow { completion: 100 + days, at, ..row(&metered, 0).await };
        redis.renew_lease(edge).await.unwrap();
        redis.restore(edge, &row.account, &[&row]).await.unwrap();
    }
    metered.rows_become(1, "estimated AND completion_tokens = 129").await;
    eventually(BACKGROUND, "nothing is open", async || open_in_redis(&metered, "").await == Some(0)).await;
    assert_eq!(metered.rows("true").await, 1 + i64::try_from(received.len()).unwrap());

    metered
        .world
        .sql(
            "INSERT INTO settled_edges (edge_id, settled_at)
             SELECT 'edge-' || days, now() - days * interval '1 day' + interval '1 hour' FROM generate_series(20, 40) AS days",
        )
        .await;
    metered.world.restart_admin_later().await;
    let oldest = "SELECT max(substr(edge_id, 6)::int)::bigint FROM settled_edges WHERE edge_id LIKE 'edge-%'";
    eventually(BACKGROUND, "old rows are deleted", async || metered.world.sql_number(oldest).await == 31).await;
    assert_eq!(metered.world.sql_number("SELECT count(*) FROM settled_edges WHERE edge_id LIKE 'edge-%'").await, 12);
}

/// A world whose edge has served some completions and given back others, which the provider refused; and the log of its
/// Redis as it was while all of them were under way.
struct Failed {
    metered: Metered,
    received: Received,
    /// The number of those that were given back.
    count: usize,
    log: RedisLog,
}

impl Failed {
    async fn of_a_lasting_redis() -> Self {
        let (metered, mut received) = Metered::after_one(|builder| without_limits(builder).lasting_redis()).await;
        let count = completions(2);
        let failing = (0..count).map(|number| numbered(number).at_most(4_000).held().failing());
        let serving = (count..2 * count).map(|number| numbered(number).at_most(4_000).held());
        let under_way = metered.hold(0, failing.chain(serving)).await;
        let log = RedisLog::keep(&metered, 1 + 2 * count).await;
        metered.provider.release();
        received.extend(under_way.end().await);
        assert_eq!(received.len(), 1 + count);
        let count = count.try_into().unwrap();
        metered.assert_ledger(&received, count).await;
        Self { metered, received, count, log }
    }
}

/// Part of every report of a program on itself, which has an id, too.
const REPORT: &str = r#""most_connections":"#;

/// A copy of the append-only file of a lasting Redis.
struct RedisLog {
    folder: PathBuf,
    copy: PathBuf,
}

impl RedisLog {
    /// Copies the log once it has so many reservations that were asked for.
    async fn keep(metered: &Metered, admitted: u64) -> Self {
        let folder = metered.world.redis_folder().join("appendonlydir");
        let logged = || {
            let files = std::fs::read_dir(&folder).unwrap().map(|file| std::fs::read(file.unwrap().path()).unwrap());
            let log = files.map(|file| String::from_utf8_lossy(&file).into_owned()).collect::<String>();
            let rows = log.lines().filter(|line| !line.contains(SPARE) && !line.contains(REPORT));
            let ids = rows.filter_map(|row| Some(row.split_once("\"id\":\"")?.1.split_once('"')?.0));
            ids.collect::<BTreeSet<_>>().len()
        };
        let admitted = usize::try_from(admitted).unwrap();
        eventually(BACKGROUND, "the log has all admissions", async || logged() == admitted).await;
        let copy = metered.world.folder().join("earlier");
        copy_folder(&folder, &copy);
        Self { folder, copy }
    }

    /// Kills Redis, and starts it with the log as it was.
    async fn bring_back(&self, metered: &mut Metered) {
        metered.world.redis.kill();
        copy_folder(&self.copy, &self.folder);
        metered.world.restart_redis();
        eventually(BACKGROUND, "Redis is back", async || open_in_redis(metered, "").await.is_some()).await;
    }
}

fn copy_folder(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Checks that Redis goes by what was received, to the token.
async fn assert_budget(metered: &Metered, received: &Received) {
    let wanted = Completion::of(0, 0).at_most(10);
    let answer = metered.ask(&wanted).await.assert_status(200);
    let left: u64 = answer.header("x-ratelimit-remaining-tokens").parse().unwrap();
    assert_eq!(left, UNLIMITED_TOKENS - received.tokens() - wanted.reserves());
}
