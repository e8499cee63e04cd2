//! Redis loses single keys while completions are asked for without a break: somebody deletes them, or Redis evicts them because
//! its memory is full. An edge warns of the latter.

use std::collections::BTreeSet;

use super::{load::under_load, served::without_limits, *};

/// A key of each kind that completions go by.
const KINDS: [&str; 6] =
    ["svc:ai:*:spent", "svc:ai:*:open", "svc:ai:*:minute", "svc:ai:edge:*", "svc:ai:edges", "svc:ai:epoch"];

/// What Redis may keep beyond what it uses at first, in bytes.
const ROOM: i64 = 1 << 20;
/// The size of something of no importance, of which Redis cannot keep all.
const BALLAST: usize = 100_000;
/// How much of it comes at a time.
const BALLASTS: usize = 30;

/// Deletes the keys of a kind. Returns how many there were.
async fn delete(world: &World, kind: &str) -> i64 {
    let script = "local count = 0
                  for _, key in ipairs(redis.call('KEYS', ARGV[1])) do count = count + redis.call('DEL', key) end
                  return count";
    world.redis_number("EVAL", &[script, "0", kind]).await.unwrap()
}

/// A figure that Redis says of itself.
async fn info(world: &World, section: &str, figure: &str) -> i64 {
    let script = "return tonumber(string.match(redis.call('INFO', ARGV[1]), ARGV[2] .. ':(%d+)'))";
    world.redis_number("EVAL", &[script, "0", section, figure]).await.unwrap()
}

#[tokio::test]
async fn single_keys_vanish_from_redis_under_load() {
    let metered = Metered::start_with(without_limits).await;
    let mut vanished = BTreeSet::new();
    under_load(metered, async |world, load, times| {
        let kind = KINDS[times as usize % KINDS.len()];
        let is_deleted = async || load.is_done() || delete(world, kind).await > 0;
        eventually(BACKGROUND, "a key is deleted", is_deleted).await;
        vanished.insert(kind);
    })
    .await;
    assert_eq!(vanished.len(), KINDS.len(), "{vanished:?}");
}

#[tokio::test]
async fn redis_evicts_keys_under_load() {
    let mut metered = Metered::start_with(without_limits).await;
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", metered.world.redis_port)).unwrap();
    let mut redis = client.get_multiplexed_async_connection().await.unwrap();
    let memory = info(&metered.world, "memory", "used_memory").await + ROOM;
    for (setting, value) in [("maxmemory-policy", "allkeys-random".to_owned()), ("maxmemory", memory.to_string())] {
        redis::cmd("CONFIG").arg("SET").arg(setting).arg(value).exec_async(&mut redis).await.unwrap();
    }
    metered.world.edges[0].process.stop();
    metered.world.restart_edge(0).await;
    let is_said = async || metered.world.edge().process.log().contains("set maxmemory-policy to noeviction");
    eventually(BACKGROUND, "it warns of that", is_said).await;

    let mut ballasts = 0;
    let metered = under_load(metered, async |_, _, _| {
        for _ in 0..BALLASTS {
            // Redis may refuse it.
            let _ = redis::cmd("SET")
                .arg(format!("ballast:{ballasts}"))
                .arg("x".repeat(BALLAST))
                .exec_async(&mut redis)
                .await;
            ballasts += 1;
        }
    })
    .await;
    let evicted = info(&metered.world, "stats", "evicted_keys").await;
    assert!(evicted > ballasts, "only {evicted} keys were evicted, {ballasts} of no importance");
}
