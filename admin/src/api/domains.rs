//! `/projects/:name/domains`: hostnames of people's own that lead to a project.

use api::{
    Done,
    domains::{AttachDomain, Domain},
};
use axum::{extract::State, http::StatusCode, response::IntoResponse};
use db::{
    audit::Entry,
    permits::Member,
    projects::domains::{self, AttachError, Attached, CustomDomain},
};
use domain::{
    Hostname,
    addresses::{Addresses, HostKey},
    audit::Action,
    changes::Touched,
};
use serde::Deserialize;

use crate::{
    app::App,
    auth::{CliUser, ProjectAccess},
    error::{ApiError, Code},
    extract::{Json, Path},
};

/// The domain of the path. The project of the path is in [`ProjectAccess`].
#[derive(Debug, Deserialize)]
pub struct Named {
    domain: String,
}

/// Attaches a custom domain to a project.
///
/// The project is served there too, once a CNAME leads from the domain to `dns_target`. Attaching a domain that the
/// project has already changes nothing, and answers with its present state.
#[utoipa::path(
    post, path = "/projects/{name}/domains", tag = "Domains", request_body = AttachDomain,
    params(("name" = String, Path, description = "The project's name")),
    responses((status = 201, description = "The domain is attached", body = Domain, headers(("X-Svc-Propagation")))),
    extensions(("x-errors" = json!({
        "plan_limit_reached": "the project's owner has as many custom domains as the plan allows",
        "domain_taken": "the domain is attached to another project",
    }))),
)]
pub async fn attach(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Member>,
    Json(AttachDomain { domain }): Json<AttachDomain>,
) -> Result<impl IntoResponse, ApiError> {
    if app.addresses.is_own(&domain) {
        return Err(ApiError::invalid(
            "domain is the platform's own, or under one of its domains; attach one that is yours.",
        ));
    }
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let most = app.limits_of(&project.owner).domains;
    let attached = domains::attach(&mut change, &project, &domain, most, now).await?;
    let tls_ready = domains::tls_ready(&mut *change, &domain, now).await?;
    match attached {
        Attached::Before => {}
        Attached::Now => {
            change.audit(Entry::of_project(Action::DomainAttach, &project).with("domain", domain.as_str()));
            change.touch(Touched::new(&project.id).with_hosts([HostKey::Domain(domain.clone())]));
        }
    }
    let propagation = change.commit().await?;
    // 201 both times: a client that repeats a request that was cut off gets the answer of the first.
    Ok((StatusCode::CREATED, propagation, Json(view(&app.addresses, CustomDomain { domain, tls_ready }))))
}

/// Detaches a custom domain from a project: nothing is served there any more.
#[utoipa::path(
    delete, path = "/projects/{name}/domains/{domain}", tag = "Domains",
    params(
        ("name" = String, Path, description = "The project's name"),
        ("domain" = String, Path, description = "The domain"),
    ),
    responses((status = 200, description = "The domain was detached", body = Done, headers(("X-Svc-Propagation")))),
)]
pub async fn detach(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Member>,
    Path(named): Path<Named>,
) -> Result<impl IntoResponse, ApiError> {
    let no_domain = || ApiError::not_found("domain");
    // What cannot be a hostname names nothing.
    let domain: Hostname = named.domain.parse().map_err(|_| no_domain())?;
    let mut change = app.change(caller.actor()).await?;
    if !domains::detach(&mut change, &project, &domain).await? {
        return Err(no_domain());
    }
    change.audit(Entry::of_project(Action::DomainDetach, &project).with("domain", domain.as_str()));
    change.touch(Touched::new(&project.id).with_hosts([HostKey::Domain(domain)]));
    Ok((change.commit().await?, Json(Done::OK)))
}

/// Makes the view of a domain.
pub fn view(addresses: &Addresses, domain: CustomDomain) -> Domain {
    Domain { domain: domain.domain, tls_ready: domain.tls_ready, dns_target: addresses.dns_target().to_owned() }
}

impl From<AttachError> for ApiError {
    fn from(error: AttachError) -> Self {
        match error {
            AttachError::Gone => Self::not_found("project"),
            AttachError::Share => {
                Self::invalid("A share cannot have a domain of its own; publish it as a project instead.")
            }
            AttachError::Taken => {
                Self::new(Code::DomainTaken, "This domain is attached to another project; detach it there first.")
            }
            AttachError::PlanLimit => Self::new(
                Code::PlanLimitReached,
                "The project's owner has as many custom domains as the plan allows; detach one first.",
            ),
            AttachError::Db(error) => error.into(),
        }
    }
}
