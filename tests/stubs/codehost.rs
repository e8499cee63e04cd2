//! GitHub's REST API, as documented, for the device flow, the web flow ([`web`]) and the signed-in user.
//! [`CodeHost::set`] sets what the person does and how the network behaves.
//!
//! It is as strict as the original: responses are form-encoded unless JSON is accepted, and a `User-Agent` is required.

pub mod app;
pub mod hub;
pub mod repos;
pub mod web;
pub mod webhook;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use axum::{
    Form, Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, task::AbortHandle};

/// The client id that the stub accepts.
pub const CLIENT_ID: &str = "Iv1.0123456789abcdef";
const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// The prefix of every device code.
pub const DEVICE_CODE: &str = "3584d83530557fdd1f46af8289938c8ef79f9dc";
const ACCESS_TOKEN: &str = "gho_16C7e42F292c6912E7710c838347Ae178B4a";

/// The code host's next response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Pending,
    /// The client polled too often.
    SlowDown,
    /// The person declined.
    Denied,
    /// The code expired.
    Expired,
    Approved,
    /// Every response is a 500 with an HTML page.
    Broken,
    /// Every response is a 200 that is not JSON.
    Garbage,
}

struct Shared {
    state: Mutex<Step>,
    login: Mutex<(u64, String, Option<String>)>,
    /// The ids of all people who have ever signed in, by login.
    people: Mutex<HashMap<String, u64>>,
    started: AtomicU32,
    /// The codes of the web flow; empty once exchanged.
    granted: Mutex<HashMap<String, Option<web::Granted>>>,
    hub: Mutex<hub::Hub>,
    app: Mutex<app::AppState>,
    /// Notified when a test sets another fault.
    changes: watch::Sender<()>,
    /// Whether requests for new tokens of the app get no response.
    tokens_held: watch::Sender<bool>,
    url: String,
}

/// A code host on a local port, which ends when this value is dropped.
pub struct CodeHost {
    pub url: String,
    shared: Arc<Shared>,
    server: AbortHandle,
}

impl CodeHost {
    /// Starts a code host with a person who has not responded yet.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            state: Mutex::new(Step::Pending),
            login: Mutex::new((583_231, "octocat".to_owned(), None)),
            people: Mutex::default(),
            started: AtomicU32::new(0),
            granted: Mutex::default(),
            hub: Mutex::default(),
            app: Mutex::default(),
            changes: watch::Sender::new(()),
            tokens_held: watch::Sender::new(false),
            url: url.clone(),
        });
        let router = Router::new()
            .route("/login/device/code", post(device_code))
            .route("/login/oauth/authorize", get(web::authorize).post(web::answer))
            .route("/login/oauth/access_token", post(access_token))
            .route("/user", get(user))
            .route("/user/emails", get(emails))
            .merge(repos::routes(&shared))
            .with_state(shared.clone());
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }).abort_handle();
        Self { url, shared, server }
    }

    /// Sets the response from now on.
    pub fn set(&self, state: Step) {
        *self.shared.state.lock().unwrap() = state;
    }

    /// Sets who is signed in; `email` is the one on the public profile.
    pub fn sign_in(&self, id: u64, login: &str, email: Option<&str>) {
        *self.shared.login.lock().unwrap() = (id, login.to_owned(), email.map(str::to_owned));
        self.shared.people.lock().unwrap().insert(login.to_owned(), id);
    }
}

