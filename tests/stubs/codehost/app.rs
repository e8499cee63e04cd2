//! The app's own authentication, as documented: JWTs that it signs, and installation access tokens. A token grants
//! access to the repositories it was restricted to, and none of a person's rights.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rustls::SignatureScheme;
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{CodeHost, Shared, repos};

/// The app id that the stub accepts.
pub const APP_ID: &str = "123456";
/// The app's private key in GitHub's format: PKCS#1 in PEM. Made for these tests.
pub const APP_KEY: &str = include_str!("app_key.pem");
/// The public key, which the code host stores.
const APP_PUBLIC_KEY: &[u8] = include_bytes!("app_key.public.der");
/// The prefix of every installation access token.
pub const TOKEN_PREFIX: &str = "ghs_secretOfTheApp";

/// What an app token may read.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    pub(super) installation: i64,
    pub(super) repos: Vec<i64>,
}

/// The behavior of the app's part from now on.
#[derive(Debug, Default)]
pub struct AppState {
    suspended: Vec<i64>,
    /// The app may not read repository contents.
    no_contents: bool,
    /// Repositories that the installations do not reach, whoever may read them.
    hidden: Vec<i64>,
    /// The key was revoked.
    revoked: bool,
    /// The number of calls with a new token that are refused, because not every server knows the token yet.
    lag: u32,
    /// The lifetime of tokens; an hour if zero.
    lifetime: Duration,
    /// The app may not read people's permissions.
    blind: bool,
    /// How far the code host's clock is ahead, in seconds.
    ahead: AtomicI64,
}

impl CodeHost {
    fn app(&self, change: impl FnOnce(&mut AppState)) {
        change(&mut self.shared.app.lock().unwrap());
    }

    pub fn suspend(&self, installation: i64, suspended: bool) {
        self.app(|app| {
            app.suspended.retain(|known| *known != installation);
            if suspended {
                app.suspended.push(installation);
            }
        });
    }

    /// Sets whether the app lacks permission to read contents.
    pub fn take_contents_away(&self, away: bool) {
        self.app(|app| app.no_contents = away);
    }

    /// Sets whether the app cannot reach the repository.
    pub fn hide_from_the_app(&self, repo: i64, hidden: bool) {
        self.app(|app| {
            app.hidden.retain(|known| *known != repo);
            app.hidden.extend(hidden.then_some(repo));
        });
    }

    /// Sets whether the app's key is revoked.
    pub fn revoke_key(&self, revoked: bool) {
        self.app(|app| app.revoked = revoked);
    }

    /// Answers the next calls with an app token with 401.
    pub fn lag(&self, calls: u32) {
        self.app(|app| app.lag = calls);
    }

    /// Sets whether requests for new tokens get no response.
    pub fn hold_tokens(&self, held: bool) {
        self.shared.tokens_held.send_replace(held);
    }

    pub fn token_lifetime(&self, lifetime: Duration) {
        self.app(|app| app.lifetime = lifetime);
    }

    /// Hides people's permissions from the app.
    pub fn blind(&self) {
        self.app(|app| app.blind = true);
    }

    /// Sets the code host's clock ahead.
    pub fn set_clock_ahead(&self, seconds: i64) {
        self.app(|app| app.ahead.store(seconds, Ordering::Relaxed));
    }
}

impl Shared {
    fn now(&self) -> OffsetDateTime {
        #[expect(clippy::disallowed_methods, reason = "the code host has a clock of its own")]
        let now = OffsetDateTime::now_utc();
        now + time::Duration::seconds(self.app.lock().unwrap().ahead.load(Ordering::Relaxed))
    }

    /// Returns whether the app's token is refused because not every server knows it yet.
    pub(super) fn lags(&self) -> bool {
        let mut app = self.app.lock().unwrap();
        let lags = app.lag > 0;
        app.lag = app.lag.saturating_sub(1);
        lags
    }

    pub(super) fn is_blind(&self) -> bool {
        self.app.lock().unwrap().blind
    }
}

