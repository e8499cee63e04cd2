//! A stub of the API, and a home folder for the client.

use std::{
    process::{Command, Output, Stdio},
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, Method, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

pub(crate) const TOKEN: &str = "svc_0123456789012345678901234567890123456789012";

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

pub(crate) type Script = fn(&Seen, usize) -> Response;

/// A scripted API, whose answers depend on the request and on how many came before it.
#[derive(Clone)]
pub(crate) struct Stub {
    seen: Arc<Mutex<Vec<Seen>>>,
    script: Script,
}

/// The stub on its own port, and a home folder for the client.
pub(crate) struct World {
    stub: Stub,
    pub(crate) address: String,
    pub(crate) home: tempfile::TempDir,
    _server: tokio::runtime::Runtime,
}

impl World {
    pub(crate) fn start(script: Script) -> Self {
        let server = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let stub = Stub { seen: Arc::default(), script };
        let app = Router::new().fallback(answer).with_state(stub.clone());
        let listener = server.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        server.spawn(async move { axum::serve(listener, app).await });
        Self { stub, address, home: tempfile::tempdir().unwrap(), _server: server }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_svc"));
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home.path())
            .env("SVC_API_URL", &self.address)
            .current_dir(self.home.path())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn svc(&self, args: &[&str]) -> Output {
        self.command(args).env("SVC_TOKEN", TOKEN).output().unwrap()
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.stub.seen.lock().unwrap().clone()
    }

    pub(crate) fn page(&self) -> String {
        let page = self.home.path().join("page.html");
        std::fs::write(&page, "<h1>hello</h1>").unwrap();
        page.to_str().unwrap().to_owned()
    }
}

async fn answer(State(stub): State<Stub>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let seen = Seen { method, path: uri.to_string(), headers, body };
    let before = {
        let mut all = stub.seen.lock().unwrap();
        all.push(seen.clone());
        all.len() - 1
    };
    (stub.script)(&seen, before)
}

pub(crate) fn json(status: u16, body: &Value) -> Response {
    let headers = [("content-type", "application/json"), ("x-svc-propagation", "2/3; 9ms")];
    (StatusCode::from_u16(status).unwrap(), headers, body.to_string()).into_response()
}

pub(crate) fn error(status: u16, code: &str) -> Response {
    json(status, &json!({"error": {"code": code, "message": "The reason."}}))
}

pub(crate) fn uploaded() -> Response {
    json(
        201,
        &json!({
            "deployment_id": "dep_0123456789abcdefghij",
            "url": "https://a-b-c.share.localhost",
            "expires_at": "2100-01-01T00:00:00Z",
            "warnings": ["_redirects line 3: no target"],
        }),
    )
}

pub(crate) fn project(name: &str) -> Value {
    json!({
        "id": "prj_0123456789abcdefghij", "name": name, "org": null, "url": format!("https://{name}.svc.localhost"),
        "active_deployment_id": null, "expires_at": null, "created_at": "2026-01-01T00:00:00Z",
    })
}

/// The one JSON document on stdout.
pub(crate) fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|why| panic!("{why}: {:?}, {:?}", String::from_utf8_lossy(&output.stdout), output))
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
