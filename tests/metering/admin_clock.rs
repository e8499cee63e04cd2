//! Admin's clock is hours ahead of the others', or behind: it settles what a lost edge left, once, and nothing of one that lives.

use super::{
    served::{completions, numbered, without_limits},
    wrong_clocks::assert_charged_to_today,
    *,
};

/// Has an admin whose clock is so far ahead settle for one of two edges, whose machine is lost.
async fn settle(ahead: i64) {
    // No other edge finds the journal.
    let lost = tempfile::tempdir().unwrap();
    let configure = |builder| without_limits(builder).edges(2).set_at_edge(0, "EDGE__SPOOL", lost.path().display());
    let (mut metered, mut received) = Metered::after_one(|builder| configure(builder).admin_ahead(ahead)).await;
    let (count, rows) = (completions(2), i64::try_from(completions(2)).unwrap());
    let batch = |number: u64| (number * count..(number + 1) * count).map(|number| numbered(number).at_most(300));
    let mut under_way = Vec::new();
    for edge in [0, 1] {
        under_way.push(metered.hold(edge, batch(edge as u64).map(Completion::held)).await);
    }
    // Some have ended, and Postgres does not have them.
    metered.world.stop_postgres().await;
    received.extend(metered.serve_all(0, batch(2)).await);
    let told = async || open_in_redis(&metered, "\"estimated\":false").await;
    eventually(BACKGROUND, "Redis is told", async || told().await == Some(rows)).await;
    metered.world.edges[0].process.kill();
    metered.world.start_postgres().await;

    metered.rows_become(rows, "estimated AND completion_tokens = 300").await;
    metered.rows_become(1 + 2 * rows, "true").await;
    metered.provider.release();
    for under_way in under_way {
        received.extend(under_way.end().await);
    }
    assert_eq!(received.len(), 1 + 2 * count);
    let figures = metered.assert_ledger(&received, 0).await;
    assert_eq!(figures.estimated as u64, count, "{figures}");
    assert_charged_to_today(&metered).await;
}

#[tokio::test]
async fn an_admin_whose_clock_is_two_hours_ahead_settles_once() {
    settle(7_200).await;
}

#[tokio::test]
async fn an_admin_whose_clock_is_more_than_a_day_ahead_settles_once() {
    settle(108_000).await;
}

#[tokio::test]
async fn an_admin_whose_clock_is_more_than_a_day_behind_settles_once() {
    settle(-108_000).await;
}
