//! The EU's VAT registry, with its documented REST API: `POST /check-vat-number` and `GET /ms/{state}/vat/{number}`,
//! which name their fields differently and return errors with 200. [`Vies::set`] sets its response for a number.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    body::Body,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::AbortHandle};

/// The size of a response that is longer than any of the registry's.
const HUGE: usize = 1024 * 1024;

/// The registry's response for a number.
#[derive(Debug, Clone, Copy)]
pub enum Says {
    /// The number is valid, with a name and an address.
    Valid(&'static str, &'static str),
    /// The number is not registered.
    Unknown,
    /// An error in `userError`, with 200 and a response like that for an unregistered number.
    UserError(&'static str),
    /// An error in `errorWrappers`, with this status.
    Wrapped(u16, &'static str),
    /// This status and body.
    Raw(u16, &'static str),
    /// A response that is far too long.
    Huge,
    /// No response: the connection stays open.
    Silence,
}

/// A request that the registry received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The number, with its prefix.
    pub number: String,
    /// The requester's own number, with its prefix.
    pub requester: Option<String>,
}

#[derive(Default)]
struct Shared {
    says: Mutex<HashMap<String, Vec<Says>>>,
    /// The response for all other numbers.
    otherwise: Mutex<Option<Says>>,
    /// The only accepted requester; every other is refused.
    requester: Mutex<Option<String>>,
    asked: Mutex<Vec<Asked>>,
}

/// A registry on a local port, which ends when this value is dropped.
pub struct Vies {
    /// The value of `billing.vies_url`.
    pub url: String,
    shared: Arc<Shared>,
    server: AbortHandle,
}

impl Vies {
    /// Starts a registry without any number.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/rest-api", listener.local_addr().unwrap());
        let shared = Arc::new(Shared::default());
        let router = Router::new()
            .route("/rest-api/check-vat-number", post(check))
            .route("/rest-api/ms/{state}/vat/{number}", get(look))
            .with_state(shared.clone());
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }).abort_handle();
        Self { url, shared, server }
    }

    pub fn set(&self, number: &str, says: Says) {
        self.set_next(number, &[says]);
    }

    /// Sets the responses for a number, request by request; the last one stays.
    pub fn set_next(&self, number: &str, says: &[Says]) {
        let says = says.iter().rev().copied().collect();
        self.shared.says.lock().unwrap().insert(number.to_owned(), says);
    }

    pub fn set_all(&self, says: Says) {
        self.shared.says.lock().unwrap().clear();
        *self.shared.otherwise.lock().unwrap() = Some(says);
    }

    /// Refuses all requesters but this one.
    pub fn accept_requester(&self, number: &str) {
        *self.shared.requester.lock().unwrap() = Some(number.to_owned());
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }
}

impl Drop for Vies {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn check(State(shared): State<Arc<Shared>>, Json(question): Json<Value>) -> Response {
    let field = |name: &str| question[name].as_str().unwrap_or_default().to_owned();
    let (state, national) = (field("countryCode"), field("vatNumber"));
    let requester = format!("{}{}", field("requesterMemberStateCode"), field("requesterNumber"));
    let accepted = shared.requester.lock().unwrap().clone();
    let is_refused = accepted.is_some_and(|accepted| accepted != requester);
    let says = shared.question(format!("{state}{national}"), Some(requester));
    if is_refused {
        return wrapped(200, "INVALID_REQUESTER_INFO");
    }
    let (valid, name, address) = match says {
        Says::Valid(name, address) => (true, name, address),
        Says::Unknown | Says::UserError(_) => (false, "---", "---"),
        other => return misbehave(other).await,
    };
    let mut answer = json!({
        "countryCode": state, "vatNumber": national, "requestDate": "2026-11-23T10:00:00.000Z", "valid": valid,
        "requestIdentifier": if valid { format!("WAPI{national}") } else { String::new() },
        "name": name, "address": address,
        "traderName": "---", "traderStreet": "---", "traderPostalCode": "---", "traderCity": "---",
        "traderCompanyType": "---", "traderNameMatch": "NOT_PROCESSED", "traderStreetMatch": "NOT_PROCESSED",
    });
    if let Says::UserError(code) = says {
        answer["userError"] = code.into();
    }
    Json(answer).into_response()
}

async fn look(State(shared): State<Arc<Shared>>, Path((state, national)): Path<(String, String)>) -> Response {
    let says = shared.question(format!("{state}{national}"), None);
    let (is_valid, user_error, name, address) = match says {
        Says::Valid(name, address) => (true, "VALID", name, address),
        Says::Unknown => (false, "INVALID", "---", "---"),
        Says::UserError(code) => (false, code, "---", "---"),
        other => return misbehave(other).await,
    };
    Json(json!({
        "isValid": is_valid, "requestDate": "2026-11-23T10:00:00.000Z", "userError": user_error, "name": name,
        "address": address, "requestIdentifier": "", "originalVatNumber": national, "vatNumber": national,
        "viesApproximate": {
            "name": "---", "street": "---", "postalCode": "---", "city": "---", "companyType": "---", "matchName": 3,
            "matchStreet": 3, "matchPostalCode": 3, "matchCity": 3, "matchCompanyType": 3,
        },
    }))
    .into_response()
}

impl Shared {
    fn question(&self, number: String, requester: Option<String>) -> Says {
        let mut says = self.says.lock().unwrap();
        let said = match says.get_mut(&number) {
            Some(next) if next.len() > 1 => next.pop(),
            Some(last) => last.last().copied(),
            None => *self.otherwise.lock().unwrap(),
        };
        self.asked.lock().unwrap().push(Asked { number, requester });
        said.unwrap_or(Says::Unknown)
    }
}

async fn misbehave(says: Says) -> Response {
    match says {
        Says::Wrapped(status, code) => wrapped(status, code),
        Says::Raw(status, body) => (StatusCode::from_u16(status).unwrap(), body).into_response(),
        Says::Huge => Body::from(vec![b' '; HUGE]).into_response(),
        _ => std::future::pending().await,
    }
}

fn wrapped(status: u16, code: &str) -> Response {
    let body = json!({ "actionSucceed": false, "errorWrappers": [{ "error": code, "message": "Übersetzt" }] });
    (StatusCode::from_u16(status).unwrap(), Json(body)).into_response()
}
