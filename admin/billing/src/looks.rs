//! Polls the provider about payments; jobs call this.

use std::time::Duration;

use ::payments::PaymentError;
use app::App;
use db::billing::payments::{self, Payment};
use futures_util::{StreamExt as _, stream};

use super::{
    charge::charge,
    refund::request_refunds,
    renew::CHARGES_AT_A_TIME,
    schedule::next_call_retry,
    settle::{PaymentReport, settle},
};

/// How long a payment stays leased to a poll before another may begin, if the first was interrupted.
const LOOK_AGAIN: Duration = Duration::from_mins(5);

/// Polls at most `limit` due payments: charges without a response, payments under way, refunds that must be requested,
/// and paid ones that may still be charged back. Returns how many were due.
pub async fn poll_due(app: &App, limit: i64) -> anyhow::Result<usize> {
    let now = app.clock.now();
    let due = payments::take_due(&app.db, now, now + LOOK_AGAIN, limit).await?;
    let count = due.len();
    let looks = stream::iter(due).map(async |payment: Payment| poll_payment(app, &payment).await.err());
    let failures: Vec<_> = looks.buffer_unordered(CHARGES_AT_A_TIME).filter_map(std::future::ready).collect().await;
    if let Some(error) = failures.first() {
        let (failed, error) = (failures.len(), format!("{error:#}"));
        tracing::warn!(failed, error, "payments cannot be looked at; it is tried again");
    }
    Ok(count)
}

/// Does what is due for a leased payment: charges it, reads it, requests its refunds.
async fn poll_payment(app: &App, payment: &Payment) -> anyhow::Result<()> {
    let provider = app.payments.as_deref().filter(|provider| provider.kind().as_str() == payment.provider);
    let Some(provider) = provider else {
        if payment.state.is_under_way() {
            return settle(app, payment, PaymentReport::Elsewhere).await;
        }
        let next = next_call_retry(i32::MAX, None, app.clock.now());
        return Ok(payments::postpone_check(&app.db, &payment.id, next).await?);
    };
    let Some(id) = payment.provider_id.as_deref() else {
        return charge(app, provider, payment).await.map(drop);
    };
    if payment.state.is_under_way() {
        return charge(app, provider, payment).await.map(drop);
    }
    request_refunds(app, provider, payment).await?;
    match provider.payment(id).await {
        Ok(said) => settle(app, payment, PaymentReport::Provider(&said)).await,
        Err(error) => {
            let retry_after = match &error {
                PaymentError::Unavailable { retry_after, .. } => *retry_after,
                PaymentError::Unknown | PaymentError::Refused(_) => {
                    tracing::error!(payment = %payment.id, %error, "a payment cannot be read at its provider");
                    None
                }
            };
            let next = next_call_retry(payment.look_failures, retry_after, app.clock.now());
            Ok(payments::postpone_check(&app.db, &payment.id, next).await?)
        }
    }
}
