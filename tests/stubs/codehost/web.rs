//! The web application flow: the page on which the person responds, and the exchange of the code, with PKCE.

use std::{collections::HashMap, sync::Arc};

use axum::{
    Form,
    extract::{Query, State},
    http::StatusCode,
    response::{Html, IntoResponse, Redirect, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;

use super::{ACCESS_TOKEN, CLIENT_ID, Shared};

/// The client secret that the stub accepts.
pub const CLIENT_SECRET: &str = "shh-the-application's-secret";
/// The registered callback, without its port.
const CALLBACK: (&str, &str) = ("app.svc.localhost", "/sign-in/callback");

/// A code that was not exchanged yet.
pub(super) struct Granted {
    challenge: String,
    redirect_uri: String,
}

type Fields = HashMap<String, String>;

fn field<'f>(fields: &'f Fields, name: &str) -> &'f str {
    fields.get(name).map(String::as_str).unwrap_or_default()
}

/// `GET /login/oauth/authorize`: the consent page.
pub(super) async fn authorize(State(shared): State<Arc<Shared>>, Query(asked): Query<Fields>) -> Response {
    if field(&asked, "client_id") != CLIENT_ID {
        return StatusCode::NOT_FOUND.into_response();
    }
    let registered = Url::parse(field(&asked, "redirect_uri"))
        .is_ok_and(|url| url.scheme() == "https" && (url.host_str(), url.path()) == (Some(CALLBACK.0), CALLBACK.1));
    if !registered {
        return (StatusCode::BAD_REQUEST, "The redirect_uri is not associated with this application.").into_response();
    }
    let challenge = field(&asked, "code_challenge");
    if field(&asked, "code_challenge_method") != "S256" || challenge.len() != 43 || field(&asked, "state").is_empty() {
        return (StatusCode::BAD_REQUEST, "This stub wants a state and a challenge.").into_response();
    }
    let (_, login, _) = shared.login.lock().unwrap().clone();
    let hidden = |name: &str| {
        let value = field(&asked, name).replace('&', "&amp;").replace('"', "&quot;");
        format!("<input type=\"hidden\" name=\"{name}\" value=\"{value}\">")
    };
    let hidden = ["redirect_uri", "state", "code_challenge"].map(hidden).concat();
    let prompt = field(&asked, "prompt");
    Html(format!(
        "<h1>Authorize svc</h1><p>as {login}, prompt={prompt}</p><form method=\"post\" action=\"/login/oauth/authorize\">\
         {hidden}<button name=\"authorize\" value=\"1\">Authorize</button><button name=\"authorize\" value=\"0\">Cancel</button></form>"
    ))
    .into_response()
}

/// The person's response.
pub(super) async fn answer(State(shared): State<Arc<Shared>>, Form(form): Form<Fields>) -> Response {
    let mut back = Url::parse(field(&form, "redirect_uri")).unwrap();
    if field(&form, "authorize") == "1" {
        let mut granted = shared.granted.lock().unwrap();
        let code = format!("{:020x}", 0xc0de_0000 + granted.len());
        let (challenge, redirect_uri) = (field(&form, "code_challenge"), field(&form, "redirect_uri"));
        let grant = Granted { challenge: challenge.to_owned(), redirect_uri: redirect_uri.to_owned() };
        granted.insert(code.clone(), Some(grant));
        back.query_pairs_mut().append_pair("code", &code);
    } else {
        back.query_pairs_mut()
            .append_pair("error", "access_denied")
            .append_pair("error_description", "The user has denied your application access.");
    }
    back.query_pairs_mut().append_pair("state", field(&form, "state"));
    Redirect::to(back.as_str()).into_response()
}

/// Returns the response of `POST /login/oauth/access_token` with a code.
pub(super) fn exchange(shared: &Shared, form: &Fields) -> Value {
    let error =
        |code: &str| json!({ "error": code, "error_description": "As documented.", "error_uri": "https://docs" });
    if field(form, "client_secret") != CLIENT_SECRET {
        return error("incorrect_client_credentials");
    }
    // A code works only once, whatever the result.
    let granted = shared.granted.lock().unwrap().get_mut(field(form, "code")).and_then(Option::take);
    let Some(granted) = granted else { return error("bad_verification_code") };
    if granted.redirect_uri != field(form, "redirect_uri") {
        return error("redirect_uri_mismatch");
    }
    if URL_SAFE_NO_PAD.encode(Sha256::digest(field(form, "code_verifier"))) != granted.challenge {
        return error("bad_verification_code");
    }
    json!({ "access_token": ACCESS_TOKEN, "token_type": "bearer", "scope": "read:user,user:email" })
}
