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

use domain::{Account, OrgName, audit::Action, role::Role};
use live::events::Event;

pub use self::documents::render;
pub use self::{
    change::{Changed, change_plan},
    checkout::checkout,
    end::{cancel, resume},
    invoice::{Correction, InvoiceContent, Line, PaymentDetails},
    payer::Payer,
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
    events::KIND_BILLING,
    payments::PaymentProvider,
};

/// Returns the provider, or the error for where money cannot be moved.
fn provider(app: &App) -> Result<&dyn PaymentProvider, ApiError> {
    app.payments.as_deref().ok_or_else(|| {
        ApiError::new(Code::BillingUnavailable, "This installation has no payment provider, so plans cannot be paid.")
    })
}

/// Adds a line about the account to the audit log. Only organizations have one; a person is told by an event.
async fn audit(
    change: &mut Change<'_>,
    account: &Account,
    action: Action,
    what: &str,
    plan: &str,
) -> Result<(), sqlx::Error> {
    let Some(org) = account.as_org() else {
        tell(change, account, None, &[("what", what), ("plan", plan)]);
        return Ok(());
    };
    let name: Option<OrgName> = db::orgs::find_name(&mut **change, org).await?;
    if let Some(name) = name {
        let entry = db::audit::Entry::of_org(action, org, &name);
        change.audit(entry.with("what", what).with("plan", plan));
    }
    Ok(())
}

/// Tells those who may see the account's billing that something of it has changed.
fn tell(change: &mut Change<'_>, account: &Account, org: Option<OrgName>, detail: &[(&str, &str)]) {
    let detail = detail.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect();
    let event = Event {
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
    change.tell(event);
}
