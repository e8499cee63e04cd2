//! A server in the place of admin, that says whatever a test wants and remembers what it was asked.

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::Response,
};
use http::{HeaderMap, StatusCode};
use tokio::{net::TcpListener, sync::Semaphore};

/// The `Cache-Control` of an answer that may be kept for ever.
pub const FOREVER: &str = "public, max-age=31536000, immutable";

/// A request that the server was asked.
#[derive(Debug, Clone)]
pub struct Asked {
    pub target: String,
    pub headers: HeaderMap,
}

/// The answer to every request but that for health.
#[derive(Debug, Clone)]
pub struct Said {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    /// The body; the target of the request when there is none.
    pub body: Option<String>,
}

struct Shared {
    asked: Mutex<Vec<Asked>>,
    said: Mutex<Said>,
    permits: Semaphore,
}

/// The server. It ends with the test.
pub struct Upstream {
    pub address: String,
    shared: Arc<Shared>,
}

impl Said {
    /// An answer that may be kept, with the target as its body.
    pub fn forever() -> Self {
        Self { status: 200, headers: vec![("cache-control", FOREVER.to_owned())], body: None }
    }

    /// With a header.
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// With another status.
    pub fn status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// With another `Cache-Control`.
    pub fn cached(mut self, control: &str) -> Self {
        self.headers.retain(|(name, _)| *name != "cache-control");
        self.with("cache-control", control)
    }

    /// With a body.
    pub fn body(self, body: impl Into<String>) -> Self {
        Self { body: Some(body.into()), ..self }
    }
}

impl Upstream {
    /// Starts a server that says [`Said::forever`].
    pub async fn start() -> Self {
        let shared = Arc::new(Shared {
            asked: Mutex::default(),
            said: Mutex::new(Said::forever()),
            permits: Semaphore::new(Semaphore::MAX_PERMITS),
        });
        let router = Router::new().fallback(answer).with_state(shared.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, shared }
    }

    /// Answers like this from now on.
    pub fn say(&self, said: Said) {
        *self.shared.said.lock().unwrap() = said;
    }

    /// Returns the requests so far, without those for health.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// Returns the number of requests for `target`.
    pub fn count(&self, target: &str) -> usize {
        self.asked().iter().filter(|asked| asked.target == target).count()
    }

    /// Holds every answer until [`Self::release`].
    pub fn hold(&self) {
        self.shared.permits.forget_permits(Semaphore::MAX_PERMITS);
    }

    /// Lets held answers go, and all that follow.
    pub fn release(&self) {
        self.shared.permits.add_permits(Semaphore::MAX_PERMITS);
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    if request.uri().path() == "/health" {
        let mut response = Response::new(Body::from("{\"ok\":true}"));
        let id = request.headers().get("x-request-id").cloned();
        response.headers_mut().insert("content-type", "application/json".parse().unwrap());
        response.headers_mut().insert("x-request-id", id.unwrap_or_else(|| "req_unknown".parse().unwrap()));
        return response;
    }
    let target = request.uri().path_and_query().unwrap().as_str().to_owned();
    shared.asked.lock().unwrap().push(Asked { target: target.clone(), headers: request.headers().clone() });
    let _permit = shared.permits.acquire().await.unwrap();
    let said = shared.said.lock().unwrap().clone();
    let mut response = Response::new(Body::from(said.body.unwrap_or(target)));
    *response.status_mut() = StatusCode::from_u16(said.status).unwrap();
    for (name, value) in said.headers {
        response.headers_mut().append(name, value.parse().unwrap());
    }
    response
}
