//! Sessions of the console. The cookie belongs to the console's host, so the API gets it only below the console's
//! `/api`.
//!
//! Pages of the console extract a [`WebUser`]: people who are not signed in are redirected to the sign-in page and
//! back, and a form is accepted only if a page of the console sent it. The API accepts a session as a person's
//! credential ([`find_via_console`]) under the same condition.

use admin_http::{addresses::ConsolePath, error::ApiError, html};
use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts},
    response::{IntoResponse as _, Response},
};
use db::{
    audit::{self, Actor, NewAuditEntry},
    sign_in::{
        sessions::{self, Session},
        users::User,
    },
};
use domain::{SessionId, Timestamp, UserId, audit::Action, limits::SESSION_LIFE, opaque::OpaqueSecret};
use sqlx::PgConnection;

use super::{
    AuthOutcome, Caller, CliUser, Credential, CredentialError,
    cookies::{self, SESSION},
};
use crate::{App, edges::Propagation};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// A request extension that marks a request as having reached the API through the console's host.
#[derive(Debug, Clone, Copy)]
pub struct ViaConsole;

/// A person signed in on the console, as an extractor for its pages.
#[derive(Debug, Clone)]
pub struct WebUser {
    /// The session.
    pub session: Session,
    /// The person to whom the session belongs.
    pub user: User,
}

impl WebUser {
    /// Finds the session of the request's cookie.
    pub async fn find(app: &App, headers: &HeaderMap) -> Result<Option<Self>, ApiError> {
        let Some(secret) = cookies::secret(headers, SESSION) else { return Ok(None) };
        let found = db::in_time(sessions::find(&app.db, &secret.hash(), app.clock.now())).await?;
        Ok(found.map(|(session, user)| Self { session, user }))
    }

    /// Converts to the principal that the API uses.
    pub fn into_caller(self) -> CliUser {
        CliUser { credential: Credential::Session(self.session.id), user: self.user }
    }
}

impl FromRequestParts<App> for WebUser {
    /// A redirect to the sign-in page, or a page with the reason for the refusal.
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Response> {
        if !parts.method.is_safe() && !is_from_console(app, &parts.method, &parts.headers) {
            return Err(foreign_form());
        }
        match Self::find(app, &parts.headers).await {
            Ok(Some(user)) => Ok(user),
            Ok(None) => {
                let here = parts.uri.path_and_query().map_or("/", |path| path.as_str());
                // A redirect cannot send a form again, so its sender returns to the front page.
                let back = if parts.method.is_safe() { here } else { "/" };
                Err(html::see_other(&app.console.sign_in(&ConsolePath::parse(back))))
            }
            Err(error) => Err(error.into_response()),
        }
    }
}

/// A session that was started.
pub struct StartedSession {
    /// Its `Set-Cookie`.
    pub cookie: HeaderValue,
    /// The people of whom sessions ended in its favor. Call [`end_visits`] for each once the transaction is committed.
    pub ended: Vec<UserId>,
    /// The entry of the audit log, if one was written, and its time.
    recorded: Option<(NewAuditEntry, Timestamp)>,
}

impl StartedSession {
    /// Tells the person's event streams of the sign-in. Call it once the transaction is committed.
    pub fn announce(&self, app: &App, user: &User) {
        if let Some((entry, at)) = &self.recorded {
            app.events.publish_entry(entry, Actor::user(user, None), *at);
        }
    }
}

/// Starts a session, with an entry in the audit log if it `is_recorded`. Ends the browser's previous session, whose
/// secret stops working.
pub async fn start_session(
    conn: &mut PgConnection,
    app: &App,
    user: &User,
    headers: &HeaderMap,
    is_recorded: bool,
) -> Result<StartedSession, sqlx::Error> {
    let mut ended = Vec::new();
    if let Some(former) = cookies::secret(headers, SESSION)
        && let Some(owner) = sessions::end_by_secret(&mut *conn, &former.hash()).await?
        && owner != user.id
    {
        ended.push(owner);
    }
    let secret = OpaqueSecret::generate();
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let (browser, now) = (browser_name(agent), app.clock.now());
    if sessions::create(&mut *conn, &user.id, &secret.hash(), &browser, now).await? {
        ended.push(user.id.clone());
    }
    let mut recorded = None;
    if is_recorded {
        let entry = NewAuditEntry::for_person(Action::SessionCreate, &user.id).with("browser", browser);
        audit::record(conn, Actor::user(user, None), &entry, now).await?;
        recorded = Some((entry, now));
    }
    Ok(StartedSession { cookie: cookies::set(SESSION, &secret, SESSION_LIFE), ended, recorded })
}

