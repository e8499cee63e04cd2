//! A proxy in front of pebble that adds what pebble lacks: renewal information (RFC 9773), refusals with `Retry-After`,
//! outages and truncated responses. It uses pebble's certificate; pebble builds its URLs from the `Host` header.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Method, StatusCode, Uri},
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::Clock;
use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::AbortHandle,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::world::{pebble::Pebble, request};

const NEW_ORDER: &str = "/order-plz";
const AUTHORIZATIONS: &str = "/authZ/";
const CHALLENGES: &str = "/chalZ/";
const RENEWAL_INFO: &str = "/renewal-info";

/// The faults that are added.
#[derive(Debug, Clone, Default)]
pub struct Mood {
    /// The start and end of the suggested renewal window for every certificate, if there is renewal information.
    pub window: Option<(String, String)>,
    /// Every response is a 503.
    pub is_away: bool,
    /// Every response is truncated.
    pub is_cut: bool,
    /// New orders are rate limited for this many seconds.
    pub too_many: Option<u64>,
    /// Only names with this suffix are rate limited.
    pub too_many_under: &'static str,
    /// Responses to requests below this path never arrive, although the authority has acted on them.
    pub holds: Option<&'static str>,
    /// New orders that replace a certificate are refused with this status and problem.
    pub no_replacing: Option<(u16, &'static str)>,
    /// The response to a client that has made a challenge ready contains the error of a failed first validation,
    /// although the authority retries (RFC 8555, 8.2).
    pub has_failed_first_look: bool,
}

impl Mood {
    /// Suggests renewal on the first day of a year for every certificate.
    pub fn renew_in(&mut self, year: u16) {
        self.window = Some((format!("{year}-01-01T00:00:00Z"), format!("{year}-01-02T00:00:00Z")));
    }

    /// Suggests renewal in this many days for every certificate.
    pub fn renew_in_days(&mut self, days: u64) {
        let start = Clock::system().now() + Duration::from_hours(24 * days);
        self.window = Some((start.to_string(), (start + Duration::from_hours(24)).to_string()));
    }
}

/// The number of requests received.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    pub orders: usize,
    /// New orders that name the certificate they replace.
    pub replacing: usize,
    /// Requests for renewal information.
    pub windows: usize,
    /// New orders that were rate limited.
    pub too_many: usize,
    /// Responses that never arrived.
    pub held: usize,
    /// First validations that failed.
    pub failed_looks: usize,
}

struct Shared {
    upstream: String,
    client: reqwest::Client,
    own: String,
    mood: Mutex<Mood>,
    asked: Mutex<Asked>,
    /// Held during requests to pebble for a new order or an authorization. Pebble 2.4.0 deadlocks when it answers one
    /// of each while it stores a certificate: the authorization is locked and waits for the store, and the new order
    /// the other way around.
    turn: tokio::sync::Mutex<()>,
}

/// The running proxy, which ends when this value is dropped.
pub struct Authority {
    shared: Arc<Shared>,
    task: AbortHandle,
}

impl Drop for Authority {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Authority {
    /// Reserves the address of a proxy, and returns it with the URL of its directory.
    pub async fn reserve() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/dir", listener.local_addr().unwrap());
        (listener, url)
    }

    /// Starts the proxy at the reserved address.
    pub fn start(listener: TcpListener, pebble: &Pebble) -> Self {
        let ca = reqwest::Certificate::from_pem(&std::fs::read(pebble.ca_file()).unwrap()).unwrap();
        let shared = Arc::new(Shared {
            upstream: pebble.directory_url().trim_end_matches("/dir").to_owned(),
            // With HTTP/1.1 the `Host` may differ from the address.
            client: request::client().tls_certs_only([ca]).http1_only().build().unwrap(),
            own: listener.local_addr().unwrap().to_string(),
            mood: Mutex::default(),
            asked: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        });
        let app = Router::new().fallback(pass).with_state(shared.clone());
        let listener = Listener::new(listener, acceptor(pebble));
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() }).abort_handle();
        Self { shared, task }
    }

    /// Changes the faults from now on.
    pub fn set(&self, change: impl FnOnce(&mut Mood)) {
        change(&mut self.shared.mood.lock().unwrap());
    }

    pub fn asked(&self) -> Asked {
        self.shared.asked.lock().unwrap().clone()
    }
}

/// The number of completed handshakes that may wait to be served.
const ACCEPTED: usize = 64;

/// Accepts connections over TLS. Its own task performs the handshakes concurrently, for as long as the listener lives.
struct Listener {
    accepted: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: SocketAddr,
}

