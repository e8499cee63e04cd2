//! `/projects/:name/domains`: custom domains that lead to a project.

pub mod certificate;
mod claim;
pub mod diagnosis;

use admin_http::{
    error::ApiError,
    extract::{Json, Path},
};
use api::{
    Done,
    domains::{AttachDomain, DnsRecord, Domain, DomainStatus, Refreshed},
};
use app::{
    App,
    auth::{CliUser, ProjectAccess},
    change::Change,
    rates::Bucket,
};
use axum::{extract::State, http::StatusCode, response::IntoResponse};
use config::acme::CertificateIssuer;
use db::{
    audit::NewAuditEntry,
    certificates::orders::{self, OrderStatus},
    permits::{Member, ProjectPermit},
    projects::domains::{self, AttachError, AttachOutcome, CustomDomain, DomainClaimant},
};
use domain::{
    Hostname, addresses::HostKey, audit::Action, certificates::DomainState, changes::PendingChange, plans::Plans,
};
use hostnames::advice;
use serde::Deserialize;
use sqlx::PgConnection;

use self::claim::ProvedClaim;

/// The domain of the path. The project of the path is in [`ProjectAccess`].
#[derive(Debug, Deserialize)]
pub struct DomainPath {
    domain: String,
}

impl DomainPath {
    /// Parses the domain. Text that is not a hostname is not found.
    fn hostname(&self) -> Result<Hostname, ApiError> {
        self.domain.parse().map_err(|_| no_domain())
    }
}

fn no_domain() -> ApiError {
    ApiError::not_found("domain")
}

/// Attaches a custom domain to a project.
///
/// The project is served there once the domain's DNS points here through one of `records`: a CNAME to `dns_target`, or
/// addresses where DNS does not allow a CNAME. A certificate is then issued automatically; `status` shows the progress.
/// Attaching a domain that the project already has triggers a new check and returns its current state.
///
/// The same request claims a domain that another project has, once the TXT record named in the error is set. The domain
/// moves unless the other project has proved the same and the domain points to its site. The proof is also required for
/// a domain that another owner's project lost less than 30 days ago, because it was deleted or detached the domain; and
/// for a name under a registered domain of which other names point to the site of another account here.
///
/// At most 60 of these requests and other domain checks a minute per person.
#[utoipa::path(
    post, path = "/projects/{name}/domains", operation_id = "attach_domain", tag = "Domains", request_body = AttachDomain,
    params(("name" = String, Path, description = "The project's name")),
    responses((status = 201, description = "The domain is attached", body = Domain, headers(("X-Svc-Propagation")))),
    extensions(("x-errors" = json!({
        "plan_limit_reached": "the project's owner has as many custom domains as the plan allows",
        "suspended": "the operator has suspended the project, its owner, or you; or a project of yours that has the domain",
        "domain_taken": "another project has the domain, or had it less than 30 days ago, or names beside it lead to another account's site; the message says how it is claimed, and what is in the way",
        "rate_limit_exceeded": "you have asked for as many looks at domains as a minute has",
        "busy": "you have as many looks at domains under way as may be at a time",
    }))),
)]
pub async fn attach(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Member>,
    Json(AttachDomain { domain }): Json<AttachDomain>,
) -> Result<impl IntoResponse, ApiError> {
    reject_platform_domain(&app, &domain)?;
    count_domain_check(&app, &caller).await?;
    let is_proven = claim::prove_among_siblings(&app, &caller.user.id, &project, &domain).await?;
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let plans = app.plans();
    let person = if is_proven { DomainClaimant::Proven } else { DomainClaimant::Person(&caller.user.id) };
    match attach_free(&mut change, &project, &domain, person, plans).await {
        Err(AttachError::Taken | AttachError::Kept) => {
            // No transaction stays open during DNS lookups.
            drop(change);
            let claim = claim::prove_ownership(&app, &caller.user.id, &project, &domain).await?;
            change = app.change(caller.actor()).await?;
            match claim {
                Some(ProvedClaim::OfHolder(held)) => {
                    claim::take_over(&mut change, &project, &domain, (&held, &caller.user.id), plans).await?;
                }
                Some(ProvedClaim::OfFormerOwner) => {
                    attach_free(&mut change, &project, &domain, DomainClaimant::Proven, plans).await?;
                }
                None => attach_free(&mut change, &project, &domain, person, plans).await?,
            }
        }
        attached => attached?,
    }
    let tls_ready = domains::tls_ready(&mut *change, &domain, now).await?;
    start_ordering(&app, &mut change, &domain).await?;
    let status = orders::status(&mut *change, &domain).await?;
    let propagation = change.commit().await?;
    app.certificates.wake();
    // 201 in both cases: a client that repeats an interrupted request gets the response of the first.
    Ok((StatusCode::CREATED, propagation, Json(view(&app, CustomDomain { domain, tls_ready, status }))))
}

async fn attach_free(
    change: &mut Change<'_>,
    project: &ProjectPermit<Member>,
    domain: &Hostname,
    claimant: DomainClaimant<'_>,
    plans: &Plans,
) -> Result<(), AttachError> {
    let now = change.now();
    if domains::attach(&mut *change, project, domain, claimant, plans, now).await? == AttachOutcome::Now {
        change.audit(NewAuditEntry::for_project(Action::DomainAttach, project).with("domain", domain.as_str()));
        change.touch(PendingChange::new(&project.id).with_hosts([HostKey::Domain(domain.clone())]));
    }
    Ok(())
}