/// Closes the gated sites that admitted a person, of whom a session has ended. Their other sessions are admitted again.
pub async fn end_visits(app: &App, user: &UserId) -> Result<(), sqlx::Error> {
    let mut change = app.change(Actor::Platform).await?;
    let touched = sessions::end_visits(&mut change, user).await?;
    change.touch(touched);
    change.commit().await.map(drop)
}

/// Ends a session in the name of `actor`, and closes the gated sites that admitted the browser. Returns `None` if `user`
/// has no such session.
pub async fn end(
    app: &App,
    actor: Actor<'_>,
    user: &UserId,
    id: &SessionId,
) -> Result<Option<Propagation>, sqlx::Error> {
    let mut change = app.change(actor).await?;
    let Some(ended) = sessions::end(&mut change, user, id).await? else { return Ok(None) };
    let entry = NewAuditEntry::for_person(Action::SessionEnd, user).with("session", id.as_str());
    change.audit(entry.with("browser", ended.browser));
    change.touch(ended.touched);
    // Ends the session's event stream.
    change.recheck_credentials(user);
    change.commit().await.map(Some)
}

/// Ends all sessions of a person, and closes the gated sites that admitted them.
pub async fn end_all(app: &App, actor: Actor<'_>, user: &UserId) -> Result<Propagation, sqlx::Error> {
    let mut change = app.change(actor).await?;
    let touched = sessions::end_all(&mut change, user).await?;
    change.touch(touched);
    change.audit(NewAuditEntry::for_person(Action::SessionEnd, user));
    change.commit().await
}

/// Finds the session of a request that came through the console's host. The session is accepted only if a page of the
/// console made the request: browsers also add the cookie to requests that other sites cause.
pub(super) async fn find_via_console(app: &App, method: &Method, headers: &HeaderMap) -> Result<AuthOutcome, ApiError> {
    if cookies::secret(headers, SESSION).is_none() {
        return Ok(AuthOutcome::Absent);
    }
    if !is_from_console(app, method, headers) {
        return Ok(AuthOutcome::Refused(CredentialError::ForeignOrigin));
    }
    Ok(match WebUser::find(app, headers).await? {
        Some(person) => AuthOutcome::Known(Caller::User(person.into_caller()).into()),
        None => AuthOutcome::Refused(CredentialError::SignedOut),
    })
}

/// Returns whether a page of the console made the request. Browsers send `Origin` with every request that may change
/// something, and omit it for reads from the page's own origin; `Sec-Fetch-Site`, which pages cannot set, then tells.
pub fn is_from_console(app: &App, method: &Method, headers: &HeaderMap) -> bool {
    let mut origins = headers.get_all(header::ORIGIN).into_iter();
    match (origins.next(), origins.next()) {
        (Some(origin), None) => origin.as_bytes() == app.console.origin().as_bytes(),
        (None, None) => method.is_safe() && headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "same-origin"),
        _ => false,
    }
}

/// Returns the response to a form that was not sent by a page of the console.
pub fn foreign_form() -> Response {
    let sentence = "This form was sent from another place than the console, so nothing was done. Please use the console's \
                    own pages.";
    html::message(StatusCode::FORBIDDEN, "Not from here", sentence)
}

/// Returns a browser's name as people know it, such as "Firefox on Linux". Nothing more precise is stored.
fn browser_name(agent: &str) -> String {
    // The order matters: each of these also names those after it, for compatibility.
    let programs = [
        ("Edg", "Edge"),
        ("OPR/", "Opera"),
        ("Firefox/", "Firefox"),
        ("Chromium/", "Chromium"),
        ("Chrome/", "Chrome"),
        ("Safari/", "Safari"),
    ];
    let systems = [
        ("iPhone", "iPhone"),
        ("iPad", "iPad"),
        ("Android", "Android"),
        ("Windows", "Windows"),
        ("Mac OS X", "macOS"),
        ("Linux", "Linux"),
    ];
    let named =
        |list: &[(&str, &'static str)]| list.iter().find(|(mark, _)| agent.contains(mark)).map(|(_, name)| *name);
    match (named(&programs), named(&systems)) {
        (Some(program), Some(system)) => format!("{program} on {system}"),
        (Some(name), None) | (None, Some(name)) => name.to_owned(),
        (None, None) => "A browser".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_named_as_people_know_them() {
        for (agent, name) in [
            ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 \
                 Safari/605.1.15",
                "Safari on macOS",
            ),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 \
                 Safari/537.36 Edg/140.0.0.0",
                "Edge on Windows",
            ),
            ("curl/8.0", "A browser"),
            ("", "A browser"),
        ] {
            assert_eq!(browser_name(agent), name);
        }
    }
}
