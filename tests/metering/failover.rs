//! A copy of Postgres that follows it with a delay, as most do, takes its place.

use super::{
    served::{Received, completions, numbered, without_limits},
    *,
};

/// The number of completions that each of the two edges has served when the copy takes over: what the copy has, and what it
/// has never heard of.
const KNOWN: u64 = 3;
const LOST: u64 = 12;

/// The tokens of the day that Redis goes by, reservations included.
async fn tokens_in_redis(metered: &Metered) -> Option<i64> {
    let script = "local tokens = 0
                  for _, key in ipairs(redis.call('KEYS', 'svc:ai:*:spent')) do
                    tokens = tokens + redis.call('HGET', key, 'dt') + redis.call('HGET', key, 'dh')
                  end
                  return tokens";
    metered.world.redis_number("EVAL", &[script, "0"]).await
}

/// Waits until Redis goes by the same tokens as Postgres.
async fn budget_is_right(metered: &Metered) {
    eventually(BACKGROUND, "the budget is right", async || {
        let used = "SELECT coalesce(sum(prompt_tokens + completion_tokens), 0)::bigint FROM ai_usage";
        let used = metered.world.sql_number(used).await;
        tokens_in_redis(metered).await == Some(used) && open_in_redis(metered, "").await == Some(0)
    })
    .await;
}

/// Has both edges serve completions, one after another, so that each is a write to Postgres of its own.
async fn serve(metered: &Metered, received: &mut Received, from: u64, count: u64) {
    for number in from..from + count {
        for edge in [0, 1] {
            let wanted = Completion { stream: number % 2 == 0, ..Completion::of(2 * number + edge, number) };
            let edge = usize::try_from(edge).unwrap();
            metered.ask_at(edge, &metered.key, &wanted).await.assert_status(200);
            received.add(&wanted);
        }
        metered.rows_become(2, &format!("prompt_tokens / 2 = {number}")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn usage_that_a_promoted_copy_lacks_is_written_again() {
    let mut metered = Metered::start_with(|builder| without_limits(builder).edges(2).own_postgres()).await;
    let mut received = Received::default();
    serve(&metered, &mut received, 1, KNOWN).await;
    let known = i64::try_from(2 * KNOWN).unwrap();
    let rows = "SELECT count(*) FROM ai_usage";
    eventually(BACKGROUND, "the copy has it", async || metered.world.copy_number(rows).await == known).await;
    metered.world.cut_copy_off();
    serve(&metered, &mut received, 1 + KNOWN, LOST).await;
    for edge in [0, 1] {
        let numbers = (0..completions(4)).filter(|number| number / 2 % 2 == edge);
        received.extend(metered.serve_all(usize::try_from(edge).unwrap(), numbers.map(numbered)).await);
    }
    budget_is_right(&metered).await;
    // One edge is away when the copy takes over: the other one finds what it has kept.
    assert!(metered.world.edges[1].process.stop().success());
    assert_eq!(files(&spool(&metered)), 1);

    metered.world.fail_over().await;
    assert_eq!(received.len(), 2 * (KNOWN + LOST) + completions(4));
    metered.assert_ledger(&received, 0).await;
    budget_is_right(&metered).await;

    // Nor is anything lost or counted twice from then on, in Postgres or in Redis.
    received.extend(metered.serve_all(0, [Completion::of(900, 7)]).await);
    metered.assert_ledger(&received, 0).await;
    budget_is_right(&metered).await;
}