/// Detaches a custom domain from a project, which is then no longer served there.
///
/// For 30 days, only the project's owner may attach the domain again without proving ownership.
#[utoipa::path(
    delete, path = "/projects/{name}/domains/{domain}", operation_id = "detach_domain", tag = "Domains",
    params(
        ("name" = String, Path, description = "The project's name"),
        ("domain" = String, Path, description = "The domain"),
    ),
    responses((status = 200, description = "The domain was detached", body = Done, headers(("X-Svc-Propagation")))),
    extensions(("x-errors" = json!({
        "suspended": "the operator has suspended the project, its owner, or you",
    }))),
)]
pub async fn detach(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Member>,
    Path(named): Path<DomainPath>,
) -> Result<impl IntoResponse, ApiError> {
    let domain = named.hostname()?;
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    domains::detach(&mut change, &project, &domain, now).await?;
    change.audit(NewAuditEntry::for_project(Action::DomainDetach, &project).with("domain", domain.as_str()));
    change.touch(PendingChange::new(&project.id).with_hosts([HostKey::Domain(domain)]));
    Ok((change.commit().await?, Json(Done::OK)))
}

/// Checks a domain now, and has its certificate ordered as soon as possible.
///
/// The response is immediate; `GET /projects/{name}` shows the outcome. Repeated within five seconds, it triggers no
/// second check. At most 60 requests a minute per person, together with other domain checks.
#[utoipa::path(
    post, path = "/projects/{name}/domains/{domain}/certificate/refresh", operation_id = "refresh_domain_certificate", tag = "Domains",
    params(
        ("name" = String, Path, description = "The project's name"),
        ("domain" = String, Path, description = "The domain"),
    ),
    responses((status = 200, description = "The domain is being looked at", body = Refreshed)),
    extensions(("x-errors" = json!({
        "rate_limit_exceeded": "you have asked for as many looks at domains as a minute has",
    }))),
)]
pub async fn refresh(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Member>,
    Path(named): Path<DomainPath>,
) -> Result<Json<Refreshed>, ApiError> {
    let domain = named.hostname()?;
    count_domain_check(&app, &caller).await?;
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    if !domains::is_attached(&mut *change, &project, &domain).await? {
        return Err(no_domain());
    }
    start_ordering(&app, &mut change, &domain).await?;
    let tls_ready = domains::tls_ready(&mut *change, &domain, now).await?;
    change.commit_without_waiting().await?;
    app.certificates.wake();
    Ok(Json(Refreshed { ok: true, domain, tls_ready }))
}

/// Counts a domain check against the caller's rate limit: a member's checks are not the owner's.
async fn count_domain_check(app: &App, caller: &CliUser) -> Result<(), ApiError> {
    app.rate_limits.count(Bucket::DomainLook, caller.user.id.as_str()).await.check()
}

fn reject_platform_domain(app: &App, domain: &Hostname) -> Result<(), ApiError> {
    if app.addresses.is_own(domain) {
        return Err(ApiError::invalid(
            "domain is the platform's own, or under one of its domains; attach one that is yours.",
        ));
    }
    Ok(())
}

/// Starts to maintain a certificate for `domain`, if certificates are ordered at all.
async fn start_ordering(app: &App, conn: &mut PgConnection, domain: &Hostname) -> Result<(), sqlx::Error> {
    if app.config.acme.issuer == CertificateIssuer::None {
        return Ok(());
    }
    orders::watch(conn, domain, app.clock.now()).await
}

/// Converts a domain to its API view.
pub fn view(app: &App, domain: CustomDomain) -> Domain {
    let records = advice::target_records(&domain.domain, app.hostnames.platform());
    let status = status(&domain, &records.iter().map(DnsRecord::line).collect::<Vec<_>>().join(" and "));
    let dns_target = app.addresses.dns_target().to_owned();
    Domain { domain: domain.domain, tls_ready: domain.tls_ready, dns_target, records, status }
}

/// Returns the progress of a domain's certificate. `record` points the domain here.
fn status(domain: &CustomDomain, record: &str) -> DomainStatus {
    let hostname = &domain.domain;
    let Some(OrderStatus { state, message, since, next_attempt_at }) = domain.status.clone() else {
        let (state, message) = if domain.tls_ready {
            // Nothing checks whether the domain points here.
            let message = match record {
                "" => format!("{hostname} has a certificate."),
                record => format!("{hostname} has a certificate; its record is `{record}`."),
            };
            (DomainState::Live, message)
        } else {
            let missing = format!(
                "{hostname} has no certificate: the operator of this platform imports one for it (`certs import`)"
            );
            let message = match record {
                "" => format!("{missing}."),
                record => format!("{missing}; its record is `{record}`."),
            };
            (DomainState::Blocked, message)
        };
        return DomainStatus { state, message, has_obstacle: !domain.tls_ready, since: None, next_attempt_at: None };
    };
    let has_obstacle = message.is_some();
    let message = message.unwrap_or_else(|| match state {
        DomainState::WaitingForDns if record.is_empty() => format!("{hostname} is being looked at."),
        DomainState::WaitingForDns => {
            format!("DNS is looked at until {hostname} leads here; its record is `{record}`.")
        }
        DomainState::Checking => format!("{hostname} leads here; the way to it is being tried."),
        DomainState::Ordering => format!("A certificate for {hostname} is being ordered."),
        DomainState::Live => format!("{hostname} has a certificate, and nothing is left to do."),
        DomainState::Renewing if !domain.tls_ready => {
            format!("The certificate of {hostname} has ended, and the next is being ordered.")
        }
        DomainState::Renewing => {
            format!("{hostname} has a certificate, the next is being ordered, and nothing is left to do.")
        }
        DomainState::Blocked => {
            format!(
                "Something is in the way of a certificate for {hostname}; `svc domains doctor {hostname}` says what."
            )
        }
    });
    DomainStatus { state, message, has_obstacle, since: Some(since), next_attempt_at }
}
