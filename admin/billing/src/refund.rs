//! Refunds, requested by the operator or made because a payment bought nothing. Each is recorded before it is
//! requested.

use ::payments::{PaymentError, PaymentProvider, ProviderReversal, RefundOrder};
use admin_http::error::ApiError;
use anyhow::Context as _;
use app::App;
use db::{
    audit::Actor,
    billing::{
        invoices,
        payments::{self, Payment},
        reversals::{self, PaymentReversal},
    },
};
use domain::{
    InvoiceId, ReversalId,
    billing::{
        Cents,
        invoice::InvoiceKind,
        payment::{PaymentState, ReversalKind, ReversalState},
    },
};

use super::{provider, reverse, schedule::next_call_retry, settle::PaymentContext};

/// Refunds all or part of what was paid on an invoice. The credit note is issued once the money has been returned.
pub async fn refund(app: &App, invoice: &InvoiceId, total: Cents, reason: &str) -> Result<ReversalId, ApiError> {
    let provider = provider(app)?;
    let invoice = invoices::find_by_id(&app.db, invoice).await?.ok_or_else(|| ApiError::not_found("invoice"))?;
    if invoice.kind != InvoiceKind::Invoice {
        return Err(ApiError::invalid("A credit note cannot be refunded; name the invoice that it corrects."));
    }
    let found = payments::find(&app.db, &invoice.payment_id).await?;
    let payment = found.ok_or_else(|| ApiError::not_found("payment"))?;
    let mut change = app.change(Actor::Platform).await?;
    let case = PaymentContext::lock(&mut change, &payment).await.map_err(ApiError::internal)?;
    let back = reversals::list_for_payment(&mut *change, &payment.id).await?;
    let back = back.iter().filter(|reversal| reversal.state != ReversalState::Canceled);
    let left = case.payment.total_cents.0 - back.map(|reversal| reversal.total_cents.0).sum::<i64>();
    if case.payment.state != PaymentState::Paid || total.0 <= 0 || total.0 > left {
        return Err(ApiError::invalid(format!("Between €0.01 and {} of it can be refunded.", Cents(left.max(0)))));
    }
    let now = change.now();
    let reversal = PaymentReversal {
        id: ReversalId::new(now),
        payment_id: payment.id.clone(),
        kind: ReversalKind::Refund,
        total_cents: total,
        state: ReversalState::Pending,
        provider_id: None,
        reason: Some(reason.to_owned()),
        created_at: now,
        settled_at: None,
    };
    reversals::store(&mut change, &reversal).await?;
    let payment = case.payment.clone();
    case.store(&mut change).await?;
    change.commit_without_waiting().await?;
    // A request that fails now is retried by the job.
    match request_refund(app, provider, &payment, &reversal).await {
        Ok(None) => {}
        Ok(Some(refusal)) => {
            return Err(ApiError::invalid(format!("The payment provider will not refund it: {refusal}.")));
        }
        Err(error) => {
            let error = format!("{error:#}");
            tracing::warn!(reversal = %reversal.id, error, "a refund is left to the job that asks again");
        }
    }
    Ok(reversal.id)
}

/// `admin refund`: refunds `total` of the invoice with this number, or all that is left if `total` is `None`.
pub async fn refund_by_number(
    app: &App,
    number: &str,
    total: Option<Cents>,
    reason: &str,
) -> anyhow::Result<(ReversalId, Cents)> {
    let invoice = invoices::find_by_number(&app.db, number).await?;
    let invoice = invoice.with_context(|| format!("there is no invoice {number}"))?;
    let back = reversals::list_for_payment(&app.db, &invoice.payment_id).await?;
    let back = back.iter().filter(|reversal| reversal.state != ReversalState::Canceled);
    let left = invoice.total_cents.0 - back.map(|reversal| reversal.total_cents.0).sum::<i64>();
    let total = total.unwrap_or(Cents(left));
    let id = refund(app, &invoice.id, total, reason)
        .await
        .map_err(|error| anyhow::anyhow!("{}", error.message().to_owned()))?;
    Ok((id, total))
}

pub(crate) async fn request_refunds(
    app: &App,
    provider: &dyn PaymentProvider,
    payment: &Payment,
) -> anyhow::Result<()> {
    for reversal in reversals::list_for_payment(&app.db, &payment.id).await? {
        if reversal.state == ReversalState::Pending && reversal.provider_id.is_none() {
            request_refund(app, provider, payment, &reversal).await?;
        }
    }
    Ok(())
}

/// Requests a refund from the provider, and records the response. Returns the reason if the provider refuses it.
async fn request_refund(
    app: &App,
    provider: &dyn PaymentProvider,
    payment: &Payment,
    reversal: &PaymentReversal,
) -> anyhow::Result<Option<String>> {
    let payment_id = payment.provider_id.as_deref().context("a payment without the provider's id was paid")?;
    let description = format!("Refund {}", reversal.id);
    let order = RefundOrder { id: &reversal.id, payment_id, total: reversal.total_cents, description: &description };
    let told = match provider.refund(&order).await {
        Ok(told) => Ok(ProviderReversal { order: Some(reversal.id.clone()), ..told }),
        Err(PaymentError::Unavailable { reason, retry_after }) => {
            let next = next_call_retry(payment.look_failures, retry_after, app.clock.now());
            payments::postpone_check(&app.db, &payment.id, next).await?;
            anyhow::bail!("the payment provider does not answer: {reason}");
        }
        Err(refusal @ (PaymentError::Refused(_) | PaymentError::Unknown)) => Err(refusal.to_string()),
    };
    let mut change = app.change(Actor::Platform).await?;
    let mut case = PaymentContext::lock(&mut change, payment).await?;
    match &told {
        Ok(told) => reverse::apply_reversals(app, &mut change, &mut case, std::slice::from_ref(told), false).await?,
        Err(refusal) => {
            tracing::error!(reversal = %reversal.id, refusal, "a refund was refused");
            let now = change.now();
            let known = reversals::list_for_payment(&mut *change, &payment.id).await?;
            // A concurrent request may have succeeded meanwhile.
            let is_open = |known: &&PaymentReversal| {
                known.id == reversal.id && known.state == ReversalState::Pending && known.provider_id.is_none()
            };
            if let Some(known) = known.iter().find(is_open) {
                let refused =
                    PaymentReversal { state: ReversalState::Canceled, settled_at: Some(now), ..known.clone() };
                reversals::store(&mut change, &refused).await?;
            }
        }
    }
    case.store(&mut change).await?;
    change.commit_without_waiting().await?;
    Ok(told.err())
}
