//! Signing in at the code host: its web flow with PKCE, and with a state that belongs to one browser and works once.
//!
//! The state in the address is valid only with the cookie of the browser that started the flow, and with a database row
//! that is deleted on use: a browser that is lured to the callback with another's state is not signed in.

use admin_http::{
    addresses::{ConsolePath, paths, with_return_path},
    error::{ApiError, Code},
    extract::Query,
    html::{self, MessagePage, PageLink},
};
use app::{
    App,
    auth::cookies::{self, SIGN_IN},
    middleware::client::ClientAddress,
    rates::{self, Bucket},
};
use askama::Template;
use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use code_host::{CodeHostError, WebSignIn};
use db::sign_in::sign_ins::{self, SignIn};
use domain::{limits::SIGN_IN_LIFE, opaque::OpaqueSecret};
use secrecy::SecretString;
use secrets::KeyPurpose;
use serde::Deserialize;
use subtle::ConstantTimeEq as _;

use super::{SignInQuery, sign_in_path, start_session};
use crate::PageError;

#[derive(Template)]
#[template(path = "sign_in/code_host.html")]
struct CodeHostSignInPage<'a> {
    code_host: &'a str,
    /// The host of the site that the person wants to see.
    gated_host: Option<String>,
    begin: &'a str,
}

/// Returns the page that offers to sign in at the code host; with `switch`, using a different account.
pub(super) fn sign_in_page(app: &App, back: &ConsolePath, switch: bool) -> Response {
    let mut begin = with_return_path(paths::BEGIN, back);
    if switch {
        begin.push_str("&switch=1");
    }
    let page = CodeHostSignInPage { code_host: &app.code_host.name(), gated_host: back.gated_host(), begin: &begin };
    html::page(StatusCode::OK, &page)
}

/// Starts a sign-in: stores its state and redirects to the code host.
pub(crate) async fn begin(
    State(app): State<App>,
    Extension(ClientAddress(client)): Extension<ClientAddress>,
    headers: HeaderMap,
    Query(query): Query<SignInQuery>,
) -> Result<Response, PageError> {
    app.rate_limits.count_client(Bucket::SignIn, &rates::client(client)).await.check()?;
    let back = ConsolePath::parse(&query.return_to);
    let (state, verifier) = (OpaqueSecret::generate(), OpaqueSecret::generate());
    let request = WebSignIn {
        redirect_uri: &app.console.callback(),
        state: state.expose(),
        // S256 in RFC 7636 hashes the encoded text.
        challenge: &domain::opaque::encode(&verifier.hash()),
        choose_account: query.switch.is_some(),
    };
    let Some(location) = app.code_host.web_flow().map(|flow| flow.address(&request)) else {
        return Err(ApiError::not_found("page").into());
    };
    // Keep an existing cookie: one browser may have several pending sign-ins.
    let browser = cookies::secret(&headers, SIGN_IN).unwrap_or_else(OpaqueSecret::generate);
    let state_hash = state.hash();
    let sign_in = SignIn {
        browser_hash: browser.hash().to_vec(),
        sealed_verifier: app.master_key.seal(KeyPurpose::SignIns, &state_hash, verifier.expose().as_bytes()),
        return_to: back.as_str().to_owned(),
        expires_at: app.clock.now() + SIGN_IN_LIFE,
    };
    sign_ins::insert(&app.db, &state_hash, &sign_in).await?;
    let mut answer = html::see_other(&location);
    answer.headers_mut().append(header::SET_COOKIE, cookies::set(SIGN_IN, &browser, SIGN_IN_LIFE));
    Ok(answer)
}

/// The query with which the code host redirects the browser back.
#[derive(Deserialize)]
pub(crate) struct CallbackQuery {
    #[serde(default)]
    state: String,
    code: Option<String>,
    error: Option<String>,
}

/// Finishes a sign-in that started in this browser.
pub(crate) async fn finish(
    State(app): State<App>,
    headers: HeaderMap,
    Query(callback): Query<CallbackQuery>,
) -> Result<Response, PageError> {
    let Some(state) = OpaqueSecret::parse(&callback.state) else { return Ok(not_started_here()) };
    let state_hash = state.hash();
    let Some(sign_in) = sign_ins::take(&app.db, &state_hash).await? else { return Ok(not_started_here()) };
    let browser = cookies::secret(&headers, SIGN_IN).map(|browser| browser.hash());
    let is_same = browser.is_some_and(|hash| hash.ct_eq(&sign_in.browser_hash).into());
    if !is_same || sign_in.expires_at <= app.clock.now() {
        return Ok(not_started_here());
    }
    let back = ConsolePath::parse(&sign_in.return_to);
    let Some(code) = callback.code.filter(|_| callback.error.is_none()) else {
        return Ok(declined(&app, &back, callback.error.as_deref()));
    };
    // Fails if the master key was rotated in between.
    let Ok(verifier) = app.master_key.open(KeyPurpose::SignIns, &state_hash, &sign_in.sealed_verifier) else {
        return Ok(not_started_here());
    };
    let verifier = String::from_utf8(verifier).map_err(ApiError::internal)?;
    let (code, verifier) = (SecretString::from(code), SecretString::from(verifier));
    let redirect_uri = app.console.callback();
    // `None` if the configuration changed in between.
    let Some(flow) = app.code_host.web_flow() else { return Ok(not_started_here()) };
    let Some(person) = flow.redeem(&code, &verifier, &redirect_uri).await.map_err(code_host_failed)? else {
        return Ok(not_started_here());
    };
    // Let the cookie expire by itself: another tab may be on its way back.
    start_session(&app, person, &headers, &back).await
}

fn code_host_failed(error: CodeHostError) -> ApiError {
    let message = "The code host does not answer as it should; please sign in again in a moment.";
    ApiError::new(Code::CodeHostError, message).caused_by(error)
}

/// The page for a state that is unknown, used, expired or another browser's, without saying which.
fn not_started_here() -> Response {
    let page = MessagePage {
        title: "Please sign in again",
        sentence: "This sign-in was not begun in this browser, took longer than fifteen minutes, or was finished already. \
                   Nothing has changed.",
        link: Some(PageLink { href: paths::SIGN_IN, label: "Sign in", is_button: true }),
    };
    html::page(StatusCode::BAD_REQUEST, &page)
}

fn declined(app: &App, back: &ConsolePath, error: Option<&str>) -> Response {
    let name = app.code_host.name();
    let sentence = match error {
        Some("access_denied") => format!("You said no at {name}, so you are not signed in. Nothing has changed."),
        _ => format!("{name} did not sign you in. Nothing has changed."),
    };
    let link = PageLink { href: &sign_in_path(back, true), label: "Try again", is_button: true };
    html::page(StatusCode::FORBIDDEN, &MessagePage { title: "Not signed in", sentence: &sentence, link: Some(link) })
}
