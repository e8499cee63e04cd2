//! Ending sessions: this browser's, another one of the person's, or all of them.

use admin_http::{addresses::ConsolePath, extract::read_body, html};
use app::{
    App,
    auth::{
        WebUser,
        cookies::{self, SESSION},
        session,
    },
};
use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, Method, header},
    response::Response,
};
use db::{audit::Actor, sign_in::sessions};
use serde::Deserialize;

use super::{PageError, sign_in};

/// The fields of all three forms. Each form sends only those that it needs.
#[derive(Default, Deserialize)]
struct SignOutForm {
    #[serde(default)]
    session: String,
    /// The page to return to; set if the person wants to sign in as somebody else.
    return_to: Option<String>,
}

/// Ends this browser's session, and the person's visits to gated sites. Without a session, the response is the same.
pub(super) async fn this_browser(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, PageError> {
    if !session::is_from_console(&app, &Method::POST, &headers) {
        return Ok(session::foreign_form());
    }
    let form = read_form(body).await?;
    if let Some(secret) = cookies::secret(&headers, SESSION)
        && let Some((own, user)) = sessions::find(&app.db, &secret.hash(), app.clock.now()).await?
    {
        session::end(&app, Actor::user(&user, None), &user.id, &own.id).await?;
    }
    let next = match form.return_to {
        Some(back) => format!("{}{}", app.console.origin(), sign_in::sign_in_path(&ConsolePath::parse(&back), true)),
        None => app.console.url(&ConsolePath::home()),
    };
    Ok(signed_out(&next))
}

/// Ends all of the person's sessions, and their visits to gated sites.
pub(super) async fn everywhere(State(app): State<App>, person: WebUser) -> Result<Response, PageError> {
    session::end_all(&app, Actor::user(&person.user, None), &person.user.id).await?;
    Ok(signed_out(&app.console.url(&ConsolePath::home())))
}

pub(super) async fn one_session(State(app): State<App>, person: WebUser, body: Body) -> Result<Response, PageError> {
    if let Ok(id) = read_form(body).await?.session.parse() {
        session::end(&app, Actor::user(&person.user, None), &person.user.id, &id).await?;
    }
    Ok(html::see_other(&app.console.url(&ConsolePath::home())))
}

async fn read_form(body: Body) -> Result<SignOutForm, PageError> {
    Ok(serde_urlencoded::from_bytes(&read_body(body).await?).unwrap_or_default())
}

fn signed_out(location: &str) -> Response {
    let mut answer = html::see_other(location);
    answer.headers_mut().append(header::SET_COOKIE, cookies::clear(SESSION));
    answer
}
