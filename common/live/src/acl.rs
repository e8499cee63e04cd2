//! The rights of edges in Redis: the rules of a separate user (`ACL SETUSER`, Redis 7).
//!
//! An edge receives changes and cannot announce any. It can access the keys of the AI gateway, of password guesses at
//! sites and of edge reports, and can read which database owns the Redis. It can access no other keys, neither the
//! counters of rate limits nor the stream of events. The rules apply to scripts, too. A test runs edges as this user.

use sha2::{Digest as _, Sha256};

use super::{
    answers::ANSWERS_CHANNEL,
    bus::{ACKS_CHANNEL, CHANGES_CHANNEL, TOP_CHANNEL},
    name,
    reports::ProgramKind,
    traffic::TRAFFIC_CHANNEL,
};

/// The keys that edges write and read, and those that they only read.
const WRITTEN: [&str; 3] = ["svc:ai:*", "svc:gate:*", ProgramKind::Edge.key()];
const READ: [&str; 2] = [name::NAME, "svc:ping*"];

/// The commands that edges use, also in scripts. SCAN, which finds what a dead edge left open, reveals all key names.
const COMMANDS: &str = "+ping +hello +auth +select +info +time \
     +cluster|slots +cluster|shards +cluster|nodes +cluster|myid +asking +readonly +readwrite +subscribe +unsubscribe +eval +evalsha \
     +script|load +exists +get +set +psetex +del +pexpire +pttl +pfadd +scard +sismember +sadd +srem +smembers +hget +hgetall +hmget +hset +hsetnx +hdel +hexists +hincrby \
     +hvals +scan +lindex +llen +lpop +lpush +lrange +lrem +lset +rpop";

/// Returns the arguments of `ACL SETUSER`, or of `user` in Redis's configuration, for edges that log in as `user` with
/// `password`. They contain only a hash of the password.
pub fn edge_user(user: &str, password: &str) -> String {
    let password = hex::encode(Sha256::digest(password));
    let written = WRITTEN.map(|keys| format!("~{keys}")).join(" ");
    let read = READ.map(|keys| format!("%R~{keys}")).join(" ");
    // A selector of its own, because channel rules do not distinguish subscribing from publishing.
    format!(
        "{user} reset on #{password} {written} {read} &{CHANGES_CHANNEL} &{TOP_CHANNEL} &{TRAFFIC_CHANNEL} \
         &{ANSWERS_CHANNEL}:* {COMMANDS} \
         (+publish resetchannels &{ACKS_CHANNEL} &{TOP_CHANNEL}:* &{TRAFFIC_CHANNEL}:* &{ANSWERS_CHANNEL}:*)"
    )
}
