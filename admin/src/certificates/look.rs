//! Whether an order can succeed: what an authority would see is looked at first, because each of its failures counts.

use certs::dns01;
use config::acme::Challenge;
use db::certificates::{challenges::ChallengeKind, orders::OrderClaim};
use domain::{Hostname, certificates::DomainState};

use super::{outcome::Stop, proofs::Proof};
use crate::{
    app::App,
    hostnames::Verdict,
    probe::way::{Way, try_way},
};

/// Looks at the way to a name, and returns how it can be proved, the best way first.
pub(super) async fn find_proofs(app: &App, claim: &OrderClaim) -> Result<Vec<Proof>, Stop> {
    let Some(hostname) = &claim.domain else { return of_the_platform(app, claim) };
    let (look, delegated) = tokio::join!(look(app, claim, hostname), delegated(app, hostname));
    let leads = match look.verdict() {
        Verdict::Leads => try_to_reach(app, claim, hostname).await,
        Verdict::Waiting(sentence) => Err(Stop::Waiting(sentence)),
        Verdict::Blocked(sentence) => Err(Stop::Obstacle(sentence)),
    };
    let is_led = match (leads, &delegated) {
        (Ok(()), _) => true,
        // A delegation proves the name wherever it leads, before the traffic is moved.
        (Err(Stop::Waiting(_) | Stop::Obstacle(_)), Some(_)) => match look.caa_obstacle() {
            Some(sentence) => return Err(Stop::Obstacle(sentence)),
            None => false,
        },
        (Err(stop), _) => return Err(stop),
    };
    let of_kind = |challenge: &Challenge| match challenge {
        Challenge::Http01 => is_led.then_some(Proof::AtEdge(ChallengeKind::Http01)),
        Challenge::TlsAlpn01 => is_led.then_some(Proof::AtEdge(ChallengeKind::TlsAlpn01)),
        Challenge::Dns01 => delegated.clone().map(Proof::Record),
    };
    let mut proofs: Vec<Proof> = app.certificates.config().challenges.iter().filter_map(of_kind).collect();
    if proofs.is_empty() {
        let sentence = "The operator has allowed no challenge by which this name can be proved (acme.challenges).";
        return Err(Stop::Obstacle(sentence.to_owned()));
    }
    // What failed before may fail again, such as TLS behind somebody's proxy.
    let tries = usize::try_from(claim.failures).unwrap_or_default() % proofs.len();
    proofs.rotate_left(tries);
    Ok(proofs)
}

async fn look(app: &App, claim: &OrderClaim, hostname: &Hostname) -> crate::hostnames::Look {
    match app.certificates.caa_identities(claim.failures).await {
        Some(identities) => app.hostnames.look_with(hostname, identities).await,
        None => app.hostnames.look(hostname).await,
    }
}

/// Tries the way that the authority will take.
async fn try_to_reach(app: &App, claim: &OrderClaim, hostname: &Hostname) -> Result<(), Stop> {
    super::note(app, claim, DomainState::Checking).await?;
    match try_way(&app.db, &app.hostnames, &app.config, app.clock.now(), hostname).await? {
        Way::Open => Ok(()),
        Way::Closed(sentence) => Err(Stop::Obstacle(sentence)),
        Way::Untried(sentence) => Err(Stop::Waiting(sentence)),
    }
}

/// The name of the record that proves a hostname by delegation, when its owner has delegated.
async fn delegated(app: &App, hostname: &Hostname) -> Option<String> {
    let acme = app.certificates.config();
    let is_possible = acme.challenges.contains(&Challenge::Dns01) && app.certificates.writer().is_some();
    let to = dns01::delegation(&acme.dns, hostname).filter(|_| is_possible)?;
    app.hostnames.is_delegated(hostname, &to).await.then_some(to)
}

/// The platform's own names are proved by records in its own zone.
fn of_the_platform(app: &App, claim: &OrderClaim) -> Result<Vec<Proof>, Stop> {
    if app.certificates.writer().is_none() {
        return Err(Stop::Obstacle("Nothing writes DNS records: set acme.dns.rfc2136 or acme.dns.command.".to_owned()));
    }
    Ok(vec![Proof::Record(format!("_acme-challenge.{}", claim.name.trim_start_matches("*.")))])
}
