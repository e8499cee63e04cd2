//! What an authority wants to see: put up where it will look, and taken down again, also after a kill.

use std::time::Duration;

use certs::{
    acme::{Authorization, Offered},
    dns01::{self, DnsError},
};
use db::certificates::{
    challenges::{self, Challenge, ChallengeKind, KeptAnswer},
    orders::OrderClaim,
};

use super::outcome::Stop;
use crate::app::App;

/// Life of an answer that nobody is left to take down: longer than an authority looks for it.
const ANSWERS_KEPT: Duration = Duration::from_hours(1);
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
    }
    Ok(())
}

/// Takes down every answer for the name of a row. What cannot be taken down is tried again by a job.
pub(super) async fn take_down(app: &App, claim: &OrderClaim) -> Result<(), Stop> {
    let host = claim.name.trim_start_matches("*.");
    let mut names = vec![host.to_owned(), format!("_acme-challenge.{host}")];
    let delegation = claim.domain.as_ref().and_then(|domain| dns01::delegation(&app.certificates.config().dns, domain));
    names.extend(delegation);
    for kept in challenges::of_names(&app.db, &names, ANSWERS).await? {
        if let Err(error) = withdraw(app, &kept).await {
            tracing::warn!(name = claim.name, error = format!("{error:#}"), "an answer to a challenge still stands");
        }
    }
    Ok(())
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
