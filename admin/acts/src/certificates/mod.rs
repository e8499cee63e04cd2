//! Obtains certificates: processes due rows of `certificate_orders`.
//!
//! [`process_order`] makes one attempt under the row's lease and records its outcome. `look.rs` checks whether an order can
//! succeed, `order.rs` drives the authority, `proofs.rs` publishes challenge responses, `local.rs` signs instead of an
//! authority; `outcome.rs` schedules retries, `allowance.rs` and `schedule.rs` define the limits and the times. Every
//! step can be resumed after a kill: its input is in the row before it begins. The jobs decide when rows are due.

mod allowance;
mod domain_states;
mod local;
mod look;
mod order;
mod outcome;
mod proofs;
mod schedule;
mod turn;

use std::time::Duration;

use app::{App, metrics};
use config::acme::CertificateIssuer;
use db::{
    audit::Actor,
    certificates::{
        self, NewCertificate,
        orders::{self, OrderClaim, RenewalTimes},
        renewals,
    },
    projects::domains,
};
use domain::{Timestamp, certificates::DomainState};
use mail::notices::{Notice, notify};

use self::outcome::AttemptError;
pub use self::{
    proofs::remove_response,
    schedule::{clamp_window, renewal_time, renewal_times},
};

/// The duration of a row's lease. It is short, so that the work of a killed admin is soon resumed.
pub const LEASE: Duration = Duration::from_secs(15);
const KEEP_EVERY: Duration = Duration::from_secs(5);
/// The timeout of an attempt; an order pending at the authority is resumed by the next one.
const ATTEMPT_TIMEOUT: Duration = Duration::from_mins(5);

/// Makes one attempt at the certificate of a leased row, records its outcome and releases the lease.
pub async fn process_order(app: &App, claim: &OrderClaim) {
    let attempt = async {
        let attempt = tokio::time::timeout(ATTEMPT_TIMEOUT, attempt(app, claim));
        attempt.await.unwrap_or(Err(AttemptError::TimedOut))
    };
    let outcome = tokio::select! {
        outcome = attempt => outcome,
        () = keep_lease(app, claim) => Err(AttemptError::Overtaken),
        () = app.stopping.cancelled() => Err(AttemptError::Stopped),
    };
    let name = &claim.name;
    let recorded = match outcome {
        Ok(()) => Ok(()),
        Err(AttemptError::Overtaken) => {
            tracing::info!(name, "the work on a certificate has gone to another admin, or the name is gone");
            Ok(())
        }
        Err(AttemptError::Stopped) => db::in_time(orders::release_lease(&app.db, claim)).await,
        Err(stop) => {
            let now = app.clock.now();
            stop.report(claim);
            db::in_time(put_off(app, claim, &stop, now)).await
        }
    };
    // The lease expires by itself.
    if let Err(error) = recorded {
        tracing::warn!(%error, name, "the outcome of an attempt at a certificate could not be recorded; it is tried again");
    }
}

/// Schedules the next attempt, and once per renewal notifies the owner of a domain in trouble by mail.
async fn put_off(app: &App, claim: &OrderClaim, stop: &AttemptError, now: Timestamp) -> Result<(), sqlx::Error> {
    let put_off = stop.put_off(claim, now);
    let Some(domain) = claim.domain.as_ref().filter(|_| stop.is_trouble(claim, now)) else {
        if orders::postpone(&app.db, claim, &put_off, now).await? {
            publish_domain_state(app, claim, put_off.state, put_off.message.as_deref()).await;
        }
        return Ok(());
    };
    let mut tx = app.db.begin().await?;
    if orders::postpone(&mut *tx, claim, &put_off, now).await?
        && let Some(owner) = domains::find_owner(&mut *tx, domain).await?
    {
        let event = format!("domain_trouble/{domain}/{}", claim.since.unix_millis());
        let message =
            put_off.message.clone().unwrap_or_else(|| "No certificate was issued; it is tried again.".to_owned());
        let notice = Notice::DomainTrouble { domain: domain.clone(), message };
        notify(&mut tx, &owner, &event, &notice, None, now).await?;
    }
    tx.commit().await?;
    publish_domain_state(app, claim, put_off.state, put_off.message.as_deref()).await;
    Ok(())
}

async fn publish_domain_state(app: &App, claim: &OrderClaim, state: DomainState, message: Option<&str>) {
    if let Some(domain) = &claim.domain
        && let Err(error) = domain_states::publish_state(app, domain, state, message).await
    {
        tracing::warn!(%error, %domain, "nobody was told of a domain's state");
    }
}

async fn keep_lease(app: &App, claim: &OrderClaim) {
    let mut until = app.clock.now() + LEASE;
    loop {
        tokio::time::sleep(KEEP_EVERY).await;
        let now = app.clock.now();
        match db::in_time(orders::extend_lease(&app.db, claim, now + LEASE)).await {
            Ok(true) => until = now + LEASE,
            Ok(false) => return,
            Err(_) if now > until => return,
            Err(_) => {}
        }
    }
}

