//! `GET /vcs`: the installations of our app that the caller may use.

use std::{cmp::Reverse, collections::HashMap, time::Duration};

use admin_http::{error::ApiError, extract::Json};
use api::vcs::{Installation, InstallationList};
use app::{App, auth::CliUser};
use axum::extract::State;
use code_host::{CodeHostError, grants::AccessError};
use db::code_host::installations::{self, ReportedInstallation, SharedInstallation};
use domain::UserId;

const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// Lists the code host installations that are yours or shared with one of your organizations, newest first.
///
/// An installation is the code host's permission to read a set of repositories.
#[utoipa::path(
    get, path = "/vcs", operation_id = "list_installations", tag = "Code host",
    responses((status = 200, description = "The installations", body = InstallationList)),
    extensions(("x-errors" = json!({
        "code_host_error": "the code host does not answer as it should, or wants you to sign in again",
        "busy": "the server is stopping; try again",
    }))),
)]
pub async fn list(State(app): State<App>, caller: CliUser) -> Result<Json<InstallationList>, ApiError> {
    let own = list_own(&app, &caller.user.id).await?;
    let shared = installations::shared_with_user(&app.db, &caller.user.id).await?;
    Ok(Json(InstallationList { installations: join(own, shared) }))
}

/// Asks the code host which installations a person may use. Empty if the code host has no installations.
pub async fn list_own(app: &App, user: &UserId) -> Result<Vec<ReportedInstallation>, AccessError> {
    let Some(host) = app.code_host.repositories() else { return Ok(Vec::new()) };
    let listing = async {
        let token = app.grants.token(user).await?;
        Ok(host.installations(&token).await?)
    };
    tokio::time::timeout(LIST_TIMEOUT, listing).await.unwrap_or_else(|_| {
        let reason = format!("not within {} s", LIST_TIMEOUT.as_secs());
        Err(CodeHostError::Answer { call: "GET /user/installations", reason }.into())
    })
}

/// Finds one of a person's own installations.
pub async fn find_own(app: &App, user: &UserId, id: i64) -> Result<ReportedInstallation, ApiError> {
    let own = list_own(app, user).await?;
    own.into_iter().find(|seen| seen.id == id).ok_or_else(|| ApiError::not_found("installation"))
}

/// Converts a shared installation to its API view. `mine` is whether the caller shared it.
pub fn view(shared: SharedInstallation, mine: bool) -> Installation {
    Installation {
        id: shared.id,
        account: shared.account,
        account_type: shared.account_type,
        mine,
        org: Some(shared.org),
        shared_by: Some(shared.shared_by_login),
        created_at: shared.created_at,
    }
}

fn join(own: Vec<ReportedInstallation>, shared: Vec<SharedInstallation>) -> Vec<Installation> {
    let mut shared: HashMap<i64, SharedInstallation> = shared.into_iter().map(|shared| (shared.id, shared)).collect();
    let mut joined: Vec<Installation> = own
        .into_iter()
        .map(|seen| match shared.remove(&seen.id) {
            // The code host's response is newer than the stored name.
            Some(known) => Installation { account: seen.account, ..view(known, true) },
            None => Installation {
                id: seen.id,
                account: seen.account,
                account_type: seen.account_type,
                mine: true,
                org: None,
                shared_by: None,
                created_at: seen.created_at,
            },
        })
        .collect();
    joined.extend(shared.into_values().map(|shared| view(shared, false)));
    joined.sort_by_key(|installation| Reverse((installation.created_at, installation.id)));
    joined
}
