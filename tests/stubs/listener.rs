//! A server that accepts any POST, and responds with the statuses that a test sets.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use axum::{Router, body::Bytes, extract::State};
use http::{HeaderMap, StatusCode};
use tokio::task::AbortHandle;

/// A received POST.
#[derive(Debug, Clone)]
pub struct Posted {
    pub headers: HeaderMap,
    pub body: String,
    pub status: StatusCode,
}

#[derive(Default)]
struct Shared {
    posted: Mutex<Vec<Posted>>,
    statuses: Mutex<VecDeque<StatusCode>>,
}

/// A server on a local port, which ends when this value is dropped.
pub struct Listener {
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

    /// Queues the status of the next response.
    pub fn next(&self, status: StatusCode) {
        self.shared.statuses.lock().unwrap().push_back(status);
    }

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
