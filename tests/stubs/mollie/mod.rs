//! Mollie's API v2, as documented, with state: customers, payments, mandates, refunds, charge-backs. The test controls
//! what payers and banks do ([`Mollie::settle`] and its neighbours), and how the network behaves ([`Mollie::next`]).
//!
//! It is as strict as the original, and refuses unknown input with 422. [`ledger`] is its state, and [`rules`] what it
//! accepts. Nothing happens by itself: a webhook is due ([`Mollie::take_webhooks`]) whenever a payment has changed, and
//! the test sends it as often and in the order that it likes.

mod ledger;
mod rules;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;
use tokio::{net::TcpListener, sync::Notify, task::AbortHandle};

use self::ledger::Ledger;
pub use self::ledger::Recurring;
use crate::world::request;

/// The API key that the stub accepts.
pub const API_KEY: &str = "test_0123456789abcdefghijABCDEFGHIJ";
pub const WEBHOOK_SECRET: &str = "secret-of-the-payment-webhooks";
const BODY_BYTES: usize = 64 * 1024;

/// The fault of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// 429, with this `Retry-After` in seconds.
    RateLimited(Option<u32>),
    /// This status with Mollie's error body, without any effect.
    Status(u16),
    /// The connection drops, without any effect.
    Drops,
    /// The request takes effect, but the connection drops before the response.
    DropsAfter,
    /// The request takes effect, but the response is a 500.
    FailsAfter,
    /// The request takes effect, and the response waits for [`Mollie::go_on`].
    Holds,
    /// A 200 that is not JSON.
    Garbage,
    /// A 200 with JSON that is far too long.
    Huge,
    /// A 302 to this address.
    Redirect(String),
}

/// A request that the stub received.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: Method,
    /// The path with its query.
    pub path: String,
    pub headers: HeaderMap,
    pub body: Value,
}

#[derive(Default)]
struct Shared {
    ledger: Mutex<Ledger>,
    faults: Mutex<VecDeque<Fault>>,
    /// Requests whose path contains this get no response.
    held: Mutex<Option<String>>,
    /// The fault of every request for which none was queued.
    usual: Mutex<Option<Fault>>,
    asked: Mutex<Vec<Asked>>,
    go_on: Notify,
}

/// Mollie on a local port, which ends when this value is dropped.
pub struct Mollie {
    /// Its URL, without `/v2`.
    pub url: String,
    shared: Arc<Shared>,
    server: AbortHandle,
}

impl Mollie {
    /// Starts an empty Mollie without faults.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared::default());
        let router = Router::new().fallback(answer).with_state(shared.clone());
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }).abort_handle();
        Self { url, shared, server }
    }

    /// Queues the fault of the next request.
    pub fn next(&self, fault: Fault) {
        self.shared.faults.lock().unwrap().push_back(fault);
    }

    /// Sets the fault of requests for which none is queued.
    pub fn always(&self, fault: Option<Fault>) {
        *self.shared.usual.lock().unwrap() = fault;
    }

    /// Sends no response to requests whose path contains `part`.
    pub fn hold(&self, part: &str) {
        *self.shared.held.lock().unwrap() = Some(part.to_owned());
    }

    /// Ends the current [`Fault::Holds`], or the next one.
    pub fn go_on(&self) {
        self.shared.go_on.notify_one();
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    pub fn last_asked(&self) -> Asked {
        self.asked().pop().expect("Mollie was not asked")
    }

    pub fn payments(&self) -> Vec<Value> {
        self.ledger().payments()
    }

    pub fn newest_payment(&self) -> String {
        let newest = self.payments().pop().expect("no payment was made");
        newest["id"].as_str().unwrap().to_owned()
    }

    /// Returns a payment, including its refunds and charge-backs.
    pub fn payment(&self, id: &str) -> Value {
        self.ledger().payment(id).unwrap_or_else(|| panic!("no payment {id}"))
    }

    /// Sets the status of a payment; its webhook is due. A first payment that is paid creates a mandate, and
    /// unexpectedly so does one that is canceled.
    pub fn settle(&self, payment: &str, status: &str) {
        self.ledger().settle(payment, status);
    }

    /// Fails a payment for this reason; its webhook is due.
    pub fn fail(&self, payment: &str, reason: &str) {
        self.ledger().fail(payment, reason);
    }

    /// Sets the status of new mandates: `valid`, or `pending`, as with `PayPal` for up to 72 hours.
    pub fn mandates_become(&self, status: &str) {
        status.clone_into(&mut self.ledger().mandate_status);
    }

    /// Sets the status of all mandates of a customer.
    pub fn set_mandates(&self, customer: &str, status: &str) {
        self.ledger().set_mandates(customer, status);
    }

    /// Sets the outcome of payments without the payer.
    pub fn recurring_become(&self, recurring: Recurring) {
        self.ledger().recurring = recurring;
    }

    /// Sets the status of new refunds, initially `pending`.
    pub fn refunds_become(&self, status: &str) {
        status.clone_into(&mut self.ledger().refund_status);
    }

    /// Sets the status of a refund; the webhook of its payment is due.
    pub fn set_refund(&self, refund: &str, status: &str) {
        self.ledger().set_refund(refund, status);
    }

    /// Charges an amount of a payment back for the payer's bank, and returns the charge-back's id; the webhook is due.
    pub fn charge_back(&self, payment: &str, cents: i64) -> String {
        self.ledger().charge_back(payment, cents)
    }

    /// Reverses a charge-back in our favour; the webhook of its payment is due.
    pub fn reverse_chargeback(&self, chargeback: &str) {
        self.ledger().reverse_chargeback(chargeback);
    }

    /// Forgets all idempotency keys, as Mollie does after a while.
    pub fn forget_keys(&self) {
        self.ledger().answers.clear();
    }

    /// Takes the ids of the payments whose webhooks are due, in order.
    pub fn take_webhooks(&self) -> Vec<String> {
        std::mem::take(&mut self.ledger().webhooks)
    }

    /// Sends the classic webhook of a payment to the address given with it, and returns the status of the response.
    pub async fn send_webhook(&self, payment: &str) -> StatusCode {
        let url = self.payment(payment)["webhookUrl"].as_str().unwrap().to_owned();
        // A world's edge presents a certificate that no public authority has signed.
        let client = request::client().danger_accept_invalid_certs(true).build().unwrap();
        client.post(url).form(&[("id", payment)]).send().await.unwrap().status()
    }

    /// Sends every webhook that is due, once, in order.
    pub async fn send_webhooks(&self) {
        for payment in self.take_webhooks() {
            assert_eq!(self.send_webhook(&payment).await, 200);
        }
    }

    fn ledger(&self) -> std::sync::MutexGuard<'_, Ledger> {
        self.shared.ledger.lock().unwrap()
    }
}

