//! The local kind: a login of the person's choice and the operator's secret.

use axum::{
    Extension,
    body::Body,
    extract::State,
    http::{HeaderMap, Method, StatusCode},
    response::Response,
};
use config::CodeHostKind;
use serde::Deserialize;

use super::{form_targets, reason, signed_in};
use crate::{
    app::App,
    auth::{
        operator::{self, Guess},
        session,
    },
    codehost::{self, SignedIn, local},
    console::{OwnPath, Problem, paths},
    error::ApiError,
    extract::read_body,
    middleware::client::ClientAddress,
    pages::{self, escape},
};

/// The page's form. Not `Debug`: it holds a secret.
#[derive(Deserialize)]
struct Form {
    #[serde(default)]
    login: String,
    #[serde(default)]
    secret: String,
    #[serde(default)]
    return_to: String,
}

/// What the form sends.
pub(in crate::console) async fn answer(
    State(app): State<App>,
    Extension(ClientAddress(client)): Extension<ClientAddress>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    if app.config.code_host.kind != CodeHostKind::Local {
        return Err(ApiError::not_found("page").into());
    }
    // Else another site could sign a visitor in as somebody else, and read what they then leave here.
    if !session::is_consoles_own(&app, &Method::POST, &headers) {
        return Ok(session::foreign_form());
    }
    let body = read_body(body).await?;
    let home = OwnPath::home();
    let Ok(filled) = serde_urlencoded::from_bytes::<Form>(&body) else {
        return Ok(form(&app, StatusCode::BAD_REQUEST, &home, "", Some("The form did not arrive whole.")));
    };
    let back = OwnPath::parse(&filled.return_to);
    let refused = |status, reason: &str| Ok(form(&app, status, &back, &filled.login, Some(reason)));
    // Before the secret, so that a slip of the pen does not cost a guess.
    let identity = match local::identity(&filled.login) {
        Ok(identity) => identity,
        Err(invalid) => return refused(StatusCode::BAD_REQUEST, &format!("{invalid}.")),
    };
    match operator::guess(&app, client, &filled.secret).await {
        Guess::Right => {}
        Guess::Wrong => return refused(StatusCode::FORBIDDEN, "The operator's secret is wrong."),
        Guess::TooMany => {
            let reason = "Too many wrong secrets from your address; please try again in ten minutes.";
            return refused(StatusCode::TOO_MANY_REQUESTS, reason);
        }
    }
    let mut tx = app.db.begin().await?;
    let person = SignedIn { identity, grant: None };
    let user = codehost::admit(&mut tx, &app.master_key, person, app.clock.now()).await?;
    let answer = signed_in(&app, &mut tx, &user, &headers, &back).await?;
    tx.commit().await?;
    Ok(answer)
}

/// The page with the form.
pub(super) fn form(app: &App, status: StatusCode, back: &OwnPath, login: &str, error: Option<&str>) -> Response {
    let error = error.map(|e| format!("<p class=\"error\" role=\"alert\">{}</p>", escape(e))).unwrap_or_default();
    let body = format!(
        r#"<form method="post" action="{action}" class="narrow card">
<h1>Sign in</h1>
{reason}
{error}
<input type="hidden" name="return_to" value="{back}">
<label for="login">Login name</label>
<input id="login" name="login" value="{login}" maxlength="39" autocomplete="username" autocapitalize="none"
  spellcheck="false" required autofocus>
<label for="secret">Operator's secret</label>
<input id="secret" name="secret" type="password" autocomplete="current-password" required>
<p class="hint">Printed where svc was started, and in its <code>up.json</code>.</p>
<button>Sign in</button>
</form>"#,
        action = paths::SIGN_IN,
        reason = reason(back),
        back = escape(back.as_str()),
        login = escape(login),
    );
    pages::page_with_forms_to(form_targets(app, back).as_deref(), status, "Sign in", &body)
}
