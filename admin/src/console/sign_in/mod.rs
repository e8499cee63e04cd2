//! `/sign-in`: at the code host ([`code_host`]), or with the operator's secret ([`local`]).
//!
//! Either ends in a new session for whoever has proved to be that person in this very browser, and leads back to where
//! they came from: a page of the console, always.

pub(super) mod code_host;
pub(super) mod local;

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use config::CodeHostKind;
use db::users::User;
use serde::Deserialize;
use sqlx::PgConnection;

use super::{
    OwnPath, Problem,
    addresses::{paths, with_back},
    message,
};
use crate::{
    app::App,
    auth::{WebUser, session},
    extract::Query,
    pages::{self, escape},
};

/// What links to the sign-in page carry.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Asked {
    /// Where to go afterwards.
    #[serde(default)]
    return_to: String,
    /// Present when the person wants to be somebody else than the session or the code host says.
    switch: Option<String>,
}

/// The page on which a person chooses to sign in.
pub(super) async fn show(
    State(app): State<App>,
    headers: HeaderMap,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    let back = OwnPath::parse(&asked.return_to);
    if asked.switch.is_none() && WebUser::find(&app, &headers).await?.is_some() {
        return Ok(pages::see_other(&app.console.url(&back)));
    }
    Ok(match app.config.code_host.kind {
        CodeHostKind::Local => local::form(&app, StatusCode::OK, &back, "", None),
        CodeHostKind::Github if app.config.code_host.client_secret.is_empty() => message(
            StatusCode::SERVICE_UNAVAILABLE,
            "Not set up yet",
            "Signing in here needs <code>code_host.client_secret</code>, which the operator has not set. Until then \
             <code>svc login</code> signs you in.",
        ),
        CodeHostKind::Github => code_host::invitation(&app, &back, asked.switch.is_some()),
    })
}

/// Signs `user` in, in this browser: the answer that leads back.
async fn signed_in(
    app: &App,
    conn: &mut PgConnection,
    user: &User,
    headers: &HeaderMap,
    back: &OwnPath,
) -> Result<Response, Problem> {
    let cookie = session::begin(conn, app, user, headers).await?;
    let mut answer = pages::see_other(&app.console.url(back));
    answer.headers_mut().append(header::SET_COOKIE, cookie);
    Ok(answer)
}

/// What the page says of why one signs in, as HTML.
fn reason(back: &OwnPath) -> String {
    match back.gated_host() {
        Some(host) => format!(
            "<p><strong class=\"host\">{}</strong> is open to the members of an organization. Sign in to show that you \
             are one.</p>",
            escape(&host)
        ),
        None => "<p>Publish sites, share pages, and work on them together.</p>".to_owned(),
    }
}

/// Where a form on this page may lead in the end: browsers hold the redirects after a form to it as well.
fn form_targets(app: &App, back: &OwnPath) -> Option<String> {
    let host = back.gated_host()?;
    let is_name = host.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.');
    is_name.then(|| app.console.site_origin(&host))
}

/// The way to sign in again, as another person if `switch`.
pub(super) fn again(back: &OwnPath, switch: bool) -> String {
    let path = with_back(paths::SIGN_IN, back);
    if switch { format!("{path}&switch=1") } else { path }
}