impl Drop for CodeHost {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn device_code(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Form(form): Form<HashMap<String, String>>,
) -> Response {
    if let Some(broken) = broken(&shared) {
        return broken;
    }
    if form.get("client_id").map(String::as_str) != Some(CLIENT_ID) {
        return (StatusCode::NOT_FOUND, Json(json!({ "error": "Not Found" }))).into_response();
    }
    let number = shared.started.fetch_add(1, Ordering::Relaxed);
    let answer = json!({
        "device_code": format!("{DEVICE_CODE}{number}"),
        "user_code": format!("WDJB-MJ{number:02}"),
        "verification_uri": "https://github.example/login/device",
        "expires_in": 900,
        "interval": 5,
    });
    oauth(&headers, &answer)
}

async fn access_token(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Form(form): Form<HashMap<String, String>>,
) -> Response {
    if let Some(broken) = broken(&shared) {
        return broken;
    }
    let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
    if field("client_id") == CLIENT_ID && form.contains_key("code") {
        return oauth(&headers, &web::exchange(&shared, &form));
    }
    if field("client_id") == CLIENT_ID && field("grant_type") == "refresh_token" {
        let answer = shared.hub.lock().unwrap().refresh(field("refresh_token"));
        return oauth(&headers, &answer);
    }
    if field("client_id") != CLIENT_ID || field("grant_type") != GRANT {
        return oauth(&headers, &json!({ "error": "unsupported_grant_type" }));
    }
    if !field("device_code").starts_with(DEVICE_CODE) {
        return oauth(&headers, &json!({ "error": "incorrect_device_code" }));
    }
    let state = *shared.state.lock().unwrap();
    let error =
        |code: &str| json!({ "error": code, "error_description": "As documented.", "error_uri": "https://docs" });
    let answer = match state {
        Step::Pending => error("authorization_pending"),
        Step::SlowDown => json!({ "error": "slow_down", "error_description": "Too many requests.", "interval": 10 }),
        Step::Denied => error("access_denied"),
        Step::Expired => error("expired_token"),
        _ => {
            let (_, login, _) = shared.login.lock().unwrap().clone();
            shared.hub.lock().unwrap().issue(&login)
        }
    };
    oauth(&headers, &answer)
}

async fn user(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    if let Some(refusal) = broken(&shared).or_else(|| unauthorized(&shared, &headers)) {
        return refusal;
    }
    let (id, login, email) = shared.login.lock().unwrap().clone();
    Json(json!({ "login": login, "id": id, "node_id": "MDQ6VXNlcjE=", "type": "User", "email": email, "name": null }))
        .into_response()
}

async fn emails(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    if let Some(refusal) = broken(&shared).or_else(|| unauthorized(&shared, &headers)) {
        return refusal;
    }
    let (_, login, _) = shared.login.lock().unwrap().clone();
    Json(json!([
        { "email": format!("{login}@unverified.example"), "primary": false, "verified": false, "visibility": null },
        { "email": format!("{login}@old.example"), "primary": false, "verified": true, "visibility": null },
        { "email": format!("{login}@github.example"), "primary": true, "verified": true, "visibility": "private" },
    ]))
    .into_response()
}

fn broken(shared: &Shared) -> Option<Response> {
    match *shared.state.lock().unwrap() {
        Step::Broken => Some((StatusCode::INTERNAL_SERVER_ERROR, "<html>Unicorn!</html>").into_response()),
        Step::Garbage => Some((StatusCode::OK, "<html>Hello from a captive portal</html>").into_response()),
        _ => None,
    }
}

fn unauthorized(shared: &Shared, headers: &HeaderMap) -> Option<Response> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if text("user-agent").is_empty() {
        return Some((StatusCode::FORBIDDEN, "Request forbidden by administrative rules.").into_response());
    }
    let expected = [format!("Bearer {ACCESS_TOKEN}"), format!("token {ACCESS_TOKEN}")];
    let is_known = shared.hub.lock().unwrap().login(headers).is_some();
    (!is_known && !expected.iter().any(|value| value == text("authorization")))
        .then(|| (StatusCode::UNAUTHORIZED, Json(json!({ "message": "Bad credentials" }))).into_response())
}

/// The OAuth endpoints return errors with 200, form-encoded unless JSON is requested.
fn oauth(headers: &HeaderMap, answer: &Value) -> Response {
    let accepts_json = headers.get("accept").is_some_and(|value| value.as_bytes().starts_with(b"application/json"));
    if accepts_json {
        return Json(answer.clone()).into_response();
    }
    let fields = answer.as_object().unwrap().iter();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let form: String = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields.map(|(key, value)| (key, text(value))))
        .finish();
    ([("content-type", "application/x-www-form-urlencoded; charset=utf-8")], form).into_response()
}
