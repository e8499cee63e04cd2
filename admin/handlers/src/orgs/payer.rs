//! `/orgs/:name/payer`: who pays for an organization without a subscription.

use admin_http::{error::ApiError, extract::Json};
use api::Done;
use app::{
    App,
    auth::{CliUser, OrgAccess},
};
use axum::{extract::State, response::IntoResponse};
use db::{
    audit::NewAuditEntry,
    orgs::payer,
    permits::{self, Owner},
};
use domain::{audit::Action, changes::ChangeSubject};

/// Takes an organization over: it counts against your plan from now on.
///
/// An organization without a subscription counts against the free plan of one of its owners, together with their other
/// ones: at first of the person who created it. If another owner removes or demotes that person, it counts against the
/// plan of that owner from then on, if there is room in it. Otherwise, and when that person leaves, nothing new can be made in the organization
/// until an owner takes it over here or pays for a plan.
#[utoipa::path(
    post, path = "/orgs/{name}/payer", operation_id = "take_over_org", tag = "Organizations",
    params(("name" = String, Path, description = "The organization's name")),
    responses(
        (status = 200, description = "The organization counts against your plan", body = Done, headers(("X-Svc-Propagation"))),
    ),
    extensions(("x-errors" = json!({
        "forbidden": "only owners of the organization may",
        "plan_limit_reached": "your plan has no room for the organization, or for what it has",
        "suspended": "the operator has suspended the organization, one of its sites, or you",
    }))),
)]
pub async fn take_over(
    State(app): State<App>,
    caller: CliUser,
    OrgAccess(org): OrgAccess<Owner>,
) -> Result<impl IntoResponse, ApiError> {
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let org = permits::lock(&mut change, org).await?;
    if payer::take_over(&mut change, &org, app.plans(), now).await? {
        change.audit(
            NewAuditEntry::for_org(Action::OrgTakeOver, &org.id, &org.name).with("login", &*caller.user.vcs_login),
        );
        change.touch(ChangeSubject::Org(org.id.clone()));
    }
    Ok((change.commit().await?, Json(Done::OK)))
}
