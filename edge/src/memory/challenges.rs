//! Answers to the challenges of certificate authorities, read for each that asks and never remembered.
//!
//! An answer has to be found at every edge as soon as it is committed, though Redis is away and nobody is told of it;
//! and its absence is what strangers ask for, under names that they make up. So there is one indexed read for each
//! question, and a bound on how many of them there are.

use db::certificates::challenges::{self, ChallengeKind};
use domain::Clock;
use fairness::{Bounds, Client, Turns};
use sqlx::PgPool;
use tokio::time::timeout;

use super::RecallError;
use crate::limits;

/// The answers to challenges, as the database has them.
pub struct Challenges {
    db: PgPool,
    clock: Clock,
    reads: Turns<Client>,
}

impl Challenges {
    /// The answers in `db`, which must be no copy: those lag behind.
    pub fn new(db: PgPool, clock: Clock) -> Self {
        let reads = Turns::new(Bounds {
            total: limits::CHALLENGE_READS,
            share: limits::CHALLENGE_READS_PER_CLIENT,
            waiting: limits::FLIGHTS,
            waiting_share: limits::ASKERS_PER_CLIENT,
        });
        Self { db, clock, reads }
    }

    /// Returns what `asker` is answered over HTTP at `host` for `token`, if that is a challenge.
    pub async fn over_http(&self, host: &str, token: &str, asker: Client) -> Result<Option<String>, RecallError> {
        let now = self.clock.now();
        self.read(asker, challenges::answer(&self.db, ChallengeKind::Http01, host, token, now)).await
    }

    /// Returns the key authorization that the certificate for `name` has to prove to `asker`, if that is a challenge.
    pub async fn over_tls(&self, name: &str, asker: Client) -> Result<Option<String>, RecallError> {
        let now = self.clock.now();
        self.read(asker, challenges::newest(&self.db, ChallengeKind::TlsAlpn01, name, now)).await
    }

    /// Runs `read` when it is the asker's turn.
    async fn read(
        &self,
        asker: Client,
        read: impl Future<Output = Result<Option<String>, sqlx::Error>>,
    ) -> Result<Option<String>, RecallError> {
        let in_turn = async {
            let _turn = self.reads.take(&asker, limits::CHALLENGE_WAIT).await.map_err(|_| RecallError::Busy)?;
            read.await.map_err(|error| RecallError::database("challenges", &error))
        };
        timeout(limits::CHALLENGE_WAIT, in_turn)
            .await
            .unwrap_or_else(|_| Err(RecallError::Unreadable("timed out".into())))
    }
}
