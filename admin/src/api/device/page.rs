//! `/device`: where a person answers a device flow of the local kind. Plain HTML, no script.
//!
//! The operator's secret is in the form, so that nobody can be tricked into answering by a link or another site.

use std::net::IpAddr;

use axum::{Extension, body::Body, extract::State, http::StatusCode, response::Response};
use config::CodeHostKind;
use db::{device_grants, users};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::{
    app::App,
    auth::operator::{self, Guess},
    codehost::local,
    error::ApiError,
    extract::{Query, read_body},
    middleware::client::ClientAddress,
    pages::{escape, page},
};

/// The query of the link in `verification_uri_complete`.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Prefilled {
    /// The code with which the form is filled in.
    #[serde(default)]
    user_code: String,
}

/// The page's form. It holds a secret, so it is not `Debug`.
#[derive(Deserialize, ToSchema)]
pub struct Form {
    /// The code that the client shows.
    #[serde(default)]
    user_code: String,
    /// The login name of the person who signs in.
    #[serde(default)]
    login: String,
    /// The operator's secret.
    #[serde(default)]
    secret: String,
    /// The answer: `approve` or `deny`.
    #[serde(default)]
    decision: String,
}

/// Shows the page on which a person answers a device flow.
///
/// Only with the `local` code host; otherwise 404, because the person answers at the code host.
#[utoipa::path(
    get, path = "/device", tag = "Device-flow login", security(()),
    params(Prefilled),
    responses((status = 200, description = "The page", content_type = "text/html", body = String)),
    extensions(("x-errors" = json!({
        "not_found": "people sign in at the code host here",
    }))),
)]
pub async fn show(State(app): State<App>, Query(prefilled): Query<Prefilled>) -> Result<Response, ApiError> {
    require_local(&app)?;
    Ok(form(StatusCode::OK, &prefilled.user_code, "", None))
}

/// Takes a person's answer to a device flow, from the form of the page.
#[utoipa::path(
    post, path = "/device", tag = "Device-flow login", security(()),
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
        Err(_) => return Ok(form(StatusCode::BAD_REQUEST, "", "", Some("The form did not arrive whole."))),
    };
    Ok(match decide(&app, client, &filled).await? {
        Decided::Approved(login) => {
            done("You are signed in", &format!("Signed in as <strong>{}</strong>.", escape(&login)))
        }
        Decided::Denied => done("Sign-in denied", "The client that showed the code gets no access."),
        Decided::Refused(status, reason) => form(status, &filled.user_code, &filled.login, Some(&reason)),
    })
}

enum Decided {
    Approved(String),
    Denied,
    Refused(StatusCode, String),
}

impl Decided {
    fn invalid(reason: impl Into<String>) -> Self {
        Self::Refused(StatusCode::BAD_REQUEST, reason.into())
    }
}

async fn decide(app: &App, client: IpAddr, filled: &Form) -> Result<Decided, ApiError> {
    // Before the secret, so that a slip of the pen does not cost a guess.
    let Some(user_code) = local::read_user_code(&filled.user_code) else {
        return Ok(Decided::invalid("The code is eight letters, like BCDF-GHJK; please check it."));
    };
    let approving = match filled.decision.as_str() {
        "approve" => true,
        "deny" => false,
        _ => return Ok(Decided::invalid("Please choose one of the two buttons.")),
    };
    let identity = match local::identity(&filled.login) {
        Ok(identity) if approving => Some(identity),
        Err(invalid) if approving => return Ok(Decided::invalid(format!("{invalid}."))),
        _ => None,
    };

    match operator::guess(app, client, &filled.secret).await {
        Guess::Right => {}
        Guess::Wrong => {
            return Ok(Decided::Refused(StatusCode::FORBIDDEN, "The operator's secret is wrong.".to_owned()));
        }
        Guess::TooMany => {
            let reason = "Too many wrong secrets from your address; please try again in ten minutes.";
            return Ok(Decided::Refused(StatusCode::TOO_MANY_REQUESTS, reason.to_owned()));
        }
    }

    let now = app.clock.now();
    let mut tx = app.db.begin().await?;
    let user = match &identity {
        Some(identity) => Some(users::upsert(&mut tx, identity, now).await?),
        None => None,
    };
    if !device_grants::answer(&mut tx, &user_code, user.as_ref(), now).await? {
        return Ok(Decided::invalid("Nobody waits under this code: it has expired or was answered already."));
    }
    tx.commit().await?;
    Ok(user.map_or(Decided::Denied, |user| Decided::Approved(user.vcs_login)))
}

fn require_local(app: &App) -> Result<(), ApiError> {
    match app.config.code_host.kind {
        CodeHostKind::Local => Ok(()),
        CodeHostKind::Github => Err(ApiError::not_found("page")),
    }
}

fn done(title: &str, sentence: &str) -> Response {
    let body =
        format!("<div class=\"narrow\"><h1>{}</h1><p>{sentence} You can close this page.</p></div>", escape(title));
    page(StatusCode::OK, title, &body)
}

fn form(status: StatusCode, user_code: &str, login: &str, error: Option<&str>) -> Response {
    let error = error.map(|e| format!("<p class=\"error\" role=\"alert\">{}</p>", escape(e))).unwrap_or_default();
    let body = format!(
        r#"<form method="post" action="/device" class="narrow">
<h1>Sign a device in</h1>
<p>A program on one of your machines shows a code and waits. Approve only a code that you asked for yourself.</p>
{error}
<label for="user_code">Code</label>
<input class="code" id="user_code" name="user_code" value="{user_code}" placeholder="XXXX-XXXX" maxlength="20"
  autocomplete="off" autocapitalize="characters" spellcheck="false" required>
<label for="login">Login name</label>
<input id="login" name="login" value="{login}" maxlength="39" autocomplete="username" autocapitalize="none"
  spellcheck="false">
<label for="secret">Operator's secret</label>
<input id="secret" name="secret" type="password" autocomplete="current-password" required>
<p class="hint">Printed where svc was started, and in its <code>up.json</code>.</p>
<button name="decision" value="approve">Approve</button>
<button name="decision" value="deny" class="quiet">Deny</button>
</form>"#,
        user_code = escape(user_code),
        login = escape(login),
    );
    page(status, "Sign a device in", &body)
}
