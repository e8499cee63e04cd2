//! Who pays: a bound holds however many tokens, organizations, projects or addresses are made to get around it, and what one person uses
//! up is in nobody else's way.

mod invitations;
mod names;
mod platform_names;
mod requests;
mod rows;
mod sign_in;
mod texts;

use crate::world::World;

/// Sets every counter of a rate that counts somebody, as if they had come this far.
pub async fn count_on(world: &World, bucket: &str, events: u64) {
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", world.redis_port)).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let keys: Vec<String> =
        redis::cmd("KEYS").arg(format!("svc:count:{bucket}:*")).query_async(&mut connection).await.unwrap();
    assert!(!keys.is_empty(), "nobody was counted by {bucket}");
    for key in keys {
        let () = redis::cmd("SET").arg(key).arg(events).arg("KEEPTTL").query_async(&mut connection).await.unwrap();
    }
}

/// What a rate has counted of each whom it counts.
pub async fn counted(world: &World, bucket: &str) -> Vec<u64> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", world.redis_port)).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut keys: Vec<String> =
        redis::cmd("KEYS").arg(format!("svc:count:{bucket}:*")).query_async(&mut connection).await.unwrap();
    keys.sort();
    let mut counts = Vec::new();
    for key in keys {
        counts.push(redis::cmd("GET").arg(key).query_async(&mut connection).await.unwrap());
    }
    counts
}
