//! Attribution of a broken path to a deployment.

use crate::Timestamp;

/// A half-open period of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimePeriod {
    /// The start, inclusive.
    pub begin: Timestamp,
    /// The end, exclusive.
    pub end: Timestamp,
}

/// Returns the index in `deployments` of the one that broke a path: answered before it, and not found since.
///
/// `deployments` are the times at which they went live, in order; `answered` and `missing` are the periods in which the
/// path was answered and not found, in any order. The order of events within one period is unknown: a path that was
/// missing before a period in which it was also answered was more likely fixed in it.
pub fn breaking_deployment(
    answered: &[TimePeriod],
    missing: &[TimePeriod],
    deployments: &[Timestamp],
) -> Option<usize> {
    let last = answered.iter().max()?;
    let first_missing = missing.iter().filter(|period| period.begin >= last.begin).min()?;
    let latest = |periods: &[TimePeriod]| periods.iter().filter(|period| period.begin < last.begin).max().copied();
    let was_missing = latest(missing).is_some_and(|missing| latest(answered).is_none_or(|known| known < missing));
    let place = deployments.iter().rposition(|at| (last.begin..first_missing.end).contains(at))?;
    (deployments[place] >= last.end || !was_missing).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(hours: &[u8]) -> Vec<TimePeriod> {
        let at = |hour: u8| Timestamp::from_unix_millis(i64::from(hour) * 3_600_000);
        hours.iter().map(|&hour| TimePeriod { begin: at(hour), end: at(hour + 1) }).collect()
    }

    /// Deployments at half past these hours.
    fn deployments(hours: &[u8]) -> Vec<Timestamp> {
        hours.iter().map(|&hour| Timestamp::from_unix_millis(i64::from(hour) * 3_600_000 + 1_800_000)).collect()
    }

    #[test]
    fn a_path_is_broken_by_the_deployment_between_its_last_answer_and_its_first_absence() {
        for (answered, missing, deployed, broken_by) in [
            // Answered, then deployed, then missing.
            (&[1, 2][..], &[5, 6][..], &[0, 3][..], Some(1)),
            (&[1, 2], &[5], &[0, 3, 4, 7], Some(2)),
            // All of it within an hour.
            (&[3], &[3], &[0, 3], Some(1)),
            (&[2, 3], &[3, 4], &[3], Some(0)),
            // Missing, then deployed and answered: fixed, also within an hour.
            (&[3], &[1, 2], &[2], None),
            (&[3], &[2, 3], &[3], None),
            // Missing, fixed, broken again.
            (&[3, 4], &[2, 4], &[3, 4], Some(1)),
            // Never answered, never missing, never deployed in between.
            (&[], &[3], &[2], None),
            (&[3], &[], &[2], None),
            (&[3], &[4], &[2], None),
            // Answered again since.
            (&[1, 6], &[4], &[2], None),
        ] {
            let found = breaking_deployment(&hours(answered), &hours(missing), &deployments(deployed));
            assert_eq!(found, broken_by, "answered {answered:?}, missing {missing:?}, deployed {deployed:?}");
        }
    }
}
