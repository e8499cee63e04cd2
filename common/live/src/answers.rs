//! Responses that edges keep for clients that reconnect: which edge keeps which, and the channels between edges.
//!
//! Redis has only the claims, which expire, and no responses. The sender seals messages between edges.

use std::{sync::LazyLock, time::Duration};

use redis::{AsyncCommands as _, RedisError, Script};

use super::{Redis, leases::as_millis};

/// The prefix of the names of the edges' channels.
pub const ANSWERS_CHANNEL: &str = "svc:ai:answers";

/// Sets a claim unless a claim other than these two exists, which is then returned.
static CLAIM: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local held = redis.call('GET', KEYS[1])
         if held and held ~= ARGV[1] and held ~= ARGV[2] then return held end
         redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
         return false",
    )
});

/// Removes a claim if it is the given one.
static RELEASE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
         return redis.call('DEL', KEYS[1])",
    )
});

/// Returns the channel on which an edge receives requests and replies.
pub fn answers_channel(edge: &str) -> String {
    format!("{ANSWERS_CHANNEL}:{edge}")
}

impl Redis {
    /// Claims the response `name` for `time`, and extends the claim if it is already held. The claim may also replace
    /// `former`. Returns the conflicting claim, if there is one.
    pub async fn claim_answer(
        &self,
        name: &str,
        claim: &str,
        former: Option<&str>,
        time: Duration,
    ) -> Result<Option<String>, RedisError> {
        let mut script = CLAIM.key(key(name));
        let script = script.arg(claim).arg(former.unwrap_or(claim)).arg(as_millis(time));
        script.invoke_async(&mut self.commands()).await
    }

    /// Releases a claim.
    pub async fn release_answer(&self, name: &str, claim: &str) -> Result<(), RedisError> {
        RELEASE.key(key(name)).arg(claim).invoke_async(&mut self.commands()).await
    }

    /// Returns the claim of the response `name`.
    pub async fn answer_claim(&self, name: &str) -> Result<Option<String>, RedisError> {
        self.commands().get(key(name)).await
    }

    /// Sends a message to an edge, if it listens.
    pub async fn tell_edge(&self, edge: &str, message: &[u8]) -> Result<(), RedisError> {
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(answers_channel(edge)).arg(message).query_async::<i64>(&mut self.commands()).await.map(drop)
    }
}

fn key(name: &str) -> String {
    format!("svc:ai:answer:{name}")
}
