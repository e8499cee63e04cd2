//! A fleet that nobody visits says little: to Postgres, and to Redis.

use futures_util::StreamExt as _;
use live::bus::ACKS_CHANNEL;
use tokio::time::timeout;

use crate::{
    BACKGROUND,
    world::{World, eventually, ports},
};

/// Heartbeats of edges over which what is said is counted, beside which everything else that is said has its interval. A slow machine makes
/// them slower alike.
const HEARTBEATS: usize = 144;
/// Between what is usual, some 500 and 400, and what it once was, 660 and 770.
const MOST_COMMANDS: u64 = 580;
const MOST_TRANSACTIONS: u64 = 580;

/// The commands that Redis has had.
async fn commands(client: &redis::Client) -> u64 {
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let stats: String = redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await.unwrap();
    let calls =
        stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls=")?.1.split(',').next());
    calls.map(|calls| calls.parse::<u64>().unwrap()).sum()
}

async fn transactions(world: &World) -> u64 {
    let all = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()";
    world.sql_number(all).await.try_into().unwrap()
}

#[tokio::test]
#[expect(clippy::print_stderr, reason = "the figures, with `--nocapture`")]
async fn three_edges_and_two_admins_say_little_while_nothing_happens() {
    let other = ports::free();
    let world = World::builder().edges(3).other_admin(other).start().await;
    let _other = world.start_admin_at(other);
    let of_other = world.nobody().at_admin(other);
    eventually(BACKGROUND, "the other admin answers", async || {
        of_other.get("/health").attempt().await.is_ok_and(|answer| answer.status == 200)
    })
    .await;
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", world.redis_port)).unwrap();
    let mut subscription = client.get_async_pubsub().await.unwrap();
    subscription.subscribe(ACKS_CHANNEL).await.unwrap();
    let mut heartbeats = subscription.into_on_message();
    let mut count = async |heard: usize| {
        for _ in 0..heard {
            timeout(BACKGROUND, heartbeats.next()).await.expect("a heartbeat").unwrap();
        }
        (commands(&client).await, transactions(&world).await)
    };
    // What a start brings is over by then.
    let (commands_before, transactions_before) = count(HEARTBEATS).await;
    let (commands, transactions) = count(HEARTBEATS).await;
    let per_100 = |said: u64| said * 100 / HEARTBEATS as u64;
    let (to_redis, to_postgres) = (per_100(commands - commands_before), per_100(transactions - transactions_before));
    eprintln!("for 100 heartbeats: {to_redis} commands, heartbeats among them, and {to_postgres} transactions");
    assert!(to_redis < MOST_COMMANDS, "{to_redis} commands for 100 heartbeats");
    assert!(to_postgres < MOST_TRANSACTIONS, "{to_postgres} transactions for 100 heartbeats");
}
