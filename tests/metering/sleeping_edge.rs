//! An edge that is stopped for longer than its lease, so that others settle for it, and goes on as if nothing had been.

use super::*;

/// The requests and tokens that the account is charged with.
async fn charged(metered: &Metered) -> (i64, i64) {
    let sum = async |of: &str| {
        metered.world.sql_number(&format!("SELECT coalesce(sum({of}), 0)::bigint FROM ai_usage_days")).await
    };
    (sum("requests").await, sum("prompt_tokens + completion_tokens").await)
}

#[tokio::test]
async fn what_was_settled_for_an_edge_that_slept_gives_way_to_what_it_knows() {
    // What is reserved is asked for often.
    let metered = Metered::start_with(|builder| builder.set("LIMITS__GATEWAY_PER_MIN", 100_000)).await;
    metered.ask(&Completion::of(1, 1)).await.assert_status(200);
    metered.rows_become(1, "NOT estimated").await;
    let wanted = [
        Completion::of(10, 20).at_most(300).held(),
        Completion::of(11, 21).at_most(300).held().streamed(),
        Completion::of(12, 22).at_most(300).held().failing(),
    ];
    let mut under_way = Vec::new();
    for wanted in &wanted {
        let (asked, asker, wanted) = (metered.provider.asked().len(), metered.asker(0), wanted.clone());
        under_way.push(tokio::spawn(async move { asker.is_served(&wanted).await }));
        eventually(BACKGROUND, "the provider is asked", async || metered.provider.asked().len() > asked).await;
    }
    metered.world.edge().process.signal("STOP");
    metered.rows_become(3, "estimated AND completion_tokens = 300").await;
    metered.provider.release();
    metered.world.edge().process.signal("CONT");
    let served = futures_util::future::join_all(under_way).await.into_iter().map(Result::unwrap);
    assert_eq!(served.collect::<Vec<_>>(), [true, true, false]);
    eventually(BACKGROUND, "what the provider has served is charged, and nothing else", async || {
        charged(&metered).await == (3, 2 + 30 + 32)
    })
    .await;
    metered.rows_become(0, "estimated").await;
    metered.assert_sums().await;
    // Redis goes by it, too.
    eventually(BACKGROUND, "nothing is reserved", async || {
        let wanted = Completion::of(0, 0).at_most(1);
        let answer = metered.ask(&wanted).await.assert_status(200);
        let left: u64 = answer.header("x-ratelimit-remaining-tokens").parse().unwrap();
        left == 1_000_000 - 64 - wanted.reserves()
    })
    .await;
}
