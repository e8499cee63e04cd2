//! The next charge of an account, to the cent.

use admin_http::error::ApiError;
use app::App;
use db::billing::subscriptions;
use domain::{
    Account, Timestamp,
    billing::{Cents, vat::VatTreatment},
};

use super::{PaymentTerms, terms::TermsError};

/// The next charge of an account, provided that nothing changes until then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpcomingCharge {
    /// The time of the charge.
    pub charged_at: Timestamp,
    /// The id of the plan that is charged.
    pub plan: String,
    /// The amount without VAT.
    pub net: Cents,
    /// The VAT.
    pub vat: Cents,
    /// The amount with VAT.
    pub total: Cents,
    /// The treatment of VAT.
    pub treatment: VatTreatment,
}

/// Returns the next charge of the account, computed from the same terms as the charge itself; `None` if nothing will
/// be, or can be, charged.
pub async fn upcoming(app: &App, account: &Account) -> Result<Option<UpcomingCharge>, ApiError> {
    let Some(subscription) = subscriptions::current(&app.db, account).await? else { return Ok(None) };
    if !subscription.status.is_entitled() || subscription.cancel_at_period_end {
        return Ok(None);
    }
    // While a charge is under way there is no scheduled time; that charge is for the month that is due.
    let due = subscription.next_attempt_at.or_else(|| subscription.month_start(subscription.due_period));
    let Some(charged_at) = due else { return Ok(None) };
    let mut conn = app.db.acquire().await?;
    let terms = match PaymentTerms::for_next_charge(app, &mut conn, &subscription).await {
        Ok(terms) => terms,
        Err(TermsError::Db(error)) => return Err(error.into()),
        Err(TermsError::NoSeller | TermsError::NoPlan(_) | TermsError::NoProfile) => return Ok(None),
    };
    let PaymentTerms { plan, treatment, amounts, .. } = terms;
    let next = UpcomingCharge { charged_at, plan, net: amounts.net, vat: amounts.vat, total: amounts.total, treatment };
    Ok((next.total > Cents::ZERO).then_some(next))
}