async fn attempt(app: &App, claim: &OrderClaim) -> Result<(), AttemptError> {
    if adopt_stored(app, claim).await? {
        return Ok(());
    }
    match app.certificates.issuer() {
        CertificateIssuer::Acme => order::obtain_certificate(app, claim).await,
        CertificateIssuer::Local => local::sign(app, claim).await,
        CertificateIssuer::None => Err(AttemptError::Obstacle(
            "Nobody issues certificates here; the operator has to bring one along with `certs import`.".to_owned(),
        )),
    }
}

/// Finishes a row with a certificate that is already stored, such as an imported one. Returns `false` if none is
/// suitable.
async fn adopt_stored(app: &App, claim: &OrderClaim) -> Result<bool, AttemptError> {
    let now = app.clock.now();
    let mut names = vec![claim.name.clone()];
    if claim.domain.is_some()
        && let Some((_, parent)) = claim.name.split_once('.')
    {
        names.push(format!("*.{parent}"));
    }
    let Some(stored) = certificates::find_covering(&app.db, &names, now).await? else { return Ok(false) };
    if stored.not_before > now || stored.not_after <= now || stored.revoked_at.is_some() {
        return Ok(false);
    }
    if claim.certificate_id.as_ref() == Some(&stored.id) {
        let stays = claim.state == DomainState::Live && claim.renew_at.is_some_and(|renew_at| renew_at > now);
        if stays {
            let obstacle = find_obstacle(app, claim).await?;
            let live = outcome::live_state(claim, obstacle, now);
            if orders::postpone(&app.db, claim, &live, now).await? {
                publish_domain_state(app, claim, DomainState::Live, live.message.as_deref()).await;
            }
        }
        return Ok(stays);
    }
    let times = renewal_times(stored.not_before, stored.not_after);
    if times.renew_at <= now {
        return Ok(false);
    }
    let obstacle = find_obstacle(app, claim).await?;
    if let (Some(sentence), None) = (&obstacle, &claim.certificate_id) {
        // It may have been obtained for the former holder of the name, so this project gets it only once the name leads
        // here.
        return match app.certificates.issuer() {
            CertificateIssuer::Acme => Ok(false),
            CertificateIssuer::Local | CertificateIssuer::None => Err(AttemptError::Waiting(sentence.clone())),
        };
    }
    let ask_at = renewals::find_replaceable(&app.db, &stored.id).await?.map(|_| now);
    let mut conn = app.db.acquire().await?;
    let times = RenewalTimes { ask_at, ..times };
    let live = outcome::live_state(claim, obstacle, now);
    if !orders::finish(&mut conn, claim, &stored.id, &times, &live, now).await? {
        return Err(AttemptError::Overtaken);
    }
    publish_domain_state(app, claim, DomainState::Live, live.message.as_deref()).await;
    tracing::info!(name = claim.name, certificate = %stored.id, "a certificate that was stored before serves a name");
    Ok(true)
}

async fn find_obstacle(app: &App, claim: &OrderClaim) -> Result<Option<String>, AttemptError> {
    match &claim.domain {
        Some(domain) => look::find_obstacle(app, domain).await,
        None => Ok(None),
    }
}

/// Stores a certificate and finishes its row, in one transaction; the edges present it before this returns. `obstacle`
/// is the reason why visitors do not reach the name yet.
async fn go_live(
    app: &App,
    claim: &OrderClaim,
    certificate: &NewCertificate<'_>,
    ask_at: Option<Timestamp>,
    obstacle: Option<String>,
) -> Result<(), AttemptError> {
    let mut change = app.change(Actor::Platform).await?;
    let now = change.now();
    let id = certificates::insert(&mut change, &app.master_key, certificate, now).await?;
    let times = RenewalTimes { ask_at, ..renewal_times(certificate.not_before, certificate.not_after) };
    let live = outcome::live_state(claim, obstacle, now);
    if !orders::finish(&mut change, claim, &id, &times, &live, now).await? {
        return Err(AttemptError::Overtaken);
    }
    change.announce_certificate(id.clone(), certificate.names.to_vec());
    let propagation = change.commit().await?;
    publish_domain_state(app, claim, DomainState::Live, live.message.as_deref()).await;
    metrics::certificate_issued(certificate.source.as_str());
    tracing::info!(name = claim.name, certificate = %id, %propagation, renew_at = %times.renew_at, "a certificate is live");
    Ok(())
}

fn covered_names(claim: &OrderClaim) -> Vec<String> {
    match claim.name.strip_prefix("*.") {
        Some(domain) => vec![claim.name.clone(), domain.to_owned()],
        None => vec![claim.name.clone()],
    }
}

/// Records the progress of an attempt. During a renewal the state remains `renewing`; a blocked name remains blocked
/// while it is checked again, so that the start of the blockage is kept.
async fn record_progress(app: &App, claim: &OrderClaim, state: DomainState) -> Result<(), AttemptError> {
    let stays_blocked = state == DomainState::Checking && claim.state == DomainState::Blocked;
    if outcome::is_renewal(claim) || stays_blocked {
        return Ok(());
    }
    let is_ours = orders::record_state(&app.db, claim, state, app.clock.now()).await?;
    if !is_ours {
        return Err(AttemptError::Overtaken);
    }
    publish_domain_state(app, claim, state, None).await;
    Ok(())
}
