//! Signing in with the `local` code host: a login of the person's choice and the operator's secret.

use admin_http::{
    addresses::{ConsolePath, paths},
    error::ApiError,
    extract::read_body,
    html,
};
use app::{
    App,
    auth::{
        operator::{self, SecretCheck},
        session,
    },
    middleware::client::ClientAddress,
};
use askama::Template;
use axum::{
    Extension,
    body::Body,
    extract::State,
    http::{HeaderMap, Method, StatusCode},
    response::Response,
};
use code_host::{SignedIn, local};
use config::CodeHostKind;
use serde::Deserialize;

use super::{gated_origin, start_session};
use crate::PageError;

/// The fields of the form. Not `Debug`, because they contain a secret.
#[derive(Deserialize)]
struct LocalSignInForm {
    #[serde(default)]
    login: String,
    #[serde(default)]
    secret: String,
    #[serde(default)]
    return_to: String,
}

#[derive(Template)]
#[template(path = "sign_in/local.html")]
struct LocalSignInPage<'a> {
    return_to: &'a str,
    /// The host of the site that the person wants to see.
    gated_host: Option<String>,
    login: &'a str,
    error: Option<&'a str>,
}

/// Signs the person in, or shows the form again with the reason for the failure.
pub(crate) async fn submit(
    State(app): State<App>,
    Extension(ClientAddress(client)): Extension<ClientAddress>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, PageError> {
    if app.config.code_host.kind != CodeHostKind::Local {
        return Err(ApiError::not_found("page").into());
    }
    // Otherwise another site could sign a visitor in as somebody else, and read what they publish here.
    if !session::is_from_console(&app, &Method::POST, &headers) {
        return Ok(session::foreign_form());
    }
    let body = read_body(body).await?;
    let home = ConsolePath::home();
    let Ok(filled) = serde_urlencoded::from_bytes::<LocalSignInForm>(&body) else {
        return Ok(form_page(&app, StatusCode::BAD_REQUEST, &home, "", Some("The form is incomplete; send it again.")));
    };
    let back = ConsolePath::parse(&filled.return_to);
    let refused = |status, reason: &str| Ok(form_page(&app, status, &back, &filled.login, Some(reason)));
    // Checked before the secret, so that a typo does not count as a guess.
    let identity = match local::identity(&filled.login) {
        Ok(identity) => identity,
        Err(invalid) => return refused(StatusCode::BAD_REQUEST, &format!("{invalid}.")),
    };
    match operator::check_secret(&app, client, &filled.secret).await {
        SecretCheck::Right => {}
        SecretCheck::Wrong => return refused(StatusCode::FORBIDDEN, "The operator's secret is wrong."),
        SecretCheck::TooMany => {
            let reason = "Too many wrong secrets from your address; please try again in ten minutes.";
            return refused(StatusCode::TOO_MANY_REQUESTS, reason);
        }
    }
    start_session(&app, SignedIn { identity, grant: None }, &headers, &back).await
}

/// Returns the sign-in page with `login` filled in and the last attempt's error.
pub(super) fn form_page(
    app: &App,
    status: StatusCode,
    back: &ConsolePath,
    login: &str,
    error: Option<&str>,
) -> Response {
    let page = LocalSignInPage { return_to: back.as_str(), gated_host: back.gated_host(), login, error };
    html::page_with_forms_to(gated_origin(app, back).as_deref(), status, &page)
}
