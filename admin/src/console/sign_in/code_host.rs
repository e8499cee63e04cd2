//! At the code host: its web flow, with a state that is this browser's alone and works once, and with PKCE.
//!
//! The state in the address only means something together with the cookie of the browser that began, and with the row
//! that the return takes out: whoever is led to the callback with somebody else's state is signed in as nobody.

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use db::sign_ins::{self, SignIn};
use domain::{limits::SIGN_IN_LIFE, opaque::OpaqueSecret};
use secrecy::SecretString;
use secrets::Purpose;
use serde::Deserialize;
use subtle::ConstantTimeEq as _;

use super::{Asked, again, reason, signed_in};
use crate::{
    app::App,
    auth::cookies::{self, SIGN_IN},
    codehost::{self, CodeHostError, WebSignIn},
    console::{
        OwnPath, Problem,
        addresses::{paths, with_back},
    },
    error::{ApiError, Code},
    extract::Query,
    middleware::{
        client::ClientAddress,
        rate_limit::{self, Bucket},
    },
    pages::{self, escape},
};

/// The page that leads to the code host.
pub(super) fn invitation(app: &App, back: &OwnPath, switch: bool) -> Response {
    let mut begin = with_back(paths::BEGIN, back);
    if switch {
        begin.push_str("&switch=1");
    }
    let body = format!(
        "<div class=\"narrow card\"><h1>Sign in</h1>{reason}<p><a class=\"button\" href=\"{begin}\">Continue with {name}</a>\
         </p><p class=\"hint\">{name} asks you whether svc may know your name and address there.</p></div>",
        reason = reason(back),
        begin = escape(&begin),
        name = escape(&app.code_host.name()),
    );
    pages::page(StatusCode::OK, "Sign in", &body)
}

/// Leads to the code host.
pub(in crate::console) async fn begin(
    State(app): State<App>,
    Extension(ClientAddress(client)): Extension<ClientAddress>,
    headers: HeaderMap,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    app.rate_limits.count(Bucket::SignIn, &rate_limit::subject(client)).await.check()?;
    let back = OwnPath::parse(&asked.return_to);
    let (state, verifier) = (OpaqueSecret::generate(), OpaqueSecret::generate());
    let leaving = WebSignIn {
        redirect_uri: &app.console.callback(),
        state: state.expose(),
        // As RFC 7636 defines S256: over the text.
        challenge: &domain::opaque::encode(&verifier.hash()),
        choose_account: asked.switch.is_some(),
    };
    let Some(there) = app.code_host.web_sign_in(&leaving) else { return Err(ApiError::not_found("page").into()) };
    // One browser may have several of them under way.
    let browser = cookies::secret(&headers, SIGN_IN).unwrap_or_else(OpaqueSecret::generate);
    let state_hash = state.hash();
    let sign_in = SignIn {
        browser_hash: browser.hash().to_vec(),
        sealed_verifier: app.master_key.seal(Purpose::SignIns, &state_hash, verifier.expose().as_bytes()),
        return_to: back.as_str().to_owned(),
        expires_at: app.clock.now() + SIGN_IN_LIFE,
    };
    sign_ins::insert(&app.db, &state_hash, &sign_in).await?;
    let mut answer = pages::see_other(&there);
    answer.headers_mut().append(header::SET_COOKIE, cookies::set(SIGN_IN, &browser, SIGN_IN_LIFE));
    Ok(answer)
}

/// What the code host sends back.
#[derive(Deserialize)]
pub(in crate::console) struct Returned {
    #[serde(default)]
    state: String,
    code: Option<String>,
    error: Option<String>,
}

/// The person comes back.
pub(in crate::console) async fn finish(
    State(app): State<App>,
    headers: HeaderMap,
    Query(returned): Query<Returned>,
) -> Result<Response, Problem> {
    let Some(state) = OpaqueSecret::parse(&returned.state) else { return Ok(not_begun_here()) };
    let state_hash = state.hash();
    let Some(sign_in) = sign_ins::take(&app.db, &state_hash).await? else { return Ok(not_begun_here()) };
    let browser = cookies::secret(&headers, SIGN_IN).map(|browser| browser.hash());
    let is_same = browser.is_some_and(|hash| hash.ct_eq(&sign_in.browser_hash).into());
    if !is_same || sign_in.expires_at <= app.clock.now() {
        return Ok(not_begun_here());
    }
    let back = OwnPath::parse(&sign_in.return_to);
    let Some(code) = returned.code.filter(|_| returned.error.is_none()) else {
        return Ok(declined(&app, &back, returned.error.as_deref()));
    };
    // The master key may have been exchanged meanwhile.
    let Ok(verifier) = app.master_key.open(Purpose::SignIns, &state_hash, &sign_in.sealed_verifier) else {
        return Ok(not_begun_here());
    };
    let verifier = String::from_utf8(verifier).map_err(ApiError::internal)?;
    let (code, verifier) = (SecretString::from(code), SecretString::from(verifier));
    let callback = app.console.callback();
    let Some(person) = app.code_host.finish_web_sign_in(&code, &verifier, &callback).await.map_err(unreachable_host)?
    else {
        return Ok(not_begun_here());
    };
    let mut tx = app.db.begin().await?;
    let user = codehost::admit(&mut tx, &app.master_key, person, app.clock.now()).await?;
    // The cookie stays for its quarter of an hour: another tab may be on its way back.
    let answer = signed_in(&app, &mut tx, &user, &headers, &back).await?;
    tx.commit().await?;
    Ok(answer)
}

fn unreachable_host(error: CodeHostError) -> ApiError {
    let message = "The code host does not answer as it should; please sign in again in a moment.";
    ApiError::new(Code::CodeHostError, message).caused_by(error)
}

/// The state is nobody's, was used, is too old, or belongs to another browser: which of them is nobody's business.
fn not_begun_here() -> Response {
    let body = format!(
        "<div class=\"narrow card\"><h1>Please sign in again</h1><p>This sign-in was not begun in this browser, took \
         longer than fifteen minutes, or was finished already. Nothing has changed.</p><p><a class=\"button\" \
         href=\"{}\">Sign in</a></p></div>",
        paths::SIGN_IN
    );
    pages::page(StatusCode::BAD_REQUEST, "Please sign in again", &body)
}

fn declined(app: &App, back: &OwnPath, error: Option<&str>) -> Response {
    let name = escape(&app.code_host.name());
    let sentence = match error {
        Some("access_denied") => format!("You said no at {name}, so you are not signed in. Nothing has changed."),
        _ => format!("{name} did not sign you in. Nothing has changed."),
    };
    let body = format!(
        "<div class=\"narrow card\"><h1>Not signed in</h1><p>{sentence}</p><p><a class=\"button\" href=\"{}\">Try \
         again</a></p></div>",
        escape(&again(back, true))
    );
    pages::page(StatusCode::FORBIDDEN, "Not signed in", &body)
}
