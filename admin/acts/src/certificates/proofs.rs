//! Challenge responses: published where the authority validates them, and removed afterwards, also after a kill.

use std::time::Duration;

use app::App;
use certs::{
    acme::{Authorization, OfferedChallenge},
    dns01::DnsError,
};
use db::{
    certificates::{
        challenges::{self, AcmeChallenge, ChallengeKind, StoredResponse},
        orders::OrderClaim,
    },
    projects::claims,
};

use super::outcome::AttemptError;

/// The lifetime of a challenge response that nothing has removed: longer than an authority validates it.
const ANSWERS_KEPT: Duration = Duration::from_hours(1);
/// The longest wait until our resolvers see a record, and the pause between two checks.
const SEEN_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The longest wait for the removal of challenge responses: the certificate is live without it, and other orders wait
/// for the permit.
const TAKE_DOWN_WITHIN: Duration = Duration::from_secs(10);
/// The most challenge responses of one order: each of two names may have some from earlier attempts.
const ANSWERS: i64 = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NameProof {
    /// A response by the edge that the authority connects to.
    AtEdge(ChallengeKind),
    /// A TXT record with this name.
    Record(String),
}

impl NameProof {
    const fn kind(&self) -> ChallengeKind {
        match self {
            Self::AtEdge(kind) => *kind,
            Self::Record(_) => ChallengeKind::Dns01,
        }
    }
}

/// Returns the first of `proofs` for which the authorization offers a challenge.
pub(super) fn choose<'a>(
    authorization: &'a Authorization,
    proofs: &'a [NameProof],
) -> Option<(&'a NameProof, &'a OfferedChallenge)> {
    let offered = |proof: &NameProof| authorization.challenges.iter().find(|offered| offered.kind == proof.kind());
    proofs.iter().find_map(|proof| Some((proof, offered(proof)?)))
}

/// Publishes a challenge response. It is stored first, so that it can be found and removed after a kill.
pub(super) async fn publish_response(
    app: &App,
    authorization: &Authorization,
    proof: &NameProof,
    offered: &OfferedChallenge,
) -> Result<(), AttemptError> {
    let (name, answer) = match proof {
        NameProof::AtEdge(_) => (&authorization.name, &offered.key_authorization),
        NameProof::Record(record) => (record, &offered.record_value),
    };
    let expires_at = app.clock.now() + ANSWERS_KEPT;
    let challenge = AcmeChallenge { kind: proof.kind(), name, token: &offered.token, answer, expires_at };
    challenges::put(&app.db, &challenge).await?;
    if let (NameProof::Record(record), Some(writer)) = (proof, app.certificates.writer()) {
        writer.add(record, answer).await.map_err(|error| AttemptError::NoRecord(error.to_string()))?;
        // Resolvers never look up names under localhost (RFC 6761, 6.3).
        if writer.is_copied_later() && !domain::hostname::is_within(record, "localhost") {
            wait_until_seen(app, record, answer).await;
        }
    }
    Ok(())
}

/// Waits until the resolvers see a record, because the authority may query any of the zone's name servers. After a
/// timeout the authority is notified nevertheless: our resolvers may see a different zone than the internet does.
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

/// Removes every challenge response for the name of a row. A job removes those that remain after a timeout.
pub(super) async fn remove_responses(app: &App, claim: &OrderClaim) -> Result<(), AttemptError> {
    let host = claim.name.trim_start_matches("*.");
    let mut names = vec![host.to_owned(), format!("_acme-challenge.{host}")];
    if let Some(domain) = &claim.domain
        && let Some(held) = claims::find_holder(&app.db, domain).await?
    {
        names.extend(app.certificates.delegation(&held.project, domain));
    }
    let standing = challenges::list_for_names(&app.db, &names, ANSWERS).await?;
    let taking_down = async {
        for kept in &standing {
            if let Err(error) = remove_response(app, kept).await {
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

#[derive(Debug, thiserror::Error)]
pub enum WithdrawError {
    #[error(transparent)]
    Record(#[from] DnsError),
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Removes a challenge response, its DNS record first, because the row is what remembers the record.
pub async fn remove_response(app: &App, kept: &StoredResponse) -> Result<(), WithdrawError> {
    if kept.kind == ChallengeKind::Dns01
        && let Some(writer) = app.certificates.writer()
    {
        writer.remove(&kept.name, &kept.answer).await?;
    }
    Ok(challenges::remove(&app.db, kept.kind, &kept.name, &kept.token).await?)
}
