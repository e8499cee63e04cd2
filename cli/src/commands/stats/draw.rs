//! Draws numbers: sparklines with the deployments below them, and bars.

use api::stats::DeploymentMark;
use domain::Timestamp;

use super::midnight;
use crate::output::{self, count, table};

const MARKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const DEPLOYED: char = '▲';
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
/// The width that a sparkline leaves for its caption: two spaces, and the number of times per mark.
const MEANING_MARGIN: usize = 2 + ", 999 a mark".len();
const BAR: usize = 20;

/// Draws one mark for each number, in proportion to the highest. A number above zero is never blank.
pub(super) fn sparkline(numbers: &[u64]) -> String {
    let most = u128::from(numbers.iter().copied().max().unwrap_or(0).max(1));
    let steps = MARKS.len() as u128 - 1;
    let mark = |number: &u64| {
        let height = (u128::from(*number) * steps).div_ceil(most);
        MARKS[usize::try_from(height).unwrap_or(0).min(MARKS.len() - 1)]
    };
    numbers.iter().map(mark).collect()
}

/// Draws a sparkline with its caption, and a mark below each deployment. `begins` are the start times of its parts.
pub(super) fn timeline(numbers: &[u64], begins: &[Timestamp], meaning: &str, deployments: &[DeploymentMark]) -> String {
    timeline_within(output::width(), numbers, begins, meaning, deployments)
}

fn timeline_within(
    room: Option<usize>,
    numbers: &[u64],
    begins: &[Timestamp],
    meaning: &str,
    deployments: &[DeploymentMark],
) -> String {
    // If the numbers do not fit, each mark is the sum of several.
    let room = room.map_or(usize::MAX, |room| room.saturating_sub(meaning.chars().count() + MEANING_MARGIN));
    let together = numbers.len().div_ceil(room.max(1)).max(1);
    let meaning = if together > 1 { format!("{meaning}, {together} a mark") } else { meaning.to_owned() };
    let numbers: Vec<u64> = numbers.chunks(together).map(|part| part.iter().sum()).collect();
    let begins: Vec<Timestamp> = begins.iter().step_by(together).copied().collect();
    let line = format!("{}  {meaning}", sparkline(&numbers));
    let mut places = vec![' '; begins.len()];
    for mark in deployments {
        let place = begins.partition_point(|begin| *begin <= mark.at);
        if let Some(place) = place.checked_sub(1).and_then(|place| places.get_mut(place)) {
            *place = DEPLOYED;
        }
    }
    if !places.contains(&DEPLOYED) {
        return line;
    }
    let marks: String = places.into_iter().collect();
    format!("{line}\n{marks}  deployments")
}

/// Draws a bar in proportion to `most`, in eighths of a character. A number above zero is never blank.
pub(in crate::commands) fn bar(number: u64, most: u64) -> String {
    let eighths = (u128::from(number) * BAR as u128 * 8).div_ceil(u128::from(most.max(1)));
    let eighths = usize::try_from(eighths).unwrap_or(0).min(BAR * 8);
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// Describes the days of a report, given its end and its days: days that end today are "last N days".
pub(super) fn period<'d>(
    to: Timestamp,
    mut days: impl DoubleEndedIterator<Item = &'d str> + ExactSizeIterator,
) -> String {
    let number = days.len();
    match (days.next(), days.next_back()) {
        (Some(day), None) if to > midnight(day) && is_midnight(to) => day.to_owned(),
        (Some(first), Some(last)) if is_midnight(to) => format!("{first} to {last}"),
        _ => format!("last {}", count(number as u64, "day")),
    }
}

fn is_midnight(time: Timestamp) -> bool {
    serde_json::to_value(time).is_ok_and(|text| text.as_str().is_some_and(|text| text.ends_with("T00:00:00Z")))
}

/// Formats the number of the preceding period of the same length as a following sentence; empty if it is unknown.
pub(super) fn previous_period(number: Option<u64>, length: u64, unit: &str) -> String {
    let Some(number) = number else { return String::new() };
    let length = if length == 1 { unit.to_owned() } else { count(length, unit) };
    format!(" {number} in the {length} before.")
}

/// Quotes a name that is empty or has blanks at an end, so that it is recognizable in a table.
fn table_name(name: &str) -> String {
    const NOTHING: &str = "(none)";
    if name.is_empty() {
        NOTHING.to_owned()
    } else if name.trim() == name && name != NOTHING {
        name.to_owned()
    } else {
        format!("{name:?}")
    }
}

