//! Checks whether an order can succeed before an authority validates the name, because the authority counts failures.

use config::acme::Challenge;
use db::{
    certificates::{challenges::ChallengeKind, orders::OrderClaim},
    projects::claims,
};
use domain::{Hostname, certificates::DomainState};

use super::{outcome::Stop, proofs::Proof};
use crate::{
    app::App,
    hostnames::{Look, Verdict},
    probe::way::{Reach, Way, reach, try_way},
};

#[derive(Debug, Default)]
pub(super) struct Proofs {
    pub(super) ways: Vec<Proof>,
    /// The reason why visitors do not reach the name here, as a sentence; `None` if they do.
    pub(super) obstacle: Option<String>,
}

/// Checks the DNS and the reachability of a name, and returns how it can be proved.
pub(super) async fn find_proofs(app: &App, claim: &OrderClaim) -> Result<Proofs, Stop> {
    let Some(hostname) = &claim.domain else { return of_the_platform(app, claim) };
    let account = app.certificates.account_url(&app.db, claim.failures).await?;
    let (look, delegated) = tokio::join!(look(app, claim, hostname), delegated(app, hostname));
    let look = look.with_account(account);
    let obstacle = match (find_way(app, claim, hostname, &look).await, &delegated) {
        (Ok(()), _) => None,
        // A delegation proves the name wherever it leads, before the traffic is moved here.
        (Err(Stop::Waiting(obstacle) | Stop::Obstacle(obstacle)), Some(_)) => match look.caa_obstacle() {
            Some(sentence) => return Err(Stop::Obstacle(sentence)),
            None => Some(obstacle),
        },
        (Err(stop), _) => return Err(stop),
    };
    let is_led = obstacle.is_none();
    // A proxy terminates TLS itself.
    let is_direct = is_led && !look.is_proxied();
    let of_kind = |challenge: &Challenge| match challenge {
        Challenge::Http01 => is_led.then_some(Proof::AtEdge(ChallengeKind::Http01)),
        Challenge::TlsAlpn01 => is_direct.then_some(Proof::AtEdge(ChallengeKind::TlsAlpn01)),
        Challenge::Dns01 => delegated.clone().map(Proof::Record),
    };
    let mut ways: Vec<Proof> = app.certificates.config().challenges.iter().filter_map(of_kind).collect();
    if ways.is_empty() {
        let sentence = "The operator has allowed no challenge by which this name can be proved (acme.challenges).";
        return Err(Stop::Obstacle(sentence.to_owned()));
    }
    // A method that failed before may fail again, such as TLS behind somebody's proxy.
    let tries = usize::try_from(claim.failures).unwrap_or_default() % ways.len();
    ways.rotate_left(tries);
    Ok(Proofs { ways, obstacle })
}

/// Returns the reason why visitors of a custom domain do not reach it here, as a sentence; `None` if they do, directly
/// or through a proxy.
pub(super) async fn obstacle(app: &App, hostname: &Hostname) -> Result<Option<String>, Stop> {
    let look = app.hostnames.look(hostname).await;
    let sentence = match look.destination() {
        Verdict::Leads => return Ok(None),
        Verdict::Waiting(sentence) | Verdict::Blocked(sentence) => sentence,
    };
    let gets_here = look.is_elsewhere()
        && reach(&app.db, &app.hostnames, &app.config, app.clock.now(), hostname).await? == Reach::Here;
    Ok((!gets_here).then_some(sentence))
}

async fn look(app: &App, claim: &OrderClaim, hostname: &Hostname) -> Look {
    match app.certificates.caa_identities(claim.failures).await {
        Some(identities) => app.hostnames.look_with(hostname, &identities).await,
        None => app.hostnames.look(hostname).await,
    }
}

async fn find_way(app: &App, claim: &OrderClaim, hostname: &Hostname, look: &Look) -> Result<(), Stop> {
    match look.verdict() {
        Verdict::Leads => {
            super::note(app, claim, DomainState::Checking).await?;
            try_to_reach(app, hostname).await
        }
        Verdict::Waiting(sentence) => Err(Stop::Waiting(sentence)),
        // A proxy may forward the authority's request to us.
        Verdict::Blocked(sentence) if look.is_proxied() => match try_to_reach(app, hostname).await {
            Ok(()) => look.caa_obstacle().map_or(Ok(()), |sentence| Err(Stop::Obstacle(sentence))),
            Err(Stop::Waiting(_) | Stop::Obstacle(_)) => Err(Stop::Obstacle(sentence)),
            Err(stop) => Err(stop),
        },
        Verdict::Blocked(sentence) => Err(Stop::Obstacle(sentence)),
    }
}

async fn try_to_reach(app: &App, hostname: &Hostname) -> Result<(), Stop> {
    match try_way(&app.db, &app.hostnames, &app.config, app.clock.now(), hostname).await? {
        Way::Open => Ok(()),
        Way::Closed(sentence) => Err(Stop::Obstacle(sentence)),
        Way::Untried(sentence) => Err(Stop::Waiting(sentence)),
    }
}

/// Returns the name of the record that proves a hostname by delegation, if its owner has delegated.
async fn delegated(app: &App, hostname: &Hostname) -> Option<String> {
    let held = claims::holder(&app.db, hostname).await.ok()??;
    let to = app.certificates.delegation(&held.project, hostname)?;
    app.hostnames.is_delegated(hostname, &to).await.then_some(to)
}

/// Returns the proofs of the platform's own names: records in its own zone.
fn of_the_platform(app: &App, claim: &OrderClaim) -> Result<Proofs, Stop> {
    if app.certificates.writer().is_none() {
        return Err(Stop::Obstacle("Nothing writes DNS records: set acme.dns.rfc2136 or acme.dns.command.".to_owned()));
    }
    let record = format!("_acme-challenge.{}", claim.name.trim_start_matches("*."));
    Ok(Proofs { ways: vec![Proof::Record(record)], obstacle: None })
}