/// Returns why a JWT is refused, in GitHub's words.
fn refuse(jwt: &str, now: i64) -> Option<&'static str> {
    const UNREADABLE: &str = "A JSON web token could not be decoded";
    let Some((said, signature)) = jwt.rsplit_once('.') else { return Some(UNREADABLE) };
    let Some((head, claims)) = said.split_once('.') else { return Some(UNREADABLE) };
    let read = |part: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(part).ok()?).ok();
    let (Some(head), Some(claims)) = (read(head), read(claims)) else { return Some(UNREADABLE) };
    let Ok(signature) = URL_SAFE_NO_PAD.decode(signature) else { return Some(UNREADABLE) };
    if head["alg"] != "RS256" {
        return Some(UNREADABLE);
    }
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let mapping = provider.signature_verification_algorithms.mapping;
    let (_, algorithms) = mapping.iter().find(|(scheme, _)| *scheme == SignatureScheme::RSA_PKCS1_SHA256).unwrap();
    if algorithms[0].verify_signature(APP_PUBLIC_KEY, said.as_bytes(), &signature).is_err() {
        return Some(UNREADABLE);
    }
    if claims["iss"] != APP_ID {
        return Some("'Issuer' claim ('iss') must be an Integer");
    }
    let (Some(iat), Some(exp)) = (claims["iat"].as_i64(), claims["exp"].as_i64()) else { return Some(UNREADABLE) };
    if iat > now {
        return Some(
            "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued",
        );
    }
    if exp <= now {
        return Some("'Expiration time' claim ('exp') must be a numeric value representing the future time");
    }
    (exp > now + 600).then_some("'Expiration time' claim ('exp') is too far in the future")
}

/// `POST /app/installations/{id}/access_tokens`.
pub(super) async fn create_token(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<i64>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let now = shared.now();
    shared.tokens_held.subscribe().wait_for(|held| !held).await.unwrap();
    let mut response = answer(&shared, id, &headers, &body, now);
    let date = now.format(&time::format_description::well_known::Rfc2822).unwrap().replace("+0000", "GMT");
    response.headers_mut().insert(header::DATE, date.parse().unwrap());
    response
}

fn answer(shared: &Shared, id: i64, headers: &HeaderMap, body: &Value, now: OffsetDateTime) -> Response {
    let say = |status: StatusCode, message: &str| {
        let body = json!({ "message": message, "documentation_url": "https://docs", "status": status.as_str() });
        (status, Json(body)).into_response()
    };
    // A JWT is accepted as `Bearer`, not as `token`.
    let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let Some(jwt) = authorization.strip_prefix("Bearer ") else {
        return say(StatusCode::UNAUTHORIZED, "A JSON web token could not be decoded");
    };
    let app = shared.app.lock().unwrap();
    if app.revoked {
        return say(StatusCode::UNAUTHORIZED, "A JSON web token could not be decoded");
    }
    if let Some(refusal) = refuse(jwt, now.unix_timestamp()) {
        return say(StatusCode::UNAUTHORIZED, refusal);
    }
    let mut hub = shared.hub.lock().unwrap();
    let Some(installation) = hub.installations.iter().find(|known| known.id == id).cloned() else {
        return say(StatusCode::NOT_FOUND, "Not Found");
    };
    if app.suspended.contains(&id) {
        return say(StatusCode::FORBIDDEN, "This installation has been suspended");
    }
    let permissions = body["permissions"].as_object().cloned().unwrap_or_default();
    let allowed = |(name, level): (&String, &Value)| {
        level == "read" && (name == "metadata" || (name == "contents" && !app.no_contents))
    };
    if !permissions.iter().all(allowed) {
        return say(
            StatusCode::UNPROCESSABLE_ENTITY,
            "The permissions requested are not granted to this installation.",
        );
    }
    let asked: Vec<i64> = body["repository_ids"].as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
    let reaches = |repo: &i64| installation.repos.contains(repo) && !app.hidden.contains(repo);
    if asked.is_empty() || !asked.iter().all(reaches) {
        return say(
            StatusCode::UNPROCESSABLE_ENTITY,
            "There is at least one repository that does not exist or is not accessible to the parent installation.",
        );
    }
    let lifetime = if app.lifetime.is_zero() { Duration::from_hours(1) } else { app.lifetime };
    let token = hub.issue_to_app(Scope { installation: id, repos: asked.clone() });
    let repositories: Vec<Value> =
        hub.repos.iter().filter(|repo| asked.contains(&repo.id)).map(repos::view_repo).collect();
    let mut granted = permissions;
    granted.insert("metadata".to_owned(), json!("read"));
    let expires_at = (now + lifetime).replace_nanosecond(0).unwrap().format(&Rfc3339).unwrap();
    let body = json!({
        "token": token, "expires_at": expires_at, "permissions": granted, "repository_selection": "selected",
        "repositories": repositories,
    });
    (StatusCode::CREATED, Json(body)).into_response()
}
