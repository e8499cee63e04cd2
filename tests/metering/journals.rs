//! What becomes of the journals of dead edges: whose they are, and what they tell by what they do not hold.

use std::{collections::BTreeSet, os::unix::fs::PermissionsExt as _};

use db::gateway::ai_usage;
use domain::{
    CompletionId, Timestamp, TokenId,
    usage::{Ending, Microcents, TokenKinds, UsageCertainty, UsageDetails, UsageRow},
};
use live::budgets::{AccountLimits, AdmissionVerdict};
use sqlx::{Connection as _, PgConnection, PgPool};

use super::{
    relay::Relay,
    served::{UNLIMITED_TOKENS, completions, numbered, without_limits},
    silent_redis::redis,
    *,
};
use crate::{metrics::Page, world::ports};

const BUDGET: AccountLimits = AccountLimits {
    per_minute: 1_000_000,
    per_day: UNLIMITED_TOKENS,
    per_month: 1_000_000_000_000,
    account_limit: None,
    key_limit: None,
};

/// Completions that are asked for together of an edge that is then killed: each edge comes to ask Redis for so many before the
/// first of them is given up.
pub(super) const KILLED_TOGETHER: usize = 16;

/// The row of a completion of the only account, with so many tokens reserved for it.
pub(super) async fn row(metered: &Metered, completion: u64) -> UsageRow {
    let at: Timestamp = domain::Clock::system().now();
    UsageRow {
        id: CompletionId::new(at),
        account: metered.world.sql_text("SELECT account_id FROM ai_usage LIMIT 1").await.parse().unwrap(),
        token: TokenId::new(at),
        model: "svc/gpt-oss-20b".into(),
        provider: "ovhcloud".into(),
        prompt: 1,
        completion,
        certainty: UsageCertainty::Reserved,
        cost: Microcents(1),
        likely: None,
        details: UsageDetails::default(),
        at,
    }
}

/// Leaves a journal, as of the edge `edge`, which is dead. Returns its path.
fn leave_journal(metered: &Metered, edge: &str, database: &str, boot: &str, records: &[Value]) -> PathBuf {
    let path = spool(metered).join(format!("{edge}-00000000.usage"));
    let head = [json!({ "journal": database }), json!({ "boot": boot })];
    let lines: Vec<String> = head.iter().chain(records).map(Value::to_string).collect();
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    path
}

/// A world whose edge has served one completion.
async fn after_one(configure: impl FnOnce(Builder) -> Builder) -> Metered {
    let metered = Metered::start_with(configure).await;
    metered.ask(&Completion::of(1, 1)).await.assert_status(200);
    metered.rows_become(1, "NOT estimated").await;
    metered
}

#[tokio::test]
async fn a_journal_is_found_though_its_database_has_moved() {
    let mut metered = after_one(|builder| builder).await;
    metered.world.stop_postgres().await;
    metered.ask(&Completion::of(2, 10)).await.assert_status(200);
    metered.world.edges[0].process.kill();
    let journals = files_in(&spool(&metered));
    assert_eq!(journals.len(), 1);
    metered.world.start_postgres().await;
    let mut moved = metered.world.database.clone();
    let other = if moved.host_str() == Some("localhost") { "127.0.0.1" } else { "localhost" };
    moved.set_host(Some(other)).unwrap();
    metered.world.set("POSTGRES__URL", &moved);
    metered.world.restart_edge(0).await;
    eventually(BACKGROUND, "its journal is taken over", async || !journals[0].exists()).await;
    metered.rows_become(2, "NOT estimated").await;
    metered.assert_sums().await;
}

