//! `/projects/:name/env`: environment variables.

use admin_http::{
    error::ApiError,
    extract::{Json, Path},
};
use api::{
    Done,
    env::{EnvChanged, EnvList, EnvVar, SetEnv},
};
use app::{
    App,
    auth::{CliUser, ProjectAccess},
};
use axum::extract::State;
use db::{
    audit::NewAuditEntry,
    permits::Member,
    projects::env::{self},
};
use domain::{audit::Action, env::EnvKey};
use serde::Deserialize;

/// The variable of the path. The project of the path is in [`ProjectAccess`].
#[derive(Debug, Deserialize)]
pub struct VariablePath {
    key: String,
}

impl VariablePath {
    fn key(&self) -> Result<EnvKey, ApiError> {
        self.key.parse().map_err(|error| ApiError::invalid(format!("{error}.")))
    }
}

/// Lists a project's environment variables with their values, newest first.
///
/// The project's members see the values.
#[utoipa::path(
    get, path = "/projects/{name}/env", operation_id = "list_env_vars", tag = "Environment",
    params(("name" = String, Path, description = "The project's name")),
    responses((status = 200, description = "The variables", body = EnvList)),
)]
pub async fn list(
    State(app): State<App>,
    ProjectAccess(project): ProjectAccess<Member>,
) -> Result<Json<EnvList>, ApiError> {
    let rows = env::list(&app.db, &project).await?;
    let open = |row: env::StoredVariable| {
        let value = row.open(&app.master_key, &project.id).map_err(ApiError::internal)?;
        Ok(EnvVar { key: row.key, value, scope: row.scope })
    };
    Ok(Json(EnvList { env: rows.into_iter().map(open).collect::<Result<_, ApiError>>()? }))
}

/// Sets an environment variable of a project.
///
/// A project has at most 200 variables, with 512 KB of values in total.
#[utoipa::path(
    put, path = "/projects/{name}/env/{key}", operation_id = "set_env_var", tag = "Environment", request_body = SetEnv,
    params(
        ("name" = String, Path, description = "The project's name"),
        ("key" = EnvKey, Path, description = "The variable's name: letters, digits and underscores, no digit first"),
    ),
    responses((status = 200, description = "The variable was set", body = EnvChanged)),
    extensions(("x-errors" = json!({
        "invalid_request": "the key, the value or the scope breaks a rule, or the project has too many variables",
    }))),
)]
pub async fn set(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Member>,
    Path(named): Path<VariablePath>,
    Json(body): Json<SetEnv>,
) -> Result<Json<EnvChanged>, ApiError> {
    let key = named.key()?;
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let scope = env::set(&mut change, &app.master_key, &project, (&key, &body.value, body.scope), now).await?;
    // The key, but never the value.
    let entry = NewAuditEntry::for_project(Action::EnvSet, &project).with("key", key.as_str());
    change.audit(entry.with("scope", scope.as_str()));
    change.commit().await?;
    Ok(Json(EnvChanged { ok: true, key, scope }))
}

/// Removes an environment variable of a project.
///
/// The value is lost: it is not kept elsewhere.
#[utoipa::path(
    delete, path = "/projects/{name}/env/{key}", operation_id = "remove_env_var", tag = "Environment",
    params(
        ("name" = String, Path, description = "The project's name"),
        ("key" = EnvKey, Path, description = "The variable's name"),
    ),
    responses((status = 200, description = "The variable was removed", body = Done)),
)]
pub async fn remove(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Member>,
    Path(named): Path<VariablePath>,
) -> Result<Json<Done>, ApiError> {
    let no_variable = || ApiError::not_found("variable");
    // Text that is not a valid key is not found.
    let key = named.key().map_err(|_| no_variable())?;
    let mut change = app.change(caller.actor()).await?;
    if !env::remove(&mut change, &project, &key).await? {
        return Err(no_variable());
    }
    change.audit(NewAuditEntry::for_project(Action::EnvRemove, &project).with("key", key.as_str()));
    change.commit().await?;
    Ok(Json(Done::OK))
}
