//! `/ai/aliases` and `/orgs/:name/ai/aliases`: an account's aliases for models of the AI gateway.

use admin_http::{error::ApiError, extract::Json};
use api::ai::{ModelAliasList, SetModelAliases};
use app::{
    App,
    auth::{CliUser, OrgAccess},
};
use axum::{extract::State, response::IntoResponse};
use db::{
    audit::NewAuditEntry,
    gateway::model_aliases,
    permits::{self, Admin, Member},
};
use domain::{Account, audit::Action, changes::ChangeSubject, gateway::ModelAliases};

/// Shows your aliases for models.
///
/// An alias is a name that your AI keys may send as `model`; the gateway replaces it by the model behind it.
#[utoipa::path(
    get, path = "/ai/aliases", operation_id = "list_model_aliases", tag = "AI gateway",
    responses((status = 200, description = "The names", body = ModelAliasList)),
)]
pub async fn for_user(State(app): State<App>, caller: CliUser) -> Result<Json<ModelAliasList>, ApiError> {
    Ok(Json(view(model_aliases::find_for_user(&app.db, &caller.user.id).await?)))
}

/// Sets your aliases for models, replacing the previous ones.
///
/// Your keys can then use these names to request models from the AI gateway; this helps clients that were made for one
/// provider and cannot request other models. A trailing `*` matches any suffix. Model ids, and names that the operator
/// defined, keep their meaning. The change is in force on every edge when the response arrives.
#[utoipa::path(
    put, path = "/ai/aliases", operation_id = "set_model_aliases", tag = "AI gateway", request_body = SetModelAliases,
    responses((status = 200, description = "The names", body = ModelAliasList, headers(("X-Svc-Propagation")))),
)]
pub async fn set_for_user(
    State(app): State<App>,
    caller: CliUser,
    Json(body): Json<SetModelAliases>,
) -> Result<impl IntoResponse, ApiError> {
    check_models(&app, &body.aliases)?;
    let mut change = app.change(caller.actor()).await?;
    model_aliases::set_for_user(&mut change, &caller.user.id, &body.aliases).await?;
    change.touch(ChangeSubject::Plan(Account::User(caller.user.id.clone()).into()));
    Ok((change.commit().await?, Json(view(body.aliases))))
}

/// Shows an organization's aliases for models.
///
/// Every member may see them. An alias is a name that the organization's AI keys may send as `model`.
#[utoipa::path(
    get, path = "/orgs/{name}/ai/aliases", operation_id = "list_org_model_aliases", tag = "AI gateway",
    params(("name" = String, Path, description = "The organization's name")),
    responses((status = 200, description = "The names", body = ModelAliasList)),
)]
pub async fn for_org(
    State(app): State<App>,
    OrgAccess(org): OrgAccess<Member>,
) -> Result<Json<ModelAliasList>, ApiError> {
    Ok(Json(view(model_aliases::find_for_org(&app.db, &org).await?)))
}

/// Sets an organization's aliases for models, replacing the previous ones.
///
/// They apply to the organization's keys, as described for `PUT /ai/aliases`. The change is in force on every edge when
/// the response arrives.
#[utoipa::path(
    put, path = "/orgs/{name}/ai/aliases", operation_id = "set_org_model_aliases", tag = "AI gateway", request_body = SetModelAliases,
    params(("name" = String, Path, description = "The organization's name")),
    responses((status = 200, description = "The names", body = ModelAliasList, headers(("X-Svc-Propagation")))),
    extensions(("x-errors" = json!({
        "forbidden": "only admins and owners of the organization may",
    }))),
)]
pub async fn set_for_org(
    State(app): State<App>,
    caller: CliUser,
    OrgAccess(org): OrgAccess<Admin>,
    Json(body): Json<SetModelAliases>,
) -> Result<impl IntoResponse, ApiError> {
    check_models(&app, &body.aliases)?;
    let mut change = app.change(caller.actor()).await?;
    let org = permits::lock(&mut change, org).await?;
    model_aliases::set_for_org(&mut change, &org, &body.aliases).await?;
    let names = body.aliases.iter().map(|alias| alias.name.as_str()).collect::<Vec<_>>().join(" ");
    change.audit(NewAuditEntry::for_org(Action::GatewayAliases, &org.id, &org.name).with("names", names));
    change.touch(ChangeSubject::Plan(Account::Org(org.id.clone()).into()));
    Ok((change.commit().await?, Json(view(body.aliases))))
}

/// Rejects aliases for models that do not exist.
fn check_models(app: &App, aliases: &ModelAliases) -> Result<(), ApiError> {
    let models = &app.config.gateway.models;
    match aliases.iter().find(|alias| !models.contains_key(&alias.model)) {
        Some(alias) => Err(ApiError::invalid(format!(
            "`aliases`: {} is none of the models that GET /ai/models lists.",
            alias.model
        ))),
        None => Ok(()),
    }
}

fn view(aliases: ModelAliases) -> ModelAliasList {
    ModelAliasList { aliases }
}