impl Drop for Mollie {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Asked {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// Returns Mollie's signature of a webhook body.
pub fn sign(body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(WEBHOOK_SECRET.as_bytes()).unwrap();
    mac.update(body.as_bytes());
    hex::encode(mac.finalize().into_bytes())
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, BODY_BYTES).await.unwrap();
    let path = parts.uri.path_and_query().unwrap().as_str().to_owned();
    let json = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let asked = Asked { method: parts.method, path, headers: parts.headers, body: json };
    shared.asked.lock().unwrap().push(asked.clone());
    let is_held = shared.held.lock().unwrap().as_ref().is_some_and(|part| asked.path.contains(part));
    if is_held {
        return std::future::pending().await;
    }
    let fault = shared.faults.lock().unwrap().pop_front();
    let fault = fault.or_else(|| shared.usual.lock().unwrap().clone());
    match fault {
        None => respond(act(&shared, &asked)),
        Some(Fault::RateLimited(seconds)) => {
            let mut response = respond(rules::error(429, "Too many requests; slow down", None));
            if let Some(seconds) = seconds {
                response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
            }
            response
        }
        Some(Fault::Status(status)) => respond(rules::error(status, "As the test wishes", None)),
        Some(Fault::Drops) => broken(),
        Some(Fault::DropsAfter) => {
            act(&shared, &asked);
            broken()
        }
        Some(Fault::FailsAfter) => {
            act(&shared, &asked);
            respond(rules::error(500, "Something went wrong", None))
        }
        Some(Fault::Holds) => {
            let answer = act(&shared, &asked);
            shared.go_on.notified().await;
            respond(answer)
        }
        Some(Fault::Garbage) => "<html>Hello from a captive portal</html>".into_response(),
        Some(Fault::Huge) => huge(),
        Some(Fault::Redirect(location)) => (StatusCode::FOUND, [(header::LOCATION, location)]).into_response(),
    }
}

/// Handles a request; a known idempotency key returns the earlier response.
fn act(shared: &Shared, asked: &Asked) -> (u16, Value) {
    if let Some(refusal) = rules::refuse(asked) {
        return refusal;
    }
    let mut ledger = shared.ledger.lock().unwrap();
    let key = asked.header("idempotency-key").to_owned();
    if let Some(answer) = ledger.answers.get(&key).filter(|_| asked.method == Method::POST) {
        return answer.clone();
    }
    let answer = ledger.act(asked);
    if asked.method == Method::POST && !key.is_empty() {
        ledger.answers.insert(key, answer.clone());
    }
    answer
}

fn respond((status, body): (u16, Value)) -> Response {
    let status = StatusCode::from_u16(status).unwrap();
    (status, [(header::CONTENT_TYPE, "application/hal+json")], body.to_string()).into_response()
}

/// Returns a truncated response.
fn broken() -> Response {
    let pieces = [Ok(Bytes::from_static(b"{\"resource\":")), Err(std::io::Error::other("broken off"))];
    Body::from_stream(futures_util::stream::iter(pieces)).into_response()
}

/// Returns a response of 64 MB.
fn huge() -> Response {
    let piece = Bytes::from(vec![b' '; 1024 * 1024]);
    let pieces = (0..64).map(move |_| Ok::<_, std::io::Error>(piece.clone()));
    Body::from_stream(futures_util::stream::iter(pieces)).into_response()
}
