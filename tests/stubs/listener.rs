//! A server that takes whatever is posted to it, and answers with the statuses that a test wants.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use axum::{Router, body::Bytes, extract::State};
use http::{HeaderMap, StatusCode};
use tokio::task::AbortHandle;

/// What was posted.
#[derive(Debug, Clone)]
pub struct Posted {
    pub headers: HeaderMap,
    pub body: String,
    /// What it was answered with.
    pub status: StatusCode,
}

#[derive(Default)]
struct Shared {
    posted: Mutex<Vec<Posted>>,
    statuses: Mutex<VecDeque<StatusCode>>,
}

/// A server on a port of this machine; it ends with the value.
pub struct Listener {
    /// Where it listens.
    pub url: String,
    shared: Arc<Shared>,
    server: AbortHandle,
}

impl Listener {
    pub async fn start() -> Self {
        let shared = Arc::<Shared>::default();
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/taken", listener.local_addr().unwrap());
        let router = Router::new().route("/taken", axum::routing::post(take)).with_state(shared.clone());
        let server = tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        Self { url, shared, server: server.abort_handle() }
    }

    /// Has it answer the next post with `status`, and the one after it when called again.
    pub fn next(&self, status: StatusCode) {
        self.shared.statuses.lock().unwrap().push_back(status);
    }

    /// What was posted so far.
    pub fn posted(&self) -> Vec<Posted> {
        self.shared.posted.lock().unwrap().clone()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn take(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let status = shared.statuses.lock().unwrap().pop_front().unwrap_or(StatusCode::OK);
    let body = String::from_utf8(body.to_vec()).unwrap();
    shared.posted.lock().unwrap().push(Posted { headers, body, status });
    status
}
