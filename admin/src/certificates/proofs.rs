//! What an authority wants to see: put up where it will look, and taken down again, also after a kill.

use std::time::Duration;

use certs::{
    acme::{Authorization, Offered},
    dns01::DnsError,
};
use db::{
    certificates::{
        challenges::{self, Challenge, ChallengeKind, KeptAnswer},
        orders::OrderClaim,
    },
    projects::claims,
};

use super::outcome::Stop;
use crate::app::App;

/// Life of an answer that nobody is left to take down: longer than an authority looks for it.
const ANSWERS_KEPT: Duration = Duration::from_hours(1);
/// Longest wait for a record to be seen by our resolvers, and the pause between two looks.
const SEEN_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Longest wait for answers to be taken down: the certificate stands without it, and others wait for the turn.
const TAKE_DOWN_WITHIN: Duration = Duration::from_secs(10);
/// Most answers of one order: each of two names may have some from attempts before.
const ANSWERS: i64 = 100;

/// A way to prove that a name is ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Proof {
    /// Whichever edge the authority reaches answers.
    AtEdge(ChallengeKind),
    /// A TXT record of this name.
    Record(String),
}

impl Proof {
    const fn kind(&self) -> ChallengeKind {
        match self {
            Self::AtEdge(kind) => *kind,
            Self::Record(_) => ChallengeKind::Dns01,
        }
    }
}

/// Chooses the challenge of an authorization that fits the first of `proofs`.
pub(super) fn choose<'a>(authorization: &'a Authorization, proofs: &'a [Proof]) -> Option<(&'a Proof, &'a Offered)> {
    let offered = |proof: &Proof| authorization.challenges.iter().find(|offered| offered.kind == proof.kind());
    proofs.iter().find_map(|proof| Some((proof, offered(proof)?)))
}

/// Puts the answer to a challenge up. It is noted before it stands anywhere, so that it is found again.
pub(super) async fn put_up(
    app: &App,
    authorization: &Authorization,
    proof: &Proof,
    offered: &Offered,
) -> Result<(), Stop> {
    let (name, answer) = match proof {
        Proof::AtEdge(_) => (&authorization.name, &offered.key_authorization),
        Proof::Record(record) => (record, &offered.record_value),
    };
    let expires_at = app.clock.now() + ANSWERS_KEPT;
    let challenge = Challenge { kind: proof.kind(), name, token: &offered.token, answer, expires_at };
    challenges::put(&app.db, &challenge).await?;
    if let (Proof::Record(record), Some(writer)) = (proof, app.certificates.writer()) {
        writer.add(record, answer).await.map_err(|error| Stop::NoRecord(error.to_string()))?;
        // Resolvers ask nobody about names under localhost (RFC 6761, 6.3).
        if writer.is_copied_later() && !domain::hostname::is_within(record, "localhost") {
            wait_until_seen(app, record, answer).await;
        }
    }
    Ok(())
}

/// Waits until the resolvers see a record, because the authority may ask any of the zone's name servers. After some time it is
/// told all the same: our resolvers may be shown another zone than the world is.
async fn wait_until_seen(app: &App, record: &str, value: &str) {
    let looking = async {
        while !app.hostnames.texts(record).await.is_ok_and(|texts| texts.iter().any(|text| text == value)) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    if tokio::time::timeout(SEEN_WITHIN, looking).await.is_err() {
        tracing::info!(record, "no resolver sees a record that was written; the authority is told all the same");
    }
}

/// Takes down every answer for the name of a row. What still stands after some seconds is left to a job.
pub(super) async fn take_down(app: &App, claim: &OrderClaim) -> Result<(), Stop> {
    let host = claim.name.trim_start_matches("*.");
    let mut names = vec![host.to_owned(), format!("_acme-challenge.{host}")];
    if let Some(domain) = &claim.domain
        && let Some(held) = claims::holder(&app.db, domain).await?
    {
        names.extend(app.certificates.delegation(&held.project, domain));
    }
    let standing = challenges::of_names(&app.db, &names, ANSWERS).await?;
    let taking_down = async {
        for kept in &standing {
            if let Err(error) = withdraw(app, kept).await {
                tracing::warn!(
                    name = claim.name,
                    error = format!("{error:#}"),
                    "an answer to a challenge still stands"
                );
            }
        }
    };
    if tokio::time::timeout(TAKE_DOWN_WITHIN, taking_down).await.is_err() {
        tracing::info!(name = claim.name, "taking down answers to challenges takes long; a job goes on with it");
    }
    Ok(challenges::expire(&app.db, &names, app.clock.now()).await?)
}

/// The reason why an answer still stands.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WithdrawError {
    #[error(transparent)]
    Record(#[from] DnsError),
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Takes an answer down, its record first: the row is what remembers it.
pub(crate) async fn withdraw(app: &App, kept: &KeptAnswer) -> Result<(), WithdrawError> {
    if kept.kind == ChallengeKind::Dns01
        && let Some(writer) = app.certificates.writer()
    {
        writer.remove(&kept.name, &kept.answer).await?;
    }
    Ok(challenges::remove(&app.db, kept.kind, &kept.name, &kept.token).await?)
}
