//! When billing retries: failed charges, polls of payments, calls without a response.

use std::time::Duration;

use db::billing::payments::Payment;
use domain::{Timestamp, billing::payment::PaymentState};

const DAY: Duration = Duration::from_hours(24);

/// Pauses after the first, second, … failed charge of a month. The subscription ends if the charge after the last pause
/// fails.
pub(super) const DUNNING: [Duration; 4] = [DAY, DAY.saturating_mul(3), DAY.saturating_mul(5), DAY.saturating_mul(7)];
pub(super) const MANDATE_WAIT: Duration = Duration::from_hours(72);
pub(super) const MANDATE_PAUSE: Duration = Duration::from_hours(2);
/// The age after which a refund that the provider does not list counts as cancelled.
pub(super) const REFUND_LISTED_WITHIN: Duration = Duration::from_hours(1);
/// How long a charge can be reversed: thirteen months in the SEPA scheme, plus some days for the report of it.
const REVERSIBLE: Duration = Duration::from_hours(24 * 400);
/// How long a payment may stay unknown to its provider, or belong to a provider that is not configured, before it
/// counts as failed: longer than a direct debit takes, with time to correct the configuration.
pub(super) const LOST_WAIT: Duration = Duration::from_hours(24 * 14);
/// How long an unpaid payment is still polled, in case it is paid after all.
const LATE_PAYMENT_WINDOW: Duration = Duration::from_hours(24 * 14);

/// Returns when a charge that has failed `failures` times is retried; `None` after the last attempt.
pub(super) fn next_charge_attempt(failures: i32, now: Timestamp) -> Option<Timestamp> {
    let index = usize::try_from(failures.max(1) - 1).ok()?;
    DUNNING.get(index).map(|pause| now + *pause)
}

/// Returns when a subscription whose renewal failed on our side is retried. Pauses grow with the time since `since`,
/// when its month became due.
pub(super) fn next_renewal_retry(since: Timestamp, now: Timestamp) -> Timestamp {
    const SHORTEST: Duration = Duration::from_mins(5);
    const LONGEST: Duration = Duration::from_hours(6);
    now + (now.since(since) / 2).clamp(SHORTEST, LONGEST)
}

/// Returns when a call that got no response `failures` times is retried, at the earliest after the provider's pause.
pub(super) fn next_call_retry(failures: i32, retry_after: Option<Duration>, now: Timestamp) -> Timestamp {
    let doublings = u32::try_from(failures).unwrap_or(0).min(6);
    let pause = Duration::from_mins(1).saturating_mul(1 << doublings);
    now + pause.max(retry_after.unwrap_or_default()).min(DAY)
}

/// Returns when a payment is polled next, with pauses that grow with its age; `None` when it can no longer change.
pub(super) fn next_poll(payment: &Payment, has_pending_reversal: bool, now: Timestamp) -> Option<Timestamp> {
    let (since, pauses, until) = match payment.state {
        PaymentState::Intended => (payment.created_at, [Duration::from_mins(2), DAY], None),
        PaymentState::Open => (payment.created_at, [Duration::from_mins(10), DAY / 2], None),
        PaymentState::Paid => (payment.settled_at?, [DAY, DAY.saturating_mul(14)], Some(REVERSIBLE)),
        PaymentState::Failed | PaymentState::Canceled | PaymentState::Expired => {
            payment.provider_id.as_ref()?;
            (payment.settled_at?, [DAY, DAY.saturating_mul(4)], Some(LATE_PAYMENT_WINDOW))
        }
    };
    let age = now.since(since);
    if until.is_some_and(|until| age > until) && !has_pending_reversal {
        return None;
    }
    let [shortest, longest] = pauses;
    let longest = if has_pending_reversal { DAY } else { longest };
    Some(now + (age / 4).clamp(shortest.min(longest), longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_are_tried_five_times() {
        let now = Timestamp::from_unix_millis(0);
        let days = |failures| next_charge_attempt(failures, now).map(|at| at.since(now).as_secs() / 86_400);
        assert_eq!([1, 2, 3, 4, 5].map(days), [Some(1), Some(3), Some(5), Some(7), None]);
    }

    #[test]
    fn silence_is_answered_with_growing_pauses() {
        let now = Timestamp::from_unix_millis(0);
        let wait = |failures, after| next_call_retry(failures, after, now).since(now).as_secs();
        assert_eq!((wait(0, None), wait(1, None), wait(50, None)), (60, 120, 3_840));
        assert_eq!(wait(0, Some(Duration::from_mins(5))), 300);
    }
}
