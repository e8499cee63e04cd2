//! What edges may do in Redis: the rules of a user of their own (`ACL SETUSER`, Redis 7).
//!
//! An edge hears changes and cannot announce any. It reaches the keys of the AI gateway, the guesses at sites' passwords and what edges report of themselves, reads
//! whose Redis it is, and no other keys: not the counters of rate limits, nor the stream of events. Scripts run with these rules, too.
//! A test runs edges as this user.

use sha2::{Digest as _, Sha256};

use super::{
    answers::ANSWERS_CHANNEL,
    bus::{ACKS_CHANNEL, CHANGES_CHANNEL, TOP_CHANNEL},
    name,
    reports::Program,
    traffic::TRAFFIC_CHANNEL,
};

/// The keys that edges write and read, and those that they only read.
const WRITTEN: [&str; 3] = ["svc:ai:*", "svc:gate:*", Program::Edge.key()];
const READ: [&str; 2] = [name::NAME, "svc:ping*"];

/// The commands that edges use, in scripts as well. SCAN, for what a dead edge left open, tells the names of all keys.
const COMMANDS: &str = "+ping +hello +auth +select +info +time \
     +cluster|slots +cluster|shards +cluster|nodes +cluster|myid +asking +readonly +readwrite +subscribe +unsubscribe +eval +evalsha \
     +script|load +exists +get +set +psetex +del +pexpire +pttl +pfadd +scard +sismember +sadd +srem +smembers +hget +hgetall +hmget +hset +hsetnx +hdel +hexists +hincrby \
     +hvals +scan +lindex +llen +lpop +lpush +lrange +lrem +lset +rpop";

/// Returns what follows `ACL SETUSER`, or `user` in Redis's configuration, for edges that log in as `user` with `password`. Of the
/// password it has a hash.
pub fn edge_user(user: &str, password: &str) -> String {
    let password = hex::encode(Sha256::digest(password));
    let written = WRITTEN.map(|keys| format!("~{keys}")).join(" ");
    let read = READ.map(|keys| format!("%R~{keys}")).join(" ");
    // Publishing stands apart: the rules of channels do not tell who hears from who speaks.
    format!(
        "{user} reset on #{password} {written} {read} &{CHANGES_CHANNEL} &{TOP_CHANNEL} &{TRAFFIC_CHANNEL} \
         &{ANSWERS_CHANNEL}:* {COMMANDS} \
         (+publish resetchannels &{ACKS_CHANNEL} &{TOP_CHANNEL}:* &{TRAFFIC_CHANNEL}:* &{ANSWERS_CHANNEL}:*)"
    )
}
