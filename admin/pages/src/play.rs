//! `/play/:id`: the page for paying play money, open to anyone who has its address. It says clearly that no money
//! moves.

use admin_http::{
    addresses::paths,
    extract::{Path, read_body},
    html,
};
use app::{
    App,
    auth::session,
    middleware::client::ClientAddress,
    rates::{self, Bucket},
};
use askama::Template;
use axum::{
    Extension,
    body::Body,
    extract::State,
    http::{HeaderMap, Method, StatusCode},
    response::Response,
};
use db::billing::play::{self, PlayPayment, PlayStatus};
use payments::ProviderKind;
use serde::Deserialize;
use url::Url;

use super::PageError;

#[derive(Template)]
#[template(path = "play/payment.html")]
struct PaymentPage<'a> {
    payment: &'a PlayPayment,
    path: &'a str,
    /// The payment's outcome, once decided.
    outcome: Option<&'a str>,
}

#[derive(Deserialize)]
struct PlayForm {
    decision: PlayDecision,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PlayDecision {
    /// Pay, now and later.
    Pay,
    /// Pay now; later charges fail.
    Once,
    Fail,
    Cancel,
}

/// Shows the payment without changing anything.
pub(super) async fn show(
    State(app): State<App>,
    Extension(ClientAddress(client)): Extension<ClientAddress>,
    Path(id): Path<String>,
) -> Result<Response, PageError> {
    // Ids cannot be guessed, but each attempt costs a query.
    app.rate_limits.count_client(Bucket::Public, &rates::client(client)).await.check()?;
    Ok(match find(&app, &id).await? {
        Some(payment) => page(StatusCode::OK, &payment),
        None => no_payment(),
    })
}

/// Accepts the payer's decision, settles the payment, and redirects the payer back.
pub(super) async fn decide(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, PageError> {
    if !session::is_from_console(&app, &Method::POST, &headers) {
        return Ok(session::foreign_form());
    }
    let Some(payment) = find(&app, &id).await? else { return Ok(no_payment()) };
    let Ok(PlayForm { decision }) = serde_urlencoded::from_bytes(&read_body(body).await?) else {
        return Ok(page(StatusCode::BAD_REQUEST, &payment));
    };
    let (status, later_charges_pay) = match decision {
        PlayDecision::Pay => (PlayStatus::Paid, true),
        PlayDecision::Once => (PlayStatus::Paid, false),
        PlayDecision::Fail => (PlayStatus::Failed, true),
        PlayDecision::Cancel => (PlayStatus::Canceled, true),
    };
    // A repeated decision changes nothing and redirects like the first.
    play::decide(&app.db, &id, status, later_charges_pay).await?;
    if let Err(error) = billing::poll_by_provider_id(&app, &id).await {
        // A job tries again; the payer has done their part.
        tracing::warn!("a payment of play money is not settled yet: {error:#}");
    }
    Ok(html::see_other(&payment.redirect_url))
}

async fn find(app: &App, id: &str) -> Result<Option<PlayPayment>, PageError> {
    if app.payments.as_ref().is_none_or(|provider| provider.kind() != ProviderKind::Play) {
        return Ok(None);
    }
    let payment = play::find(&app.db, id).await?;
    // Only first payments have a payer present.
    Ok(payment.filter(|payment| payment.is_first))
}

fn page(status: StatusCode, payment: &PlayPayment) -> Response {
    let outcome = match payment.status {
        PlayStatus::Open => None,
        PlayStatus::Paid => Some("This payment was paid."),
        PlayStatus::Failed => Some("This payment failed."),
        PlayStatus::Canceled => Some("This payment was canceled."),
    };
    let path = format!("{}/{}", paths::PLAY, payment.id);
    // The response to the form redirects back to where the payer came from.
    let origin = payment.redirect_url.parse().map(|url: Url| url.origin().ascii_serialization()).ok();
    html::page_with_forms_to(origin.as_deref(), status, &PaymentPage { payment, path: &path, outcome })
}

fn no_payment() -> Response {
    html::message(StatusCode::NOT_FOUND, "No such payment", "There is no payment of play money at this address.")
}
