//! `/sessions`: a person's sessions on the console.

use admin_http::{
    error::ApiError,
    extract::{Json, Path},
};
use api::{
    Done,
    sessions::{Session, SessionList},
};
use app::{
    App,
    auth::{CliUser, Credential, cookies, session},
};
use axum::{
    extract::State,
    http::header,
    response::{AppendHeaders, IntoResponse},
};
use db::sign_in::sessions;
use domain::SessionId;

/// Lists your console sessions, newest first.
///
/// The session that makes the request is marked as `current`.
#[utoipa::path(
    get, path = "/sessions", operation_id = "list_sessions", tag = "Sessions",
    responses((status = 200, description = "The sessions", body = SessionList)),
)]
pub async fn list(State(app): State<App>, caller: CliUser) -> Result<Json<SessionList>, ApiError> {
    let found = sessions::list_for_user(&app.db, &caller.user.id, app.clock.now()).await?;
    let view = |session: sessions::Session| Session {
        current: is_current(&caller, &session.id),
        id: session.id,
        browser: session.browser,
        created_at: session.created_at,
        last_used_at: Some(session.last_used_at),
    };
    Ok(Json(SessionList { sessions: found.into_iter().map(view).collect() }))
}

/// Signs you out in one browser.
///
/// The session's next request is refused, and organizations' sites no longer admit the browser. They admit your other
/// browsers again by their own sessions.
#[utoipa::path(
    delete, path = "/sessions/{id}", operation_id = "end_session", tag = "Sessions",
    params(("id" = String, Path, description = "The session's id")),
    responses((status = 200, description = "The session has ended", body = Done, headers(("Set-Cookie"), ("X-Svc-Propagation")))),
    extensions(("x-errors" = json!({
        "not_found": "you have no such session, or it has ended before",
    }))),
)]
pub async fn end(
    State(app): State<App>,
    caller: CliUser,
    Path(id): Path<SessionId>,
) -> Result<impl IntoResponse, ApiError> {
    let ended = session::end(&app, caller.actor(), &caller.user.id, &id).await?;
    let propagation = ended.ok_or_else(|| ApiError::not_found("session"))?;
    Ok((propagation, clear_session_cookie(is_current(&caller, &id)), Json(Done::OK)))
}

/// Signs you out in every browser, including this one, and on every site of an organization that admitted you.
///
/// Tokens stay valid.
#[utoipa::path(
    delete, path = "/sessions", operation_id = "end_all_sessions", tag = "Sessions",
    responses((
        status = 200, description = "All sessions have ended", body = Done, headers(("Set-Cookie"), ("X-Svc-Propagation")),
    )),
)]
pub async fn end_all(State(app): State<App>, caller: CliUser) -> Result<impl IntoResponse, ApiError> {
    let propagation = session::end_all(&app, caller.actor(), &caller.user.id).await?;
    Ok((propagation, clear_session_cookie(matches!(caller.credential, Credential::Session(_))), Json(Done::OK)))
}

fn is_current(caller: &CliUser, id: &SessionId) -> bool {
    matches!(&caller.credential, Credential::Session(current) if current == id)
}

/// Returns the header that removes the session's cookie, if the caller's own session was ended.
fn clear_session_cookie(is_own: bool) -> AppendHeaders<Option<(header::HeaderName, header::HeaderValue)>> {
    AppendHeaders(is_own.then(|| (header::SET_COOKIE, cookies::clear(cookies::SESSION))))
}
