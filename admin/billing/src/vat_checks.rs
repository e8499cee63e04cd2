//! The consequences of the VAT registry's answers: a buyer whose number it knows is a business, one whose number it no
//! longer knows is a consumer, and without an answer the buyer's status stays as it was for a limited time.
//!
//! Start with [`check_again`], which the job calls, also within the day before an account is charged.

use std::time::Duration;

use app::App;
use db::{
    audit::{Actor, NewAuditEntry},
    billing::profiles::{self, InvoiceProfile},
    orgs,
};
use domain::{Account, Timestamp, audit::Action, billing::vat::VatStatus};
use mail::notices::{Notice, notify};
use vat::{CheckQueue, VatAnswer, VatError};

/// The time for which an answer counts without another check.
const FRESH: Duration = Duration::from_hours(24);
/// The interval at which a valid number is checked again: less than any paid month.
const VALID_AGAIN: Duration = Duration::from_hours(27 * 24);
/// The interval at which an invalid number is checked again: it may be registered later, or was rejected by mistake.
const INVALID_AGAIN: Duration = Duration::from_hours(7 * 24);
/// The first backoff after a check without an answer. Each further one in a row doubles it up to [`RETRY_LONGEST`].
const RETRY: Duration = Duration::from_mins(1);
const RETRY_LONGEST: Duration = Duration::from_hours(24);
/// The maximum number of doublings of [`RETRY`].
const DOUBLINGS: i32 = 16;
/// The time for which a valid number stays valid without a new confirmation. After that, VAT is charged.
const UNCONFIRMED_AFTER: Duration = Duration::from_hours(60 * 24);

/// Returns whether the number of `profile` needs no check: it has none, or was confirmed within the last 24 hours.
pub fn is_fresh(profile: &InvoiceProfile, now: Timestamp) -> bool {
    let is_recent = profile.vat_checked_at.is_some_and(|at| now.since(at) < FRESH);
    profile.vat_number.is_none() || (profile.vat_status == Some(VatStatus::Valid) && is_recent)
}

/// Checks the number of `profile` at the registry, stores the outcome, and notifies the owners if it became invalid.
///
/// Returns the resulting details. Without an answer, a number confirmed within the last 60 days stays valid.
pub async fn check_again(
    app: &App,
    profile: InvoiceProfile,
    asker: CheckQueue<'_>,
) -> Result<Option<InvoiceProfile>, sqlx::Error> {
    let Some(number) = profile.vat_number.clone() else { return Ok(Some(profile)) };
    let answer = app.vat.check(&number, asker).await;
    if let Err(VatError::Busy(_)) = answer {
        // The registry was not contacted, so nothing changes.
        return Ok(Some(profile));
    }
    if let Err(VatError::Unavailable(reason)) = &answer {
        tracing::info!(account = %profile.account, failures = profile.vat_failures, "{reason}");
    }
    let mut change = app.change(Actor::Platform).await?;
    let now = change.now();
    let mut checked = apply_answer(&profile, answer, now);
    let org = match &profile.account {
        Account::User(_) => None,
        Account::Org(id) => {
            let name = orgs::find_name(&mut *change, id).await?;
            if name.is_none() {
                // The organization was deleted. Its payments stay, and its number need not be checked any more.
                checked.vat_next_check = None;
            }
            name.map(|name| (id.clone(), name))
        }
    };
    if !profiles::record_check(&mut change, &checked).await? {
        // The number changed meanwhile, and was checked when it was stored.
        return profiles::find(&mut *change, &profile.account).await;
    }
    if profile.vat_status != checked.vat_status
        && let Some((id, name)) = org
    {
        let entry = NewAuditEntry::for_org(Action::BillingVatStatus, &id, &name)
            .with("vat_number", number.as_str())
            .with("from", profile.vat_status.map(VatStatus::as_str))
            .with("to", checked.vat_status.map(VatStatus::as_str));
        change.audit(entry);
    }
    if profile.vat_status != Some(VatStatus::Invalid) && checked.vat_status == Some(VatStatus::Invalid) {
        let event = format!("vat-invalid/{}/{}/{now}", profile.account, number.as_str());
        let notice = Notice::VatNumberInvalid { number };
        notify(&mut change, &profile.account, &event, &notice, None, now).await?;
    }
    change.commit_without_waiting().await?;
    Ok(Some(checked))
}

