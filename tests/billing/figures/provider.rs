//! A provider of which every answer takes its time, and which remembers of many charges what is counted in the end.
//!
//! It speaks as much of Mollie's wire as a renewal needs, and takes whatever it is sent; [`crate::stubs::mollie`] is the strict one.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{Path, State},
    routing::{get, post},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::AbortHandle};

use crate::stubs::latency;

/// The provider, on a port of this machine; it ends with the value.
pub(super) struct SlowProvider {
    /// Its address, without `/v2`.
    pub(super) url: String,
    shared: Arc<Shared>,
    server: AbortHandle,
}

struct Shared {
    latency: Duration,
    calls: AtomicUsize,
    ledger: Mutex<Ledger>,
}

#[derive(Default)]
struct Ledger {
    /// The JSON of each payment, the oldest first.
    payments: Vec<Value>,
    /// The places of payments by the `metadata` of their orders, which hold our ids.
    by_order: HashMap<String, usize>,
    /// The places of payments by their customers.
    by_customer: HashMap<String, Vec<usize>>,
}

impl SlowProvider {
    /// Starts one that takes `latency` for every answer, and to which every customer has given a mandate.
    pub(super) async fn start(latency: Duration) -> Self {
        let shared = Arc::new(Shared { latency, calls: AtomicUsize::new(0), ledger: Mutex::default() });
        let router = Router::new()
            .route("/v2/customers/{id}/mandates", get(mandates))
            .route("/v2/customers/{id}/payments", get(payments))
            .route("/v2/payments", post(create))
            .route("/v2/payments/{id}", get(payment))
            .with_state(shared.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }).abort_handle();
        Self { url, shared, server }
    }

    /// The calls so far.
    pub(super) fn calls(&self) -> usize {
        self.shared.calls.load(Ordering::Relaxed)
    }

    /// The payments so far.
    pub(super) fn charges(&self) -> usize {
        self.shared.ledger().payments.len()
    }

    /// The customers with exactly one payment.
    pub(super) fn charged_once(&self) -> usize {
        self.shared.ledger().by_customer.values().filter(|places| places.len() == 1).count()
    }
}

impl Drop for SlowProvider {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Shared {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap()
    }

    /// Counts a call, which takes its time.
    async fn take(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        latency(self.latency).await;
    }
}

async fn mandates(State(shared): State<Arc<Shared>>) -> Json<Value> {
    shared.take().await;
    Json(json!({ "count": 1, "_embedded": { "mandates": [{ "id": "mdt_1", "status": "valid" }] } }))
}

async fn payments(State(shared): State<Arc<Shared>>, Path(customer): Path<String>) -> Json<Value> {
    shared.take().await;
    let ledger = shared.ledger();
    let places = ledger.by_customer.get(&customer).into_iter().flatten();
    let listed: Vec<&Value> = places.map(|place| &ledger.payments[*place]).collect();
    Json(json!({ "count": listed.len(), "_embedded": { "payments": listed } }))
}

async fn payment(State(shared): State<Arc<Shared>>, Path(id): Path<String>) -> Json<Value> {
    shared.take().await;
    let place: usize = id.trim_start_matches("tr_").parse().unwrap();
    Json(shared.ledger().payments[place].clone())
}

/// Charges a customer. An order that is known is answered as before: our id is its idempotency key.
async fn create(State(shared): State<Arc<Shared>>, Json(order): Json<Value>) -> Json<Value> {
    shared.take().await;
    let mut guard = shared.ledger();
    let ledger = &mut *guard;
    let place = *ledger.by_order.entry(order["metadata"].to_string()).or_insert_with(|| {
        let place = ledger.payments.len();
        ledger.payments.push(json!({
            "id": format!("tr_{place}"), "status": "paid", "amount": order["amount"], "method": "directdebit",
            "metadata": order["metadata"],
        }));
        ledger.by_customer.entry(order["customerId"].as_str().unwrap().to_owned()).or_default().push(place);
        place
    });
    Json(ledger.payments[place].clone())
}