#[tokio::test]
async fn a_journal_of_another_database_is_passed_over_counted_and_logged() {
    let port = ports::free();
    let metered = after_one(|builder| builder.set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{port}"))).await;
    let ended = json!({ "ended": row(&metered, 7).await });
    let foreign = leave_journal(&metered, "foreign", "another", "any", std::slice::from_ref(&ended));
    let own = metered.world.sql_text("SELECT name FROM database_name").await;
    let left = leave_journal(&metered, "gone", &own, "any", &[json!({ "ended": row(&metered, 8).await })]);
    eventually(BACKGROUND, "it is counted", async || {
        Page::of(port).await.sum("svc_gateway_journals_foreign") > 0.5 && !left.exists()
    })
    .await;
    metered.rows_become(1, "completion_tokens = 8").await;
    assert!(metered.world.edge().process.log().contains("of another scope"));
    assert!(foreign.exists());
    assert_eq!(metered.rows("completion_tokens = 7").await, 0);
}

#[tokio::test]
async fn kinds_and_endings_of_other_versions_are_taken_over() {
    let metered = after_one(|builder| builder).await;
    let kinds = TokenKinds { cached: Some(5), reasoning: Some(0), ..TokenKinds::default() };
    let details = UsageDetails { kinds, assumed: 2_i16.into(), ending: Some(Ending::Length) };
    let row = async |completion, details| UsageRow {
        prompt: 10,
        certainty: UsageCertainty::Reported,
        details,
        ..row(&metered, completion).await
    };
    let ours = json!({ "ended": row(8, details).await });
    let mut later = json!({ "ended": row(9, details).await });
    later["ended"]["details"]["kinds"]["video"] = json!(7);
    later["ended"]["details"]["ending"] = json!("later");
    later["ended"]["details"]["assumed"] = json!(["video"]);
    later["ended"]["more"] = json!({});
    let former = json!({ "ended": row(10, UsageDetails::default()).await });
    assert!(former["ended"].get("details").is_none());
    let own = metered.world.sql_text("SELECT name FROM database_name").await;
    leave_journal(&metered, "gone", &own, "any", &[ours, later, former]);
    metered.rows_become(1, "completion_tokens = 8 AND cached_tokens = 5 AND assumed = 2 AND ending = 2").await;
    metered.rows_become(1, "completion_tokens = 9 AND cached_tokens = 5 AND assumed = 0 AND ending IS NULL").await;
    metered.rows_become(1, "completion_tokens = 10 AND cached_tokens IS NULL AND ending IS NULL").await;
    metered.assert_sums().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edge_that_is_killed_before_it_asks_a_provider_charges_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (port, _redis) = redis(folder.path());
    let relay = Relay::start(port).await;
    let url = format!("redis://127.0.0.1:{}", relay.port);
    let (mut metered, received) =
        Metered::after_one(|builder| without_limits(builder).edges(2).set("REDIS__URL", url)).await;
    // The other edge is to settle, before admin would by the reservation.
    metered.world.admin.signal("STOP");
    let redis = Redis::connect(&format!("redis://127.0.0.1:{port}")).unwrap();
    eventually(BACKGROUND, "nothing is open", async || open_at(&redis).await.is_empty()).await;

    let (numbers, mut reserved) = ((0..completions(1)).collect::<Vec<_>>(), BTreeSet::new());
    let numbers_in_all = numbers.len();
    for numbers in numbers.chunks(KILLED_TOGETHER) {
        let (asker, before) = (metered.asker(0), reserved.len());
        relay.swallow_answers();
        let wanted: Vec<_> = numbers.iter().map(|&number| numbered(number).at_most(300)).collect();
        let asking = tokio::spawn(async move { asker.serve(wanted).await });
        eventually(BACKGROUND, "they are reserved", async || {
            let asked_for = open_at(&redis).await.into_iter().filter(|row| !row.is_spare());
            reserved.extend(asked_for.map(|row| row.id));
            reserved.len() == before + numbers.len()
        })
        .await;
        metered.world.edges[0].process.kill();
        assert!(asking.await.unwrap().is_empty());
        if reserved.len() < numbers_in_all {
            // An edge is ready when admin is.
            metered.world.admin.signal("CONT");
            metered.world.restart_edge(0).await;
            metered.world.admin.signal("STOP");
        }
    }
    eventually(BACKGROUND, "the reservations are given back", async || open_at(&redis).await.is_empty()).await;
    assert_eq!(metered.provider.asked(), [1]);
    assert_eq!(metered.rows("true").await, 1);
    metered.assert_ledger(&received, 0).await;
}

#[tokio::test]
async fn an_edge_that_cannot_write_its_journal_serves_and_says_so_in_redis() {
    let folder = tempfile::tempdir().unwrap();
    // Any user may have written what is there.
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let spool = folder.path().display();
    let (mut metered, mut received) =
        Metered::after_one(|builder| without_limits(builder).set("EDGE__SPOOL", spool)).await;
    received.extend(metered.serve_all(0, (0..completions(5)).map(numbered)).await);
    assert_eq!(files(folder.path()), 0);
    let edges_with_gaps = ["return #redis.call('KEYS', 'svc:ai:gaps:*')", "0"];
    assert_eq!(metered.world.redis_number("EVAL", &edges_with_gaps).await, Some(1));
    let figures = metered.assert_ledger(&received, 0).await;
    assert_eq!(figures.estimated, 0);
    // It has forgotten.
    metered.world.redis.kill();
    metered.world.restart_redis();
    eventually(BACKGROUND, "one is served", async || metered.ask(&Completion::of(2, 2)).await.status == 200).await;
    assert_eq!(metered.world.redis_number("EVAL", &edges_with_gaps).await, Some(1));
}

#[tokio::test]
async fn what_a_journal_may_have_lost_counts_as_an_estimate() {
    let metered = after_one(|builder| builder).await;
    let redis = Redis::connect(&format!("redis://127.0.0.1:{}", metered.world.redis_port)).unwrap();
    let database = metered.world.sql_text("SELECT name FROM database_name").await;
    let present = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let (present, former) = (present.trim(), "00000000-0000-0000-0000-000000000000");
    // Each has reserved, and has it not in its journal; one of them because it could not write it.
    let mut journals = Vec::new();
    for (edge, boot, tokens) in [("killed", present, 100), ("rebooted", former, 200), ("full-disk", present, 300)] {
        redis.renew_lease(edge).await.unwrap();
        let admitted = redis.admit(edge, &row(&metered, tokens).await, &[], BUDGET, None).await.unwrap();
        assert!(matches!(admitted.verdict, AdmissionVerdict::Admitted(_)), "{admitted:?}");
        if edge == "full-disk" {
            redis.note_gaps(edge).await.unwrap();
        }
        journals.push(leave_journal(&metered, edge, &database, boot, &[]));
    }
    eventually(BACKGROUND, "the journals are taken over", async || journals.iter().all(|path| !path.exists())).await;
    assert_eq!(open_in_redis(&metered, " killed ").await, Some(0), "its reservation is given back");
    metered.rows_become(2, "estimated AND completion_tokens IN (200, 300)").await;
    eventually(BACKGROUND, "nothing is open", async || open_in_redis(&metered, "").await == Some(0)).await;
    assert_eq!(metered.rows("true").await, 3);
    metered.assert_sums().await;
}

#[tokio::test]
async fn what_was_settled_before_a_journal_came_back_is_withdrawn_if_no_provider_was_asked() {
    let (metered, received) = Metered::after_one(without_limits).await;
    let redis = Redis::connect(&format!("redis://127.0.0.1:{}", metered.world.redis_port)).unwrap();
    let database = metered.world.sql_text("SELECT name FROM database_name").await;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let (count, rows) = (completions(1), i64::try_from(completions(1)).unwrap());
    for (edge, tokens) in [("killed", 100), ("full-disk", 200)] {
        redis.renew_lease(edge).await.unwrap();
        let row = row(&metered, tokens).await;
        for _ in 0..count {
            let row = UsageRow { id: CompletionId::new(row.at), ..row.clone() };
            let admitted = redis.admit(edge, &row, &[], BUDGET, None).await.unwrap();
            assert!(matches!(admitted.verdict, AdmissionVerdict::Admitted(_)), "{admitted:?}");
        }
    }
    // One of them has asked the provider, and could not write so down.
    redis.note_gaps("full-disk").await.unwrap();
    let url = format!("{}/v1/chat/completions", metered.provider.url);
    let asked = Asker { url, ..metered.asker(0) }.serve((0..count).map(numbered)).await;
    assert_eq!(asked.len() as u64, count);
    metered.rows_become(2 * rows, "estimated AND completion_tokens IN (100, 200)").await;
    let journals = ["killed", "full-disk"].map(|edge| leave_journal(&metered, edge, &database, boot.trim(), &[]));
    eventually(BACKGROUND, "the journals are taken over", async || journals.iter().all(|path| !path.exists())).await;
    metered.rows_become(rows, "certainty = 3 AND completion_tokens = 0").await;
    metered.rows_become(rows, "certainty = 0 AND completion_tokens = 200").await;
    let requests = "SELECT sum(requests)::bigint FROM ai_usage_days";
    assert_eq!(metered.world.sql_number(requests).await, 1 + rows);
    let figures = metered.assert_ledger(&received, 0).await;
    assert_eq!(figures.estimated as u64, count);
}

/// The segments of the second completion were put aside before the edge died.
#[tokio::test]
async fn what_an_edge_saw_when_it_had_slept_stays_though_its_journal_has_no_record_of_it() {
    let metered = after_one(|builder| builder).await;
    let redis = Redis::connect(&format!("redis://127.0.0.1:{}", metered.world.redis_port)).unwrap();
    let (unasked, asked) = (row(&metered, 100).await, row(&metered, 200).await);
    redis.note_settled("slept", &[&unasked, &asked]).await.unwrap();
    let pool = PgPool::connect(metered.world.database.as_str()).await.unwrap();
    let seen = UsageRow { completion: 7, certainty: UsageCertainty::Seen, ..asked.clone() };
    for rows in [vec![unasked, asked], vec![seen]] {
        assert_eq!(ai_usage::record(&pool, &rows).await.unwrap().len(), 1);
    }
    let database = metered.world.sql_text("SELECT name FROM database_name").await;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let journal = leave_journal(&metered, "slept", &database, boot.trim(), &[]);
    eventually(BACKGROUND, "the journal is taken over", async || !journal.exists()).await;
    metered.rows_become(1, "certainty = 3 AND completion_tokens = 0").await;
    assert_eq!(metered.rows("certainty = 1 AND completion_tokens = 7").await, 1);
    metered.assert_sums().await;
}

/// The segment that had the end of the first completion was put aside before the edge died.
#[tokio::test]
async fn what_postgres_knows_to_have_used_nothing_is_not_charged_though_a_journal_has_its_beginning_alone() {
    let metered = after_one(|builder| builder).await;
    let (released, under_way) = (row(&metered, 100).await, row(&metered, 200).await);
    let pool = PgPool::connect(metered.world.database.as_str()).await.unwrap();
    let mut unasked = row(&metered, 300).await;
    unasked.set_unused();
    let failed = UsageRow { id: released.id.clone(), certainty: UsageCertainty::Failed, ..unasked.clone() };
    // What no provider was asked for is in no journal.
    assert_eq!(ai_usage::record(&pool, &[unasked, failed]).await.unwrap().len(), 1);
    assert_eq!(metered.world.sql_number("SELECT sum(requests)::bigint FROM ai_usage_days").await, 1);
    let database = metered.world.sql_text("SELECT name FROM database_name").await;
    let open = [json!({ "open": released }), json!({ "open": under_way })];
    leave_journal(&metered, "killed", &database, "any", &open);
    metered.rows_become(1, "certainty = 0 AND completion_tokens = 200").await;
    assert_eq!(metered.rows("certainty = 3 AND prompt_tokens + completion_tokens = 0").await, 1);
    assert_eq!(metered.rows("true").await, 3);
    assert_eq!(metered.world.sql_number("SELECT sum(requests)::bigint FROM ai_usage_days").await, 2);
    metered.assert_sums().await;
}

/// More than an edge answers for at a time.
const MANY: usize = 120_000;

#[tokio::test]
async fn an_edge_admits_while_it_settles_more_of_a_dead_one_than_it_may_answer_for() {
    let port = ports::free();
    let metered = after_one(|builder| builder.set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{port}"))).await;
    // Nothing of it can be settled for now.
    let mut holder = PgConnection::connect(metered.world.database.as_str()).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE ai_usage_days IN EXCLUSIVE MODE").execute(&mut holder).await.unwrap();
    let (database, first) = (metered.world.sql_text("SELECT name FROM database_name").await, row(&metered, 7).await);
    let ended = |_| json!({ "ended": UsageRow { id: CompletionId::new(first.at), ..first.clone() } });
    let journal = leave_journal(&metered, "dead", &database, "any", &(0..MANY).map(ended).collect::<Vec<_>>());
    // A debug build reads them for a while.
    eventually(3 * BACKGROUND, "as much is entered as there is room for", async || {
        let is_begun = metered.world.edge().process.log().contains("settling completions of an edge that died");
        is_begun && Page::of(port).await.sum("svc_gateway_journal_backlog") >= 50_000.0
    })
    .await;
    for number in 0..10 {
        let wanted = Completion { takes: Duration::from_millis(200), ..Completion::of(number, 1) };
        metered.ask(&wanted).await.assert_status(200);
    }
    assert!(journal.exists(), "not all of it is entered");
    holder.close().await.unwrap();
    metered.rows_become(i64::try_from(MANY).unwrap(), "completion_tokens = 7").await;
    eventually(BACKGROUND, "it is settled", async || !journal.exists()).await;
    metered.rows_become(i64::try_from(MANY).unwrap() + 11, "true").await;
    metered.assert_sums().await;
}

#[tokio::test]
async fn a_journal_that_two_edges_race_for_is_counted_once_although_one_of_them_is_killed() {
    let (mut metered, mut received) = Metered::after_one(|builder| without_limits(builder).edges(3)).await;
    let count = completions(4);
    let under_way = metered.hold(0, (0..count).map(|number| numbered(number).at_most(300).held())).await;
    // Nothing of it can be settled for now.
    let mut holder = PgConnection::connect(metered.world.database.as_str()).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE ai_usage_days IN EXCLUSIVE MODE").execute(&mut holder).await.unwrap();
    received.extend(metered.serve_all(0, (count..2 * count).map(numbered)).await);
    let journal = {
        let own = |path: &PathBuf| std::fs::read_to_string(path).unwrap().contains("\"open\"");
        files_in(&spool(&metered)).into_iter().find(own).unwrap()
    };
    metered.world.edges[0].process.kill();
    assert!(under_way.end().await.is_empty());
    eventually(BACKGROUND, "one of them has it", async || !journal.exists()).await;
    metered.world.edges[1].process.kill();
    eventually(BACKGROUND, "the other has all", async || files(&spool(&metered)) == 1).await;
    holder.close().await.unwrap();
    let figures = metered.assert_ledger(&received, 0).await;
    assert_eq!(figures.estimated as u64, count, "{figures}");
}
