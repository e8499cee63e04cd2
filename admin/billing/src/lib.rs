//! Subscriptions, from checkout to their end: what is charged and when, and how the provider's reports are applied.
//!
//! Every charge is a row of `payments` before the provider is contacted ([`checkout`](mod@checkout), [`renew`]).
//! Everything the provider reports passes through [`settle`]: a webhook, a job's poll and the response to the charge
//! have the same effect, in any order and however often they repeat. No transaction is held while waiting for the
//! provider. Code that changes a subscription or a payment locks the account's subscriptions first. Not here: the
//! providers ([`payments`]), the rendering of invoices, amounts and VAT (crate `domain`).

mod change;
mod charge;
mod checkout;
mod documents;
mod end;
mod invoice;
mod looks;
mod payer;
mod refund;
mod renew;
mod reverse;
mod schedule;
mod settle;
mod terms;
#[cfg(test)]
mod tests;
mod upcoming;
mod upgrade;
pub mod vat_checks;

use ::payments::PaymentProvider;
use admin_http::error::{ApiError, Code};
use app::{App, change::Change, events::KIND_BILLING};
use domain::{Account, OrgName, audit::Action, role::Role};
use live::events::AccountEvent;

pub use self::documents::render;
pub use self::{
    change::{PlanChangeTime, change_plan},
    checkout::checkout,
    end::{cancel, cancel_for_former_owner, resume},
    invoice::{ContentLine, CorrectedInvoice, InvoiceContent, PaymentDetails},
    payer::BillingPermit,
    refund::{refund, refund_by_number},
    settle::poll_by_provider_id,
    terms::{InvoiceBuyer, PaymentTerms, TermsError},
    upcoming::{UpcomingCharge, upcoming},
};
pub use self::{looks::poll_due, renew::renew_due};

fn provider(app: &App) -> Result<&dyn PaymentProvider, ApiError> {
    app.payments.as_deref().ok_or_else(|| {
        ApiError::new(Code::BillingUnavailable, "This installation has no payment provider, so plans cannot be paid.")
    })
}

/// Writes to the account's audit log. Only organizations have one; a person receives an event.
async fn audit(
    change: &mut Change<'_>,
    account: &Account,
    action: Action,
    what: &str,
    plan: &str,
) -> Result<(), sqlx::Error> {
    let Some(org) = account.as_org() else {
        publish_billing_event(change, account, None, &[("what", what), ("plan", plan)]);
        return Ok(());
    };
    let name: Option<OrgName> = db::orgs::find_name(&mut **change, org).await?;
    if let Some(name) = name {
        let entry = db::audit::NewAuditEntry::for_org(action, org, &name);
        change.audit(entry.with("what", what).with("plan", plan));
    }
    Ok(())
}

/// Sends an event to everyone who may see the account's billing.
fn publish_billing_event(change: &mut Change<'_>, account: &Account, org: Option<OrgName>, detail: &[(&str, &str)]) {
    let detail = detail.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect();
    let event = AccountEvent {
        kind: KIND_BILLING.to_owned(),
        owner: account.clone(),
        org,
        project: None,
        subject: None,
        by: None,
        actor: None,
        at: change.now(),
        detail,
        admin_detail: serde_json::Map::new(),
        told_from: Role::Admin,
        changes_members: false,
    };
    change.publish(event);
}
