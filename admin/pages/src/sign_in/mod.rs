//! `/sign-in`: at the code host ([`code_host`]), or with the operator's secret ([`local`]).
//!
//! Either way, a new session starts in the browser in which the person proved their identity, and the browser returns
//! to the page of the console that it came from.

pub(super) mod code_host;
pub(super) mod local;

use ::code_host::{self as codehost, SignedIn};
use admin_http::{
    addresses::{ConsolePath, paths, with_return_path},
    extract::Query,
    html,
};
use app::{
    App,
    auth::{WebUser, session},
    rates::Bucket,
};
use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use config::CodeHostKind;
use serde::Deserialize;

use super::PageError;

#[derive(Debug, Default, Deserialize)]
pub(super) struct SignInQuery {
    /// The page to go to afterwards.
    #[serde(default)]
    return_to: String,
    /// Present if the person wants to sign in with a different account than the session's or the code host's.
    switch: Option<String>,
}

/// Shows the sign-in page, or redirects onward if the person is signed in.
pub(super) async fn show(
    State(app): State<App>,
    headers: HeaderMap,
    Query(query): Query<SignInQuery>,
) -> Result<Response, PageError> {
    let back = ConsolePath::parse(&query.return_to);
    if query.switch.is_none() && WebUser::find(&app, &headers).await?.is_some() {
        return Ok(html::see_other(&app.console.url(&back)));
    }
    Ok(match app.config.code_host.kind {
        CodeHostKind::Local => local::form_page(&app, StatusCode::OK, &back, "", None),
        CodeHostKind::Github if app.config.code_host.client_id.is_empty() => html::message(
            StatusCode::SERVICE_UNAVAILABLE,
            "Not set up yet",
            "Nobody can sign in yet: that needs `code_host.client_id` and `code_host.client_secret`, which the operator has \
             not set. Sites are served meanwhile.",
        ),
        CodeHostKind::Github if app.config.code_host.client_secret.is_empty() => html::message(
            StatusCode::SERVICE_UNAVAILABLE,
            "Not set up yet",
            "Signing in here needs `code_host.client_secret`, which the operator has not set. Until then \
             `svc login` signs you in.",
        ),
        CodeHostKind::Github => code_host::sign_in_page(&app, &back, query.switch.is_some()),
    })
}

/// Starts a session for `person` in this browser, and returns the redirect to `back`.
async fn start_session(
    app: &App,
    person: SignedIn,
    headers: &HeaderMap,
    back: &ConsolePath,
) -> Result<Response, PageError> {
    // Nobody is kept out by signing in too often; the audit log just holds no more of it.
    let counted = app.rate_limits.count(Bucket::RecordedSignIn, &person.identity.vcs_id).await;
    let mut tx = app.db.begin().await?;
    let user = codehost::admit_user(&mut tx, &app.master_key, person, app.clock.now()).await?;
    let session = session::start_session(&mut tx, app, &user, headers, counted.check().is_ok()).await?;
    tx.commit().await?;
    session.announce(app, &user);
    for person in &session.ended {
        session::end_visits(app, person).await?;
    }
    let mut answer = html::see_other(&app.console.url(back));
    answer.headers_mut().append(header::SET_COOKIE, session.cookie);
    Ok(answer)
}

/// Returns the site's origin if sign-in leads through its gate: the page's policy also applies to a form's redirects.
fn gated_origin(app: &App, back: &ConsolePath) -> Option<String> {
    let host = back.gated_host()?;
    let is_name = host.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.');
    is_name.then(|| app.console.site_origin(&host))
}

/// Returns the path of the sign-in page, which redirects to `back` afterwards; `switch` asks for another account.
pub(super) fn sign_in_path(back: &ConsolePath, switch: bool) -> String {
    let path = with_return_path(paths::SIGN_IN, back);
    if switch { format!("{path}&switch=1") } else { path }
}
