//! Ending sessions: this browser's, another of the person's, or all of them at once.

use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, Method, header},
    response::Response,
};
use db::sessions;
use serde::Deserialize;

use super::{OwnPath, Problem, sign_in};
use crate::{
    app::App,
    auth::{
        WebUser,
        cookies::{self, SESSION},
        session,
    },
    extract::read_body,
    pages,
};

#[derive(Default, Deserialize)]
struct Form {
    /// The session to end.
    #[serde(default)]
    session: String,
    /// Set when the person wants to come back here as somebody else.
    return_to: Option<String>,
}

/// Ends this browser's session. Works without one as well: who is signed out is signed out.
pub(super) async fn here(State(app): State<App>, headers: HeaderMap, body: Body) -> Result<Response, Problem> {
    if !session::is_consoles_own(&app, &Method::POST, &headers) {
        return Ok(session::foreign_form());
    }
    let form = read(body).await?;
    if let Some(secret) = cookies::secret(&headers, SESSION) {
        sessions::end_by_secret(&app.db, &secret.hash()).await?;
    }
    let next = match form.return_to {
        Some(back) => format!("{}{}", app.console.origin(), sign_in::again(&OwnPath::parse(&back), true)),
        None => app.console.url(&OwnPath::home()),
    };
    Ok(leaving(&next))
}

/// Ends all of the person's sessions, and their visits to gated sites.
pub(super) async fn everywhere(State(app): State<App>, person: WebUser) -> Result<Response, Problem> {
    let mut tx = app.db.begin().await?;
    let change = sessions::end_all(&mut tx, &person.user.id, app.clock.now()).await?;
    tx.commit().await?;
    app.edges.apply(change).await;
    Ok(leaving(&app.console.url(&OwnPath::home())))
}

/// Ends one of the person's sessions.
pub(super) async fn elsewhere(State(app): State<App>, person: WebUser, body: Body) -> Result<Response, Problem> {
    if let Ok(id) = read(body).await?.session.parse() {
        sessions::end(&app.db, &person.user.id, &id).await?;
    }
    Ok(pages::see_other(&app.console.url(&OwnPath::home())))
}

async fn read(body: Body) -> Result<Form, Problem> {
    Ok(serde_urlencoded::from_bytes(&read_body(body).await?).unwrap_or_default())
}

fn leaving(location: &str) -> Response {
    let mut answer = pages::see_other(location);
    answer.headers_mut().append(header::SET_COOKIE, cookies::clear(SESSION));
    answer
}
