//! An edge that dies while Redis is away: another one takes its journal over, and Redis hears of it when it is back.

use sqlx::{Connection as _, PgConnection};

use super::{
    journals::KILLED_TOGETHER,
    relay::Relay,
    served::{UNLIMITED_TOKENS, completions, numbered, without_limits},
    silent_redis::redis,
    *,
};

/// How Redis comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Return {
    /// Redis comes back with all that it knew.
    Whole,
    /// Redis comes back with all that it knew, and admin settles what the dead edge left before the other edge hears of it.
    Settled,
    /// Redis comes back empty.
    Empty,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_that_is_taken_over_while_redis_is_away_is_settled_in_the_redis_that_comes_back() {
    take_over_while_redis_is_away(Return::Whole).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_that_is_taken_over_while_redis_is_away_is_settled_in_an_empty_one() {
    take_over_while_redis_is_away(Return::Empty).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_admin_settles_of_a_journal_that_was_taken_over_is_withdrawn_if_no_provider_was_asked() {
    take_over_while_redis_is_away(Return::Settled).await;
}

async fn take_over_while_redis_is_away(returns: Return) {
    let folder = tempfile::tempdir().unwrap();
    let ((first, _first), (second, _second)) = (redis(folder.path()), redis(folder.path()));
    let relay = Relay::start(first).await;
    let url = format!("redis://127.0.0.1:{}", relay.port);
    let (mut metered, mut received) =
        Metered::after_one(|builder| without_limits(builder).edges(2).set("REDIS__URL", url)).await;
    let connect = |port: u16| Redis::connect(&format!("redis://127.0.0.1:{port}")).unwrap();
    let before = connect(first);
    eventually(BACKGROUND, "nothing is open", async || open_at(&before).await.is_empty()).await;
    let journals = files_in(&spool(&metered));
    assert_eq!(journals.len(), 1, "the other edge has admitted nothing");

    // Some are under way, some have ended and are not in Postgres yet, and of some nothing but the reservation is known.
    let count = completions(3);
    let under_way = metered.hold(0, (0..count).map(|number| numbered(number).at_most(300).held())).await;
    let mut holder = PgConnection::connect(metered.world.database.as_str()).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE ai_usage_days IN EXCLUSIVE MODE").execute(&mut holder).await.unwrap();
    received.extend(metered.serve_all(0, (count..2 * count).map(numbered)).await);
    let (asker, asked) = (metered.asker(0), metered.provider.asked().len());
    only_open_are(2 * usize::try_from(count).unwrap(), &before).await;
    relay.swallow_answers();
    let reserved: Vec<_> = (2 * count..).map(numbered).take(KILLED_TOGETHER).collect();
    let reserving = tokio::spawn(async move { asker.serve(reserved).await });
    let open = 2 * usize::try_from(count).unwrap() + KILLED_TOGETHER;
    let asked_for = async || open_at(&before).await.iter().filter(|row| !row.is_spare()).count();
    eventually(BACKGROUND, "they are reserved", async || asked_for().await == open).await;
    relay.fall_silent();
    metered.world.edges[0].process.kill();
    assert!(reserving.await.unwrap().is_empty());
    metered.provider.release();
    assert!(under_way.end().await.is_empty());
    assert_eq!(metered.provider.asked().len(), asked);
    holder.close().await.unwrap();

    eventually(BACKGROUND, "the journal is taken over", async || !journals[0].exists()).await;
    let present = if returns == Return::Empty { second } else { first };
    if returns == Return::Settled {
        metered.world.edges[1].process.signal("STOP");
    }
    relay.lead_to(present);
    if returns == Return::Settled {
        let reserved = i64::try_from(KILLED_TOGETHER).unwrap();
        metered.rows_become(i64::try_from(count).unwrap() + reserved, "estimated AND certainty < 3").await;
        metered.world.edges[1].process.signal("CONT");
    }
    let figures = metered.assert_ledger(&received, 0).await;
    assert_eq!(figures.estimated as u64, count);
    // Redis goes by it, too.
    let present = connect(present);
    eventually(BACKGROUND, "nothing is open", async || open_at(&present).await.is_empty()).await;
    let used = "SELECT sum(prompt_tokens + completion_tokens)::bigint FROM ai_usage";
    let used = u64::try_from(metered.world.sql_number(used).await).unwrap();
    eventually(BACKGROUND, "nothing is reserved", async || {
        let wanted = Completion::of(0, 0).at_most(1);
        let answer = metered.ask_at(1, &metered.key, &wanted).await;
        // Nothing is admitted before every edge has told an empty Redis what it answers for.
        answer.status == 200
            && answer.header("x-ratelimit-remaining-tokens").parse() == Ok(UNLIMITED_TOKENS - used - wanted.reserves())
    })
    .await;
    metered.assert_sums().await;
    assert_eq!(metered.rows("prompt_tokens > 0").await, 1 + i64::try_from(2 * count).unwrap());
}
