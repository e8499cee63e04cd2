//! Client addresses in what Redis keeps, and writes to files: there are none, though clients are counted by them.

use serde_json::json;

use crate::world::World;

/// Counts the keys of counters that hold a text.
const KEYS_WITH: &str = "local found = 0
    for _, key in ipairs(redis.call('KEYS', 'svc:count:*')) do
      if string.find(key, ARGV[1], 1, true) then found = found + 1 end
    end
    return found";

#[tokio::test]
async fn clients_are_counted_without_their_addresses() {
    let world = World::start().await;
    let start = || world.nobody().post("/auth/device").json(&json!({}));
    let first = start().await;
    let second = start().await;
    let remaining =
        |answer: &crate::world::answer::Answer| answer.header("x-ratelimit-remaining").parse::<u32>().unwrap();
    assert_eq!(remaining(&second) + 1, remaining(&first), "one client is counted as one");
    assert!(world.redis_number("EVAL", &[KEYS_WITH, "0", "auth-device"]).await > Some(0));
    for address in ["127.0.0.1", "::1", "0:0:0"] {
        assert_eq!(world.redis_number("EVAL", &[KEYS_WITH, "0", address]).await, Some(0), "{address}");
    }
}
