//! Subscriptions, from checkout to their end: what is charged and when, and what follows from what the provider says.
//!
//! Every charge is a row of `payments` before the provider is asked ([`checkout`](mod@checkout), [`renew`]), and whatever
//! the provider says of it goes through one door, [`settle`]: a webhook, a job's look and the answer to the charge itself
//! mean the same, in any order and any number. No transaction is held while the provider is waited for. Whoever changes
//! a subscription or a payment locks the account's subscriptions first. Not here: the providers ([`crate::payments`]),
//! the rendering of invoices, amounts and VAT (crate `domain`).

mod change;
mod charge;
mod checkout;
mod documents;
mod end;
mod invoice;
mod looks;
mod refund;
mod renew;
mod reverse;
mod schedule;
mod settle;
mod terms;
#[cfg(test)]
mod tests;
mod upcoming;

use domain::{Account, OrgName, audit::Action};

pub use self::documents::render;
pub use self::{
    change::{Changed, change_plan},
    checkout::checkout,
    end::{cancel, resume},
    invoice::{Correction, InvoiceContent, Line, PaymentDetails},
    refund::{refund, refund_by_number},
    settle::look,
    terms::{Buyer, Terms, TermsError},
    upcoming::{Upcoming, upcoming},
};
pub(crate) use self::{looks::look_due, renew::renew_due};
use crate::{
    app::App,
    change::Change,
    error::{ApiError, Code},
    payments::PaymentProvider,
};

/// Returns the provider, or the error for where money cannot be moved.
fn provider(app: &App) -> Result<&dyn PaymentProvider, ApiError> {
    app.payments.as_deref().ok_or_else(|| {
        ApiError::new(Code::BillingUnavailable, "This installation has no payment provider, so plans cannot be paid.")
    })
}

/// Adds a line about the account to the audit log. Only organizations have one.
async fn audit(
    change: &mut Change<'_>,
    account: &Account,
    action: Action,
    what: &str,
    plan: &str,
) -> Result<(), sqlx::Error> {
    let Some(org) = account.as_org() else { return Ok(()) };
    let name: Option<OrgName> = db::orgs::find_name(&mut **change, org).await?;
    if let Some(name) = name {
        let entry = db::audit::Entry::of_org(action, org, &name);
        change.audit(entry.with("what", what).with("plan", plan));
    }
    Ok(())
}
