//! Claims to domains by DNS proof.
//!
//! A domain that is attached to another project moves to a project that proves ownership, unless the other project has
//! proved the same and the domain points to its site. The same proof claims a domain that is reserved for the former
//! owner, after a project was deleted or detached it. An unattached domain needs a proof if names of other accounts
//! under the same registered domain point here, because their owner may have pointed all names here.
//!
//! The proof is a TXT record whose value only this platform can compute. Nothing is stored before it is set.

use admin_http::error::{ApiError, Code};
use app::{App, change::Change};
use db::{
    audit::NewAuditEntry,
    permits::{Member, ProjectPermit},
    projects::{
        claims::{self, DomainHolder, NeighbourDomain},
        domains::{self, AttachError},
    },
};
use domain::{
    Hostname, ProjectId, Timestamp, UserId, addresses::HostKey, audit::Action, changes::PendingChange, plans::Plans,
};
use futures_util::future::join_all;
use hostnames::{
    DnsDestination, is_local,
    probe::way::{VisitorDestination, find_destination},
};
use mail::notices::{Notice, notify};
use secrets::{KeyPurpose, MasterKey};

/// The label that precedes the domain in the record's name.
const RECORD: &str = "_svc-challenge";
/// Stands for the former owner in a code, in place of the id of the project that has the domain.
const FORMER_OWNER: &str = "former-owner";
/// Precedes, in a code, the id of the project that has another name under the same registered domain.
const SIBLING_PREFIX: &str = "beside-";
/// The maximum number of names of others under a registered domain to check.
const NEIGHBOURS: i64 = 5;
/// The length of a code before hex encoding.
const CODE_BYTES: usize = 20;

pub(super) enum ProvedClaim {
    /// Another project has the domain, which did not point to that project's site or was not proved by it.
    OfHolder(DomainHolder),
    /// Nobody has the domain, and it is reserved for somebody else.
    OfFormerOwner,
}

/// Checks whether `project` may have `domain`, which another project has or recently had. The error says what remains
/// to be done. Returns `None` if nobody has the domain and it is not reserved for anybody but `person`.
pub(super) async fn prove_ownership(
    app: &App,
    person: &UserId,
    project: &ProjectPermit<Member>,
    domain: &Hostname,
) -> Result<Option<ProvedClaim>, ApiError> {
    let _turn = app.bounds.domain_look(&person.clone().into()).await?;
    let held = claims::find_holder(&app.db, domain).await?;
    let (whose, since) = match &held {
        Some(held) => (held.project.as_str(), held.since),
        None => match reserved_since(app, person, project, domain).await? {
            Some(since) => (FORMER_OWNER, since),
            None => return Ok(None),
        },
    };
    let record = format!("{RECORD}.{domain}");
    let code = code(&app.master_key, &project.id, whose, since, domain);
    let is_whose = match &held {
        Some(_) => "is attached to another project",
        None => "was attached to another project until lately, and is kept for that one's owner for 30 days",
    };
    let texts = match app.hostnames.texts(&record).await {
        Ok(texts) => texts,
        Err(error) => {
            tracing::debug!(%error, record, "the record of a claim could not be read");
            return Err(domain_taken(format!(
                "This domain {is_whose}, and whether `{record} TXT {code}` stands, which proves that \
                 it is yours, could not be read in DNS; attach the domain again in a moment."
            )));
        }
    };
    let is_proven = has_code(&texts, &code);
    let Some(held) = held else {
        return if is_proven {
            Ok(Some(ProvedClaim::OfFormerOwner))
        } else {
            Err(domain_taken(format!(
                "This domain {is_whose}, who may attach it. If the domain is yours, set the DNS record `{record} TXT {code}` and \
                 attach it again. The record is of no use after that. Name servers may remember for some minutes that it was \
                 missing, in some zones for an hour."
            )))
        };
    };
    if !is_proven {
        return Err(domain_taken(format!(
            "This domain is attached to another project. If that one is yours, detach it there first. If the domain \
             is yours and the project is not, set the DNS record `{record} TXT {code}` and attach the domain again: \
             it moves here, unless it leads to the other project's site, which has proved by such a record that it is \
             theirs. The record is of no use after that. \
             Name servers may remember for some minutes that it was missing, in some zones for an hour."
        )));
    }
    // The right belongs to the project that can set DNS records of the domain; of two, to the one whose site it points
    // to.
    if !held.is_proven {
        return Ok(Some(ProvedClaim::OfHolder(held)));
    }
    match points_here(app, domain).await? {
        Some(false) => Ok(Some(ProvedClaim::OfHolder(held))),
        Some(true) => Err(domain_taken(format!(
            "The record that proves the claim stands, but {domain} leads to the site of the project that has it, which \
             has proved the same; let its DNS lead elsewhere, or nowhere, and attach it again."
        ))),
        None => Err(domain_taken(format!(
            "The record that proves the claim stands, but where {domain} leads could not be looked up; attach it \
             again in a moment, or once it has no address."
        ))),
    }
}