/// Returns `profile` updated with the registry's answer.
pub fn apply_answer(profile: &InvoiceProfile, answer: Result<VatAnswer, VatError>, now: Timestamp) -> InvoiceProfile {
    let asked = InvoiceProfile { vat_failures: 0, ..profile.clone() };
    let answered = InvoiceProfile {
        vat_checked_at: Some(now),
        vat_consultation: None,
        vat_name: None,
        vat_address: None,
        ..asked
    };
    match answer {
        Ok(VatAnswer::Valid { name, address, consultation }) => InvoiceProfile {
            vat_status: Some(VatStatus::Valid),
            vat_consultation: consultation,
            vat_name: name,
            vat_address: address,
            vat_next_check: Some(now + VALID_AGAIN),
            ..answered
        },
        Ok(VatAnswer::Unknown) => InvoiceProfile {
            vat_status: Some(VatStatus::Invalid),
            vat_next_check: Some(now + INVALID_AGAIN),
            ..answered
        },
        Err(VatError::Busy(_)) => profile.clone(),
        Err(VatError::Unavailable(_)) => {
            let is_recent = profile.vat_checked_at.is_some_and(|at| now.since(at) <= UNCONFIRMED_AFTER);
            let status = match profile.vat_status {
                Some(VatStatus::Valid) if !is_recent => Some(VatStatus::Pending),
                None => Some(VatStatus::Pending),
                known => known,
            };
            let doublings = profile.vat_failures.clamp(0, DOUBLINGS);
            let pause = RETRY.saturating_mul(1 << doublings).min(RETRY_LONGEST);
            InvoiceProfile {
                vat_status: status,
                vat_failures: profile.vat_failures.saturating_add(1),
                vat_next_check: Some(now + pause),
                ..profile.clone()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::{Clock, UserId};

    use super::*;
    use vat::RegistryUnavailable;

    const DAY: Duration = Duration::from_hours(24);

    fn profile(now: Timestamp) -> InvoiceProfile {
        InvoiceProfile {
            account: UserId::new(now).into(),
            name: "Acme".parse().unwrap(),
            country: "DE".parse().unwrap(),
            address: None,
            vat_number: Some("DE123456789".parse().unwrap()),
            vat_status: None,
            vat_checked_at: None,
            vat_consultation: None,
            vat_name: None,
            vat_address: None,
            vat_next_check: None,
            vat_failures: 0,
            updated_at: now,
        }
    }

    fn valid() -> VatAnswer {
        let consultation = Some("WAPI1".to_owned());
        VatAnswer::Valid { name: Some("ACME".to_owned()), address: None, consultation }
    }

    fn silent() -> Result<VatAnswer, VatError> {
        Err(VatError::Unavailable(RegistryUnavailable::State("MS_UNAVAILABLE".to_owned())))
    }

    #[test]
    fn a_silent_registry_is_asked_less_and_less_often() {
        let now = Clock::system().now();
        let mut profile = profile(now);
        let mut pauses = Vec::new();
        for _ in 0..40 {
            profile = apply_answer(&profile, silent(), now);
            assert_eq!((profile.vat_status, profile.vat_checked_at), (Some(VatStatus::Pending), None));
            pauses.push(profile.vat_next_check.unwrap().since(now));
        }
        assert_eq!(pauses[..3], [RETRY, RETRY * 2, RETRY * 4]);
        assert!(pauses.is_sorted() && pauses.last() == Some(&DAY), "{pauses:?}");
        let answered = apply_answer(&profile, Ok(valid()), now);
        assert_eq!((answered.vat_failures, answered.vat_next_check), (0, Some(now + VALID_AGAIN)));
    }

    #[test]
    fn silence_makes_no_number_invalid_and_an_old_confirmation_lapses() {
        let start = Clock::system().now();
        let confirmed = apply_answer(&profile(start), Ok(valid()), start);
        assert_eq!((confirmed.vat_status, confirmed.vat_checked_at), (Some(VatStatus::Valid), Some(start)));
        for (days, status) in [(28, VatStatus::Valid), (60, VatStatus::Valid), (61, VatStatus::Pending)] {
            let later = apply_answer(&confirmed, silent(), start + DAY * days);
            assert_eq!((later.vat_status, later.vat_checked_at), (Some(status), Some(start)), "{days} days");
            assert_eq!(later.vat_consultation.as_deref(), Some("WAPI1"), "the proof of the last answer is kept");
        }
        let invalid = apply_answer(&confirmed, Ok(VatAnswer::Unknown), start + DAY);
        assert_eq!((invalid.vat_status, invalid.vat_consultation.clone()), (Some(VatStatus::Invalid), None));
        assert_eq!(apply_answer(&invalid, silent(), start + DAY * 90).vat_status, Some(VatStatus::Invalid));
        assert_eq!(apply_answer(&invalid, Ok(valid()), start + DAY * 90).vat_status, Some(VatStatus::Valid));
    }
}
