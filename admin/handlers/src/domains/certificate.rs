//! `/projects/:name/domains/:domain/certificate`: the certificate that a custom domain presents.

use admin_http::{
    error::ApiError,
    extract::{Json, Path},
};
use api::domains::CertificateStatus;
use app::{
    App,
    auth::{CliUser, ProjectAccess},
};
use axum::extract::State;
use db::{permits::Member, projects::domains};
use domain::Hostname;
use hostnames::probe::certificate::{ProbeError, ProbedCertificate};

use super::{DomainPath, count_domain_check, no_domain};

/// Checks the certificate of a custom domain in a new TLS handshake.
///
/// If the domain does not answer, `reachable` is false and `error` says why. The check takes at most five seconds.
#[utoipa::path(
    get, path = "/projects/{name}/domains/{domain}/certificate", operation_id = "check_domain_certificate", tag = "Domains",
    params(
        ("name" = String, Path, description = "The project's name"),
        ("domain" = String, Path, description = "The domain"),
    ),
    responses((status = 200, description = "What visitors are shown", body = CertificateStatus)),
    extensions(("x-errors" = json!({
        "busy": "too many domains are being looked at, by you or by all",
    }))),
)]
pub async fn show(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Member>,
    Path(named): Path<DomainPath>,
) -> Result<Json<CertificateStatus>, ApiError> {
    let domain = named.hostname()?;
    if !domains::is_attached(&app.db, &project, &domain).await? {
        return Err(no_domain());
    }
    count_domain_check(&app, &caller).await?;
    let _turn = app.bounds.domain_look(&caller.paying_account()).await?;
    let looked = app.certificate_probe.probe(&domain).await;
    Ok(Json(view(domain, looked)))
}

fn view(domain: Hostname, looked: Result<ProbedCertificate, ProbeError>) -> CertificateStatus {
    let shown = match looked {
        Ok(shown) => shown,
        Err(unreachable) => {
            return CertificateStatus {
                domain,
                reachable: false,
                valid: false,
                issuer: None,
                subject: None,
                valid_from: None,
                valid_to: None,
                days_remaining: None,
                error: Some(unreachable.to_string()),
            };
        }
    };
    CertificateStatus {
        reachable: true,
        valid: shown.flaw.is_none(),
        subject: shown.subject(&domain),
        days_remaining: Some(shown.days_remaining()),
        domain,
        issuer: Some(shown.leaf.issuer),
        valid_from: Some(shown.leaf.not_before),
        valid_to: Some(shown.leaf.not_after),
        error: shown.flaw.map(|flaw| flaw.to_string()),
    }
}