/// Checks whether `project` may attach the unattached `domain` despite names of others under the same registered
/// domain. Returns whether ownership was proved; if it must be, the error says how.
pub(super) async fn prove_among_siblings(
    app: &App,
    person: &UserId,
    project: &ProjectPermit<Member>,
    domain: &Hostname,
) -> Result<bool, ApiError> {
    // Names under `localhost` are not in public DNS.
    let registered = psl::domain_str(domain.as_str()).filter(|_| !is_local(domain));
    let Some(registered) = registered else { return Ok(false) };
    let neighbours = claims::list_neighbours(&app.db, project, person, registered, NEIGHBOURS).await?;
    // `prove` handles domains that are attached or reserved.
    if neighbours.is_empty()
        || claims::find_holder(&app.db, domain).await?.is_some()
        || reserved_since(app, person, project, domain).await?.is_some()
    {
        return Ok(false);
    }
    let _turn = app.bounds.domain_look(&person.clone().into()).await?;
    let looks = join_all(neighbours.iter().map(|neighbour| points_here(app, &neighbour.domain))).await;
    let mut led = None;
    for (neighbour, leads) in neighbours.iter().zip(looks) {
        let leads = match leads? {
            Some(leads) => leads,
            // It pointed here when it got its certificate.
            None => domains::tls_ready(&app.db, &neighbour.domain, app.clock.now()).await?,
        };
        if leads && led.is_none_or(|led: &NeighbourDomain| neighbour.since < led.since) {
            led = Some(neighbour);
        }
    }
    let Some(led) = led else { return Ok(false) };
    let record = format!("{RECORD}.{domain}");
    let whose = format!("{SIBLING_PREFIX}{}", led.project);
    let code = code(&app.master_key, &project.id, &whose, led.since, domain);
    match app.hostnames.texts(&record).await {
        Ok(texts) if has_code(&texts, &code) => Ok(true),
        Ok(_) => Err(domain_taken(format!(
            "Names under {registered} lead to the site of another account here, so whoever attaches a further one proves that \
             it is theirs: set the DNS record `{record} TXT {code}` and attach {domain} again. The record is of no use after \
             that. Name servers may remember for some minutes that it was missing, in some zones for an hour."
        ))),
        Err(error) => {
            tracing::debug!(%error, record, "the record of a claim could not be read");
            Err(domain_taken(format!(
                "Names under {registered} lead to the site of another account here, and whether `{record} TXT {code}` stands, \
                 which proves that this one is yours, could not be read in DNS; attach the domain again in a moment."
            )))
        }
    }
}

fn has_code(texts: &[String], code: &str) -> bool {
    texts.iter().any(|text| text.trim() == code)
}

/// Returns since when the domain has been reserved for somebody other than `person` and the project's owner.
async fn reserved_since(
    app: &App,
    person: &UserId,
    project: &ProjectPermit<Member>,
    domain: &Hostname,
) -> Result<Option<Timestamp>, sqlx::Error> {
    let mut conn = app.db.acquire().await?;
    domains::reserved_since(&mut conn, project, domain, person, app.clock.now()).await
}

