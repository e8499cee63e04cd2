//! The EU's VAT registry by its documented REST API: `POST /check-vat-number` and `GET /ms/{state}/vat/{number}`, which name their
//! fields differently, and answer errors with 200. What it says of a number is set with [`Vies::set`].

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

/// Bytes of an answer that is longer than any of the registry's.
const HUGE: usize = 1024 * 1024;

/// What the registry does when it is asked about a number.
#[derive(Debug, Clone, Copy)]
pub enum Says {
    /// Somebody has it, and the state tells who: name and address.
    Valid(&'static str, &'static str),
    /// Nobody has it.
    Unknown,
    /// An error in `userError`, with 200 and an answer that looks as if nobody had the number.
    UserError(&'static str),
    /// An error in `errorWrappers`, with this status.
    Wrapped(u16, &'static str),
    /// This status and body.
    Raw(u16, &'static str),
    /// An answer that does not end soon.
    Huge,
    /// The connection is held, and nothing is said.
    Silence,
}

/// A question that the registry had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The number, with its prefix.
    pub number: String,
    /// The number in whose name was asked, with its prefix.
    pub requester: Option<String>,
}

#[derive(Default)]
struct Shared {
    says: Mutex<HashMap<String, Vec<Says>>>,
    /// Where nothing is set for a number.
    otherwise: Mutex<Option<Says>>,
    /// A number that may ask; every other is refused as a requester.
    requester: Mutex<Option<String>>,
    asked: Mutex<Vec<Asked>>,
}

/// A registry on a port of this machine; it ends with the value.
pub struct Vies {
    /// Where it is: the value for `billing.vies_url`.
    pub url: String,
    shared: Arc<Shared>,
    server: AbortHandle,
}

impl Vies {
    /// Starts one that knows no number.
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

    /// What it says of a number from now on.
    pub fn set(&self, number: &str, says: Says) {
        self.set_next(number, &[says]);
    }

    /// What it says of a number, question by question; the last stays.
    pub fn set_next(&self, number: &str, says: &[Says]) {
        let says = says.iter().rev().copied().collect();
        self.shared.says.lock().unwrap().insert(number.to_owned(), says);
    }

    /// What it says of every other number.
    pub fn set_all(&self, says: Says) {
        self.shared.says.lock().unwrap().clear();
        *self.shared.otherwise.lock().unwrap() = Some(says);
    }

    /// Refuses everybody who asks in the name of another number.
    pub fn accept_requester(&self, number: &str) {
        *self.shared.requester.lock().unwrap() = Some(number.to_owned());
    }

    /// The questions so far.
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
