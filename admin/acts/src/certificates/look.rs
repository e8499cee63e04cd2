//! Checks whether an order can succeed before an authority validates the name, because the authority counts failures.

use app::App;
use config::acme::ChallengeType;
use db::{
    certificates::{challenges::ChallengeKind, orders::OrderClaim},
    projects::claims,
};
use domain::{Hostname, certificates::DomainState};
use hostnames::{
    DnsLookup, HostnameVerdict,
    probe::way::{PathOutcome, VisitorDestination, find_destination, test_path},
};

use super::{outcome::AttemptError, proofs::NameProof};

#[derive(Debug, Default)]
pub(super) struct NameProofs {
    pub(super) ways: Vec<NameProof>,
    /// The reason why visitors do not reach the name here, as a sentence; `None` if they do.
    pub(super) obstacle: Option<String>,
}

/// Checks the DNS and the reachability of a name, and returns how it can be proved.
pub(super) async fn find_proofs(app: &App, claim: &OrderClaim) -> Result<NameProofs, AttemptError> {
    let Some(hostname) = &claim.domain else { return platform_proofs(app, claim) };
    let account = app.certificates.account_url(&app.db, claim.failures).await?;
    let (look, delegated) = tokio::join!(query_dns(app, claim, hostname), delegated_record(app, hostname));
    let look = look.with_account(account);
    let obstacle = match (check_reachability(app, claim, hostname, &look).await, &delegated) {
        (Ok(()), _) => None,
        // A delegation proves the name wherever it leads, before the traffic is moved here.
        (Err(AttemptError::Waiting(obstacle) | AttemptError::Obstacle(obstacle)), Some(_)) => match look.caa_obstacle()
        {
            Some(sentence) => return Err(AttemptError::Obstacle(sentence)),
            None => Some(obstacle),
        },
        (Err(stop), _) => return Err(stop),
    };
    let is_led = obstacle.is_none();
    // A proxy terminates TLS itself.
    let is_direct = is_led && !look.is_proxied();
    let of_kind = |challenge: &ChallengeType| match challenge {
        ChallengeType::Http01 => is_led.then_some(NameProof::AtEdge(ChallengeKind::Http01)),
        ChallengeType::TlsAlpn01 => is_direct.then_some(NameProof::AtEdge(ChallengeKind::TlsAlpn01)),
        ChallengeType::Dns01 => delegated.clone().map(NameProof::Record),
    };
    let mut ways: Vec<NameProof> = app.certificates.config().challenges.iter().filter_map(of_kind).collect();
    if ways.is_empty() {
        let sentence = "The operator has allowed no challenge by which this name can be proved (acme.challenges).";
        return Err(AttemptError::Obstacle(sentence.to_owned()));
    }
    // A method that failed before may fail again, such as TLS behind somebody's proxy.
    let tries = usize::try_from(claim.failures).unwrap_or_default() % ways.len();
    ways.rotate_left(tries);
    Ok(NameProofs { ways, obstacle })
}

/// Returns the reason why visitors of a custom domain do not reach it here, as a sentence; `None` if they do, directly
/// or through a proxy.
pub(super) async fn find_obstacle(app: &App, hostname: &Hostname) -> Result<Option<String>, AttemptError> {
    let look = app.hostnames.lookup(hostname).await;
    let sentence = match look.destination() {
        HostnameVerdict::Leads => return Ok(None),
        HostnameVerdict::Waiting(sentence) | HostnameVerdict::Blocked(sentence) => sentence,
    };
    let gets_here = look.is_elsewhere()
        && find_destination(&app.db, &app.hostnames, &app.config, app.clock.now(), hostname).await?
            == VisitorDestination::Here;
    Ok((!gets_here).then_some(sentence))
}

async fn query_dns(app: &App, claim: &OrderClaim, hostname: &Hostname) -> DnsLookup {
    match app.certificates.caa_identities(claim.failures).await {
        Some(identities) => app.hostnames.lookup_with_identities(hostname, &identities).await,
        None => app.hostnames.lookup(hostname).await,
    }
}

async fn check_reachability(
    app: &App,
    claim: &OrderClaim,
    hostname: &Hostname,
    look: &DnsLookup,
) -> Result<(), AttemptError> {
    match look.verdict() {
        HostnameVerdict::Leads => {
            super::record_progress(app, claim, DomainState::Checking).await?;
            probe_challenge_path(app, hostname).await
        }
        HostnameVerdict::Waiting(sentence) => Err(AttemptError::Waiting(sentence)),
        // A proxy may forward the authority's request to us.
        HostnameVerdict::Blocked(sentence) if look.is_proxied() => match probe_challenge_path(app, hostname).await {
            Ok(()) => look.caa_obstacle().map_or(Ok(()), |sentence| Err(AttemptError::Obstacle(sentence))),
            Err(AttemptError::Waiting(_) | AttemptError::Obstacle(_)) => Err(AttemptError::Obstacle(sentence)),
            Err(stop) => Err(stop),
        },
        HostnameVerdict::Blocked(sentence) => Err(AttemptError::Obstacle(sentence)),
    }
}

async fn probe_challenge_path(app: &App, hostname: &Hostname) -> Result<(), AttemptError> {
    match test_path(&app.db, &app.hostnames, &app.config, app.clock.now(), hostname).await? {
        PathOutcome::Open => Ok(()),
        PathOutcome::Closed(sentence) => Err(AttemptError::Obstacle(sentence)),
        PathOutcome::Untried(sentence) => Err(AttemptError::Waiting(sentence)),
    }
}

/// Returns the name of the record that proves a hostname by delegation, if its owner has delegated.
async fn delegated_record(app: &App, hostname: &Hostname) -> Option<String> {
    let held = claims::find_holder(&app.db, hostname).await.ok()??;
    let to = app.certificates.delegation(&held.project, hostname)?;
    app.hostnames.is_delegated(hostname, &to).await.then_some(to)
}

/// Returns the proofs of the platform's own names: records in its own zone.
fn platform_proofs(app: &App, claim: &OrderClaim) -> Result<NameProofs, AttemptError> {
    if app.certificates.writer().is_none() {
        return Err(AttemptError::Obstacle(
            "Nothing writes DNS records: set acme.dns.rfc2136 or acme.dns.command.".to_owned(),
        ));
    }
    let record = format!("_acme-challenge.{}", claim.name.trim_start_matches("*."));
    Ok(NameProofs { ways: vec![NameProof::Record(record)], obstacle: None })
}
