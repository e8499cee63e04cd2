//! `/device`: where a person answers a device flow of the `local` code host.
//!
//! The form asks for the operator's secret, so that no link and no other site can trick a person into approving.

use std::net::IpAddr;

use admin_http::{
    error::ApiError,
    extract::{Query, read_body},
    html,
};
use app::{
    App,
    auth::operator::{self, SecretCheck},
    middleware::client::ClientAddress,
};
use askama::Template;
use axum::{Extension, body::Body, extract::State, http::StatusCode, response::Response};
use code_host::local;
use config::CodeHostKind;
use db::sign_in::{device_grants, users};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

/// The query of the link in `verification_uri_complete`.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Prefilled {
    /// The code to prefill the form with.
    #[serde(default)]
    user_code: String,
}

/// The fields of the form. Not `Debug`, because they contain a secret.
#[derive(Deserialize, ToSchema)]
pub struct Form {
    /// The code that the client shows.
    #[serde(default)]
    user_code: String,
    /// The login of the person who signs in.
    #[serde(default)]
    login: String,
    /// The operator's secret.
    #[serde(default)]
    secret: String,
    /// The decision: `approve` or `deny`.
    #[serde(default)]
    decision: String,
}

/// The page with the form.
#[derive(Template)]
#[template(path = "device/form.html")]
struct DevicePage<'a> {
    user_code: &'a str,
    login: &'a str,
    error: Option<&'a str>,
}

/// The page after an accepted answer.
#[derive(Template)]
#[template(path = "device/answered.html")]
struct AnsweredPage<'a> {
    title: &'a str,
    /// The approved login; `None` if the person denied.
    login: Option<&'a str>,
}

/// Shows the page on which a person answers a device flow.
///
/// Only with the `local` code host; otherwise 404, because the person answers at the code host.
#[utoipa::path(
    get, path = "/device", operation_id = "show_device_page", tag = "Device-flow login", security(()),
    params(Prefilled),
    responses((status = 200, description = "The page", content_type = "text/html", body = String)),
    extensions(("x-errors" = json!({
        "not_found": "people sign in at the code host here",
    }))),
)]
#[expect(clippy::unused_async, reason = "axum's handlers are async")]
pub async fn show(State(app): State<App>, Query(prefilled): Query<Prefilled>) -> Result<Response, ApiError> {
    require_local(&app)?;
    Ok(form(StatusCode::OK, &prefilled.user_code, "", None))
}

/// Accepts a person's answer to a device flow, from the page's form.
///
/// The page that `GET /device` shows sends this form. The response is a page for people.
#[utoipa::path(
    post, path = "/device", operation_id = "answer_device_page", tag = "Device-flow login", security(()),
    request_body(content = Form, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 200, description = "The answer was taken", content_type = "text/html", body = String),
        (status = 400, description = "A field breaks a rule; the page says which.", content_type = "text/html", body = String),
        (status = 403, description = "The operator's secret is wrong.", content_type = "text/html", body = String),
        (status = 429, description = "Too many wrong secrets came from this address.", content_type = "text/html", body = String),
    ),
    extensions(("x-errors" = json!({
        "not_found": "people sign in at the code host here",
    }))),
)]
pub async fn answer(
    State(app): State<App>,
    Extension(ClientAddress(client)): Extension<ClientAddress>,
    body: Body,
) -> Result<Response, ApiError> {
    require_local(&app)?;
    let body = read_body(body).await?;
    let filled: Form = match serde_urlencoded::from_bytes(&body) {
        Ok(filled) => filled,
        Err(_) => return Ok(form(StatusCode::BAD_REQUEST, "", "", Some("The form is incomplete; send it again."))),
    };
    Ok(match decide(&app, client, &filled).await? {
        DeviceDecision::Approved(login) => answered_page("You are signed in", Some(&login)),
        DeviceDecision::Denied => answered_page("Sign-in denied", None),
        DeviceDecision::Refused(status, reason) => form(status, &filled.user_code, &filled.login, Some(&reason)),
    })
}

/// The outcome of a submitted form.
enum DeviceDecision {
    Approved(String),
    Denied,
    Refused(StatusCode, String),
}

impl DeviceDecision {
    fn invalid(reason: impl Into<String>) -> Self {
        Self::Refused(StatusCode::BAD_REQUEST, reason.into())
    }
}

async fn decide(app: &App, client: IpAddr, filled: &Form) -> Result<DeviceDecision, ApiError> {
    // Checked before the secret, so that a typo does not count as a guess.
    let Some(user_code) = local::parse_user_code(&filled.user_code) else {
        return Ok(DeviceDecision::invalid("The code is eight letters, like BCDF-GHJK; please check it."));
    };
    let is_approval = match filled.decision.as_str() {
        "approve" => true,
        "deny" => false,
        _ => return Ok(DeviceDecision::invalid("Please choose one of the two buttons.")),
    };
    let identity = match local::identity(&filled.login) {
        Ok(identity) if is_approval => Some(identity),
        Err(invalid) if is_approval => return Ok(DeviceDecision::invalid(format!("{invalid}."))),
        _ => None,
    };

    match operator::check_secret(app, client, &filled.secret).await {
        SecretCheck::Right => {}
        SecretCheck::Wrong => {
            return Ok(DeviceDecision::Refused(StatusCode::FORBIDDEN, "The operator's secret is wrong.".to_owned()));
        }
        SecretCheck::TooMany => {
            let reason = "Too many wrong secrets from your address; please try again in ten minutes.";
            return Ok(DeviceDecision::Refused(StatusCode::TOO_MANY_REQUESTS, reason.to_owned()));
        }
    }

    let now = app.clock.now();
    let mut tx = app.db.begin().await?;
    let user = match &identity {
        Some(identity) => Some(users::upsert(&mut tx, identity, now).await?),
        None => None,
    };
    if !device_grants::answer(&mut tx, &user_code, user.as_ref(), now).await? {
        return Ok(DeviceDecision::invalid("Nobody waits under this code: it has expired or was answered already."));
    }
    tx.commit().await?;
    Ok(user.map_or(DeviceDecision::Denied, |user| DeviceDecision::Approved(user.vcs_login)))
}

fn require_local(app: &App) -> Result<(), ApiError> {
    match app.config.code_host.kind {
        CodeHostKind::Local => Ok(()),
        CodeHostKind::Github => Err(ApiError::not_found("page")),
    }
}

fn answered_page(title: &str, login: Option<&str>) -> Response {
    html::page(StatusCode::OK, &AnsweredPage { title, login })
}

fn form(status: StatusCode, user_code: &str, login: &str, error: Option<&str>) -> Response {
    html::page(status, &DevicePage { user_code, login, error })
}
