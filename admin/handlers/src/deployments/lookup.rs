//! `/deployments/:id`: finds the project of a deployment by the deployment's id.

use admin_http::{
    error::ApiError,
    extract::{Json, Path},
};
use api::deployments::DeploymentProject;
use app::{App, auth::CliUser};
use axum::extract::State;
use domain::{Account, DeploymentId};

/// Shows which project a deployment belongs to.
///
/// For clients that know a deployment's id and not its project.
#[utoipa::path(
    get, path = "/deployments/{id}", operation_id = "find_deployment", tag = "Deployments",
    params(("id" = String, Path, description = "The deployment's id")),
    responses((status = 200, description = "The project", body = DeploymentProject)),
    extensions(("x-errors" = json!({
        "not_found": "no such deployment, or none of a project of yours",
    }))),
)]
pub async fn project(
    State(app): State<App>,
    caller: CliUser,
    Path(id): Path<DeploymentId>,
) -> Result<Json<DeploymentProject>, ApiError> {
    let now = app.clock.now();
    let project =
        db::in_time(db::projects::lookup::find_by_deployment(&app.db, &Account::User(caller.user.id), &id, now))
            .await?;
    let project = project.ok_or_else(|| ApiError::not_found("deployment"))?;
    Ok(Json(DeploymentProject { id, project }))
}