/// Moves the domain to `project`, if its owner's plan allows it and the holder is the same, and notifies the holder.
pub(super) async fn take_over(
    change: &mut Change<'_>,
    project: &ProjectPermit<Member>,
    domain: &Hostname,
    (held, person): (&DomainHolder, &UserId),
    plans: &Plans,
) -> Result<(), AttachError> {
    let now = change.now();
    let former = claims::take_over(&mut *change, project, domain, (held, person), plans, now).await?;
    let event = format!("domain_moved/{domain}/{}/{}", former.id, held.since.unix_millis());
    let notice = Notice::DomainMoved { domain: domain.clone(), project: former.name.clone() };
    notify(&mut *change, &former.owner, &event, &notice, None, now).await?;
    change.audit(NewAuditEntry::for_project(Action::DomainClaim, project).with("domain", domain.as_str()));
    change.audit(NewAuditEntry::for_project(Action::DomainLose, &former).with("domain", domain.as_str()));
    for id in [&project.id, &former.id] {
        change.touch(PendingChange::new(id).with_hosts([HostKey::Domain(domain.clone())]));
    }
    Ok(())
}

/// Returns the code by which `project` claims `domain` from `whose` it has been since `since`.
///
/// The code is stable while the holder is, so that there is time to set the record. It is useless to other projects,
/// although public, and spent once the domain has moved, so that a forgotten record cannot take the domain back.
fn code(master_key: &MasterKey, project: &ProjectId, whose: &str, since: Timestamp, domain: &Hostname) -> String {
    let context = format!("{project} {domain} {whose} {}", since.unix_millis());
    hex::encode(&master_key.derive(KeyPurpose::DomainClaims, context.as_bytes())[..CODE_BYTES])
}

/// Returns whether visitors of `domain` arrive here, directly or through somebody's proxy; `None` if unknown.
async fn points_here(app: &App, domain: &Hostname) -> Result<Option<bool>, ApiError> {
    let look = app.hostnames.lookup(domain).await;
    let (mut is_known, mut has_address, mut is_proxied) = (false, false, false);
    for (_, finding) in look.findings() {
        match finding {
            DnsDestination::Leads | DnsDestination::Partly(_) | DnsDestination::StaleIpv6(_) => return Ok(Some(true)),
            DnsDestination::ServFail { .. } | DnsDestination::NoTarget | DnsDestination::Unasked(_) => return Ok(None),
            DnsDestination::Nothing | DnsDestination::Dangling(_) => {}
            DnsDestination::Elsewhere(_) => has_address = true,
            DnsDestination::Proxied(_) => (has_address, is_proxied) = (true, true),
        }
        is_known = true;
    }
    if !has_address {
        return Ok(is_known.then_some(false));
    }
    // Another server may be a proxy in front of us.
    let now = app.clock.now();
    let reach = find_destination(&app.db, &app.hostnames, &app.config, now, domain).await?;
    // A proxy that connects to us only over HTTPS needs a certificate here.
    let has_certificate = async || domains::tls_ready(&app.db, domain, now).await;
    Ok(match reach {
        VisitorDestination::Here => Some(true),
        VisitorDestination::Https => Some(has_certificate().await?),
        VisitorDestination::Elsewhere => Some(is_proxied && has_certificate().await?),
        VisitorDestination::Unknown => None,
    })
}

fn domain_taken(message: String) -> ApiError {
    ApiError::new(Code::DomainTaken, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_one_projects_for_one_domain() {
        let (key, now) = (MasterKey::generate(), Timestamp::from_unix_millis(1_800_000_000_000));
        let (one, other, holder) = (ProjectId::new(now), ProjectId::new(now), ProjectId::new(now));
        let whose = holder.as_str();
        let code = |key: &MasterKey, project: &ProjectId, domain: &Hostname| code(key, project, whose, now, domain);
        let (domain, another): (Hostname, Hostname) = ("a.example".parse().unwrap(), "b.example".parse().unwrap());
        let expected = code(&key, &one, &domain);
        assert_eq!(expected.len(), 2 * CODE_BYTES);
        assert_eq!(code(&key, &one, &domain), expected);
        assert_ne!(code(&key, &other, &domain), expected);
        assert_ne!(code(&key, &one, &another), expected);
        assert_ne!(code(&MasterKey::generate(), &one, &domain), expected);
        let anew = now + std::time::Duration::from_millis(1);
        for (whose, since) in [(other.as_str(), now), (whose, anew), (FORMER_OWNER, now)] {
            assert_ne!(super::code(&key, &one, whose, since, &domain), expected);
        }
    }
}
