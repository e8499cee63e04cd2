//! An edge that is stopped for longer than its lease, so that others settle for it, and goes on as if nothing had been.

use std::time::Instant;

use sqlx::{Connection as _, PgConnection};

use super::{
    locks::waiting,
    served::{UNLIMITED_TOKENS, completions, numbered, without_limits},
    *,
};
use crate::world::holds_within;

/// The time for which an edge is stopped at least; `SVC_TEST_STOPPED_SECONDS` makes it longer than others need to settle for it.
pub(super) fn stopped_for() -> Duration {
    Duration::from_secs(std::env::var("SVC_TEST_STOPPED_SECONDS").map_or(0, |text| text.parse().unwrap()))
}

/// Stops the edge; it goes on when it is long enough ago, and `others` have done what they do.
async fn sleep_until(metered: &Metered, others: impl AsyncFnOnce()) {
    let since = Instant::now();
    metered.world.edge().process.signal("STOP");
    others().await;
    eventually(stopped_for() + BACKGROUND, "it slept for long", async || since.elapsed() >= stopped_for()).await;
    metered.provider.release();
    metered.world.edge().process.signal("CONT");
}

#[tokio::test]
async fn what_was_settled_for_an_edge_that_slept_gives_way_to_what_it_knows() {
    // What an edge makes of a provider that is silent for longer is another matter.
    let configure = |builder| without_limits(builder).set("GATEWAY__IDLE_SECONDS", 600);
    let (metered, mut received) = Metered::after_one(configure).await;
    // Some are streamed, some are not, and some fail.
    let count = completions(1);
    let failing = (0..count).map(|number| numbered(number).at_most(300).held().failing());
    let serving = (count..3 * count).map(|number| numbered(number).at_most(300).held());
    let under_way = metered.hold(0, failing.chain(serving)).await;
    sleep_until(&metered, async || {
        metered.rows_become(i64::try_from(3 * count).unwrap(), "estimated AND completion_tokens = 300").await;
    })
    .await;
    let served = under_way.end().await;
    assert_eq!(served.len() as u64, 2 * count);
    received.extend(served);
    // What the provider has served is charged, and nothing else.
    let figures = metered.assert_ledger(&received, usize::try_from(count).unwrap()).await;
    assert_eq!(figures.estimated, 0);
    // Redis goes by it, too.
    eventually(BACKGROUND, "nothing is reserved", async || {
        let wanted = Completion::of(0, 0).at_most(1);
        let answer = metered.ask(&wanted).await.assert_status(200);
        let left: u64 = answer.header("x-ratelimit-remaining-tokens").parse().unwrap();
        left == UNLIMITED_TOKENS - received.tokens() - wanted.reserves()
    })
    .await;
}

#[tokio::test]
async fn an_edge_that_slept_while_it_recorded_usage_has_counted_it_once() {
    let (metered, mut received) = Metered::after_one(without_limits).await;
    let mut holder = PgConnection::connect(metered.world.database.as_str()).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE ai_usage_days IN EXCLUSIVE MODE").execute(&mut holder).await.unwrap();
    received.extend(metered.serve_all(0, (0..completions(3)).map(numbered)).await);
    eventually(BACKGROUND, "usage is being recorded", async || waiting(&metered.world).await > 0).await;
    sleep_until(&metered, async || {
        holder.close().await.unwrap();
        let is_recorded = async || metered.rows("true").await > 1;
        assert!(holds_within(SEEN_WITHIN, is_recorded).await, "it was not recording");
        // Admin settles what the edge has not said to Redis, and finds it in Postgres.
        eventually(BACKGROUND, "it is settled", async || open_in_redis(&metered, "").await == Some(0)).await;
    })
    .await;
    received.extend(metered.serve_all(0, (1_000_000..1_000_003).map(numbered)).await);
    let figures = metered.assert_ledger(&received, 0).await;
    assert_eq!(figures.estimated, 0);
}
