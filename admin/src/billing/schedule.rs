//! When billing does something again: failed charges, looks at payments, calls that were not answered.

use std::time::Duration;

use db::billing::payments::Payment;
use domain::{Timestamp, billing::payment::PaymentState};

const DAY: Duration = Duration::from_hours(24);

/// Pauses after a month's first, second, … failed charge. After one more the subscription ends.
pub(super) const DUNNING: [Duration; 4] = [DAY, DAY.saturating_mul(3), DAY.saturating_mul(5), DAY.saturating_mul(7)];
/// Longest time for which a mandate that is being set up is waited for.
pub(super) const MANDATE_WAIT: Duration = Duration::from_hours(72);
/// Pause before a mandate that is being set up is asked for again.
pub(super) const MANDATE_PAUSE: Duration = Duration::from_hours(2);
/// Time after which a refund that the provider does not list any more was called off.
pub(super) const REFUND_LISTED_WITHIN: Duration = Duration::from_hours(1);
/// Time in which a charge may be taken back: thirteen months in the SEPA scheme, with some days for the news of it.
const REVERSIBLE: Duration = Duration::from_hours(24 * 400);
/// Time after which a payment has failed that its provider does not know, or whose provider is not the configured one.
/// Longer than a direct debit is under way, and long enough to put a mistake in the configuration right.
pub(super) const LOST_WAIT: Duration = Duration::from_hours(24 * 14);
/// Time for which a payment that was not paid is looked at still, should it be paid after all.
const LATE: Duration = Duration::from_hours(24 * 14);

/// Returns when a charge that has failed `failures` times is tried again; `None` after the last attempt.
pub(super) fn next_attempt(failures: i32, now: Timestamp) -> Option<Timestamp> {
    let index = usize::try_from(failures.max(1) - 1).ok()?;
    DUNNING.get(index).map(|pause| now + *pause)
}

/// Returns when a subscription is worked off again whose turn has failed on our side, with pauses that grow with the time
/// `since` which its month is due.
pub(super) fn after_trouble(since: Timestamp, now: Timestamp) -> Timestamp {
    const SHORTEST: Duration = Duration::from_mins(5);
    const LONGEST: Duration = Duration::from_hours(6);
    now + (now.since(since) / 2).clamp(SHORTEST, LONGEST)
}

/// Returns when a call is made again that was not answered `failures` times before, and not before the provider's pause.
pub(super) fn after_silence(failures: i32, retry_after: Option<Duration>, now: Timestamp) -> Timestamp {
    let doublings = u32::try_from(failures).unwrap_or(0).min(6);
    let pause = Duration::from_mins(1).saturating_mul(1 << doublings);
    now + pause.max(retry_after.unwrap_or_default()).min(DAY)
}

/// Returns when the provider is asked about a payment again, with pauses that grow with its age; `None` when nothing can
/// happen to it any more.
pub(super) fn next_look(payment: &Payment, has_pending_reversal: bool, now: Timestamp) -> Option<Timestamp> {
    let (since, pauses, until) = match payment.state {
        PaymentState::Intended => (payment.created_at, [Duration::from_mins(2), DAY], None),
        PaymentState::Open => (payment.created_at, [Duration::from_mins(10), DAY / 2], None),
        PaymentState::Paid => (payment.settled_at?, [DAY, DAY.saturating_mul(14)], Some(REVERSIBLE)),
        PaymentState::Failed | PaymentState::Canceled | PaymentState::Expired => {
            payment.provider_id.as_ref()?;
            (payment.settled_at?, [DAY, DAY.saturating_mul(4)], Some(LATE))
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
        let days = |failures| next_attempt(failures, now).map(|at| at.since(now).as_secs() / 86_400);
        assert_eq!([1, 2, 3, 4, 5].map(days), [Some(1), Some(3), Some(5), Some(7), None]);
    }

    #[test]
    fn silence_is_answered_with_growing_pauses() {
        let now = Timestamp::from_unix_millis(0);
        let wait = |failures, after| after_silence(failures, after, now).since(now).as_secs();
        assert_eq!((wait(0, None), wait(1, None), wait(50, None)), (60, 120, 3_840));
        assert_eq!(wait(0, Some(Duration::from_mins(5))), 300);
    }
}