/// Returns a country's two letters, or a word for `XX`, the code of addresses without a known country.
pub(super) fn country(code: &str) -> &str {
    if code == "XX" { "unknown" } else { code }
}

/// Formats a table of names and numbers with bars, highest first.
pub(super) fn bars<'r>(heading: &str, counted: &str, rows: impl Iterator<Item = (&'r str, u64)>) -> String {
    let rows: Vec<_> = rows.collect();
    let most = rows.iter().map(|(_, number)| *number).max().unwrap_or(0);
    let cells: Vec<Vec<String>> =
        rows.into_iter().map(|(name, number)| vec![table_name(name), number.to_string(), bar(number, most)]).collect();
    table(&[heading, counted, ""], &cells, &format!("No {}.", heading.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::DeploymentId;

    use super::*;

    #[test]
    fn a_sparkline_shows_the_least_and_the_most() {
        assert_eq!(sparkline(&[0, 1, 500, 1_000]), " ▁▄█");
        assert_eq!(sparkline(&[0, 0]), "  ");
        assert_eq!(sparkline(&[u64::MAX]), "█");
        assert_eq!(sparkline(&[]), "");
    }

    #[test]
    fn deployments_stand_below_their_time() {
        let hour = |number: u64| Timestamp::from_unix_millis(0) + Duration::from_hours(number);
        let begins: Vec<Timestamp> = (1..=4).map(hour).collect();
        let mark = |at| DeploymentMark { id: DeploymentId::new(at), at, git_sha: None };
        let marks = [mark(hour(0)), mark(hour(2) + Duration::from_mins(59)), mark(hour(4))];
        assert_eq!(timeline(&[1, 1, 1, 1], &begins, "requests", &marks), "████  requests\n ▲ ▲  deployments");
        assert_eq!(timeline(&[1], &begins[..1], "requests", &marks[..1]), "█  requests");
    }

    #[test]
    fn a_line_of_time_fits_the_terminal() {
        let begins: Vec<Timestamp> =
            (0..365).map(|day| Timestamp::from_unix_millis(0) + Duration::from_hours(24 * day)).collect();
        let marks = [DeploymentMark { id: DeploymentId::new(begins[364]), at: begins[364], git_sha: None }];
        let text = timeline_within(Some(60), &[1; 365], &begins, "requests by day", &marks);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        assert!(text.contains("requests by day, 12 a mark") && text.contains('▲'), "{text}");
        assert_eq!(timeline_within(Some(60), &[1, 1], &begins[..2], "requests", &[]), "██  requests");
    }

    #[test]
    fn days_are_the_last_ones_or_have_their_dates() {
        let days = ["2026-11-21", "2026-11-22"];
        let now = midnight("2026-11-22") + Duration::from_secs(1);
        assert_eq!(period(now, days.into_iter()), "last 2 days");
        assert_eq!(period(now, days[1..].iter().copied()), "last 1 day");
        assert_eq!(period(midnight("2026-11-23"), days.into_iter()), "2026-11-21 to 2026-11-22");
        assert_eq!(period(midnight("2026-11-23"), days[1..].iter().copied()), "2026-11-22");
        // A report from the first moments of today.
        assert_eq!(period(midnight("2026-11-22"), days[1..].iter().copied()), "last 1 day");
    }

    #[test]
    fn what_was_before_is_a_sentence() {
        assert_eq!(previous_period(Some(7), 30, "day"), " 7 in the 30 days before.");
        assert_eq!(previous_period(Some(0), 1, "day"), " 0 in the day before.");
        assert_eq!(previous_period(None, 365, "day"), "");
    }

    #[test]
    fn odd_names_can_be_told_apart() {
        assert_eq!(["", "(none)", "/a b", " "].map(table_name), ["(none)", "\"(none)\"", "/a b", "\" \""]);
    }

    #[test]
    fn bars_are_parts_of_the_longest() {
        assert_eq!(bar(8, 8).chars().count(), 20);
        assert_eq!((&*bar(1, 160), &*bar(1, 1_000_000), &*bar(0, 5)), ("▏", "▏", ""));
        assert_eq!(bar(u64::MAX, u64::MAX).chars().count(), 20);
        assert_eq!(bars("PATH", "VIEWS", std::iter::empty()), "No path.");
    }
}
