//! Responses to the challenges of certificate authorities, read for each request and never cached.
//!
//! Every edge has to find a response as soon as it is committed, even without Redis. Strangers request missing ones,
//! under made-up names. So each request is one indexed read, and the number of concurrent reads is bounded.

use db::certificates::challenges::{self, ChallengeKind};
use domain::Clock;
use fairness::{Client, TurnBounds, TurnQueue};
use sqlx::PgPool;
use tokio::time::timeout;

use super::CacheReadError;

/// The challenge responses in the database.
pub struct ChallengeReader {
    db: PgPool,
    clock: Clock,
    reads: TurnQueue<Client>,
}

impl ChallengeReader {
    /// Creates a reader of the responses in `db`, which must not be a replica: those lag behind.
    pub fn new(db: PgPool, clock: Clock) -> Self {
        let reads = TurnQueue::new(TurnBounds {
            total: limits::CHALLENGE_READS,
            share: limits::CHALLENGE_READS_PER_CLIENT,
            waiting: limits::FLIGHTS,
            waiting_share: limits::ASKERS_PER_CLIENT,
        });
        Self { db, clock, reads }
    }

    /// Returns the response to the HTTP challenge `token` at `host`, if there is one.
    pub async fn over_http(&self, host: &str, token: &str, asker: Client) -> Result<Option<String>, CacheReadError> {
        let now = self.clock.now();
        self.read(asker, challenges::find_response(&self.db, ChallengeKind::Http01, host, token, now)).await
    }

    /// Returns the key authorization that the certificate for `name` has to prove to `asker`, if there is a challenge.
    pub async fn over_tls(&self, name: &str, asker: Client) -> Result<Option<String>, CacheReadError> {
        let now = self.clock.now();
        self.read(asker, challenges::find_newest_response(&self.db, ChallengeKind::TlsAlpn01, name, now)).await
    }

    async fn read(
        &self,
        asker: Client,
        read: impl Future<Output = Result<Option<String>, sqlx::Error>>,
    ) -> Result<Option<String>, CacheReadError> {
        let in_turn = async {
            let _turn = self.reads.take(&asker, limits::CHALLENGE_WAIT).await.map_err(|_| CacheReadError::Busy)?;
            read.await.map_err(|error| CacheReadError::from_database("challenges", &error))
        };
        timeout(limits::CHALLENGE_WAIT, in_turn)
            .await
            .unwrap_or_else(|_| Err(CacheReadError::Unreadable("timed out".into())))
    }
}