impl Listener {
    fn new(tcp: TcpListener, tls: TlsAcceptor) -> Self {
        let address = tcp.local_addr().unwrap();
        let (done, accepted) = mpsc::channel(ACCEPTED);
        tokio::spawn(async move {
            while let Ok((stream, peer)) = tcp.accept().await {
                let (tls, done) = (tls.clone(), done.clone());
                if done.is_closed() {
                    return;
                }
                tokio::spawn(async move {
                    if let Ok(stream) = tls.accept(stream).await {
                        let _ = done.send((stream, peer)).await;
                    }
                });
            }
        });
        Self { accepted, address }
    }
}

impl axum::serve::Listener for Listener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.accepted.recv().await {
            Some(accepted) => accepted,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        Ok(self.address)
    }
}

fn acceptor(pebble: &Pebble) -> TlsAcceptor {
    let (chain, key) = pebble.tls_files();
    let chain = CertificateDer::pem_file_iter(chain).unwrap().collect::<Result<_, _>>().unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    Arc::new(config.with_single_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap()).unwrap()).into()
}

fn problem(status: u16, kind: &str, detail: &str) -> Response {
    let body = json!({ "type": format!("urn:ietf:params:acme:error:{kind}"), "detail": detail }).to_string();
    let status = StatusCode::from_u16(status).unwrap();
    (status, [("content-type", "application/problem+json"), ("replay-nonce", "bm9uY2U")], body).into_response()
}

/// Returns the payload of a signed request.
fn payload(body: &[u8]) -> Option<Value> {
    let signed: Value = serde_json::from_slice(body).ok()?;
    let payload = URL_SAFE_NO_PAD.decode(signed["payload"].as_str()?).ok()?;
    serde_json::from_slice(&payload).ok()
}

async fn pass(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mood = shared.mood.lock().unwrap().clone();
    if mood.is_away {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let path = uri.path();
    if path.starts_with(RENEWAL_INFO) {
        shared.asked.lock().unwrap().windows += 1;
        let Some((start, end)) = mood.window else { return StatusCode::NOT_FOUND.into_response() };
        let info = json!({ "suggestedWindow": { "start": start, "end": end } }).to_string();
        return ([("content-type", "application/json"), ("retry-after", "60")], info).into_response();
    }
    let order = (path == NEW_ORDER).then(|| payload(&body)).flatten().unwrap_or_default();
    let replaces = order["replaces"].as_str().map(str::to_owned);
    if path == NEW_ORDER {
        let mut asked = shared.asked.lock().unwrap();
        asked.orders += 1;
        asked.replacing += usize::from(replaces.is_some());
        let name = order["identifiers"][0]["value"].as_str().unwrap_or_default();
        if let Some(seconds) = mood.too_many.filter(|_| name.ends_with(mood.too_many_under)) {
            asked.too_many += 1;
            let mut refusal = problem(429, "rateLimited", "too many new orders recently");
            refusal.headers_mut().insert("retry-after", seconds.to_string().parse().unwrap());
            return refusal;
        }
        if let (Some((status, kind)), Some(_)) = (mood.no_replacing, &replaces) {
            return problem(status, kind, "this certificate is not yours to replace");
        }
    }
    let mut asked = shared.client.request(method, format!("{}{uri}", shared.upstream)).body(body);
    if let Some(kind) = headers.get("content-type") {
        asked = asked.header("content-type", kind);
    }
    let takes_turns = path == NEW_ORDER || path.starts_with(AUTHORIZATIONS);
    let turn = if takes_turns { Some(shared.turn.lock().await) } else { None };
    let answer = asked.header("host", &shared.own).header("x-forwarded-proto", "https").send().await.unwrap();
    let (status, answered) = (answer.status(), answer.headers().clone());
    let mut bytes = answer.bytes().await.unwrap().to_vec();
    drop(turn);
    if let Ok(mut json) = serde_json::from_slice::<Value>(&bytes) {
        if path == "/dir" && mood.window.is_some() {
            json["renewalInfo"] = format!("https://{}{RENEWAL_INFO}", shared.own).into();
        }
        if let Some(replaces) = replaces {
            json["replaces"] = replaces.into();
        }
        if mood.has_failed_first_look && path.starts_with(CHALLENGES) {
            shared.asked.lock().unwrap().failed_looks += 1;
            json["status"] = "processing".into();
            json["error"] = json!({ "type": "urn:ietf:params:acme:error:dns", "detail": "no such record yet" });
        }
        bytes = serde_json::to_vec(&json).unwrap();
    }
    if mood.holds.is_some_and(|held| path.starts_with(held)) {
        shared.asked.lock().unwrap().held += 1;
        std::future::pending::<()>().await;
    }
    if mood.is_cut {
        bytes.truncate(bytes.len() / 2);
    }
    let mut passed = Response::builder().status(status);
    for name in ["content-type", "location", "replay-nonce", "retry-after", "link"] {
        for value in answered.get_all(name) {
            passed = passed.header(name, value);
        }
    }
    passed.body(Body::from(bytes)).unwrap()
}
