//! The widths of a table's columns on a terminal.
//!
//! If a table is too wide, the columns that are empty or only draw, such as bars, are dropped first. Then columns are
//! shortened, the first one least because it names the row's subject. Columns that still do not fit are dropped from
//! the right. Text that people copy, such as an id or an address, is never shortened, since half of it is useless. It
//! is dropped last; in the first column it is always kept, and the terminal wraps it.

use console::measure_text_width;

const GAP: usize = 2;
/// The minimum width of a shortened column: two readable columns are worth more than four unreadable ones.
const LEAST: usize = 8;
/// The minimum width of the first column, which fits an id with its prefix.
const LEAST_OF_FIRST: usize = 28;

/// The headings of columns whose text people copy.
const COPIED: [&str; 22] = [
    "ADDRESS",
    "DEPLOYMENT",
    "DOMAIN",
    "FINGERPRINT",
    "HOST",
    "HOSTNAME",
    "ID",
    "INSTALLATION",
    "INVITE",
    "KEY",
    "LOGIN",
    "MODEL",
    "NAME",
    "NUMBER",
    "ORG",
    "ORGANIZATION",
    "PROJECT",
    "RECORD",
    "SESSION",
    "SHA-256",
    "SHARE",
    "TOKEN",
];

/// Returns the width of each column in characters; `None` for a column that is dropped.
pub(super) fn fit(room: Option<usize>, headings: &[&str], rows: &[Vec<String>]) -> Vec<Option<usize>> {
    let mut widths: Vec<Option<usize>> =
        headings.iter().enumerate().map(|(at, heading)| Some(natural(at, heading, rows))).collect();
    let Some(room) = room else { return widths };
    if total(&widths) <= room {
        return widths;
    }
    drop_where(&mut widths, |at| cells(rows, at).all(str::is_empty));
    if total(&widths) <= room {
        return widths;
    }
    drop_where(&mut widths, |at| cells(rows, at).flat_map(str::chars).all(is_drawing));
    if total(&widths) <= room {
        return widths;
    }
    // A mark before the name, such as that of the live deployment, is narrow enough to keep.
    let first = headings.iter().position(|heading| !heading.is_empty()).unwrap_or(0);
    let marks: usize = widths.iter().take(first).flatten().map(|width| width + GAP).sum();
    let room = room.saturating_sub(marks);
    let is_copied: Vec<bool> = headings.iter().map(|heading| COPIED.contains(heading)).collect();
    let natural = widths[first].unwrap_or(0);
    let of_first = if is_copied[first] { natural } else { natural.min(LEAST_OF_FIRST.max(room / 2)).min(room) };
    widths[first] = Some(of_first);
    share(&mut widths[first + 1..], &is_copied[first + 1..], room.saturating_sub(of_first));
    widths
}

/// Distributes `room` among the columns after the first: narrow and copied ones get what they need, others equal parts.
fn share(widths: &mut [Option<usize>], is_copied: &[bool], room: usize) {
    let needed = |at: usize, width: usize| GAP + if is_copied[at] { width } else { width.min(LEAST) };
    let least = |widths: &[Option<usize>]| -> usize {
        widths.iter().enumerate().filter_map(|(at, width)| Some(needed(at, (*width)?))).sum()
    };
    // A column that does not fit by itself must not displace the others.
    for (width, is_copied) in widths.iter_mut().zip(is_copied) {
        *width = width.filter(|width| !*is_copied || GAP + width <= room);
    }
    while least(widths) > room {
        let shown = || widths.iter().enumerate().filter(|(_, width)| width.is_some()).map(|(at, _)| at);
        let Some(last) = shown().rfind(|at| !is_copied[*at]).or_else(|| shown().next_back()) else { return };
        widths[last] = None;
    }
    let copied: usize =
        widths.iter().zip(is_copied).filter(|(_, is_copied)| **is_copied).filter_map(|(width, _)| *width).sum();
    let shown = widths.iter().flatten().count();
    let mut by_width: Vec<usize> = (0..widths.len()).filter(|at| widths[*at].is_some() && !is_copied[*at]).collect();
    by_width.sort_by_key(|at| widths[*at]);
    let (mut left, mut waiting) = (room.saturating_sub(GAP * shown + copied), by_width.len());
    for at in by_width {
        let width = widths[at].unwrap_or(0).min(left / waiting);
        widths[at] = Some(width);
        left -= width;
        waiting -= 1;
    }
}

fn natural(at: usize, heading: &str, rows: &[Vec<String>]) -> usize {
    cells(rows, at).map(measure_text_width).chain([measure_text_width(heading)]).max().unwrap_or(0)
}

fn cells(rows: &[Vec<String>], at: usize) -> impl Iterator<Item = &str> {
    rows.iter().filter_map(move |row| row.get(at).map(String::as_str))
}

fn total(widths: &[Option<usize>]) -> usize {
    let shown = widths.iter().flatten().count();
    widths.iter().flatten().sum::<usize>() + GAP * shown.saturating_sub(1)
}

fn drop_where(widths: &mut [Option<usize>], is_dropped: impl Fn(usize) -> bool) {
    for (at, width) in widths.iter_mut().enumerate() {
        if is_dropped(at) {
            *width = None;
        }
    }
}

fn is_drawing(c: char) -> bool {
    matches!(c, '\u{2580}'..='\u{259f}' | '·' | ' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widths(room: usize, headings: &[&str], row: &[&str]) -> Vec<Option<usize>> {
        fit(Some(room), headings, &[row.iter().map(ToString::to_string).collect()])
    }

    #[test]
    fn ids_stay_whole_as_long_as_they_have_room() {
        let headings = ["", "DEPLOYMENT", "STATUS", "CREATED", "FILES", "SIZE", "BY"];
        let row = ["●", "dep_0123456789abcdefghij", "superseded", "3 hours ago", "1,097 files", "12 MB", "ada"];
        assert_eq!(widths(200, &headings, &row)[1], Some(24));
        assert_eq!(widths(60, &headings, &row), [Some(1), Some(24), Some(9), Some(9), Some(9), None, None]);
        assert_eq!(widths(30, &headings, &row), [Some(1), Some(24), None, None, None, None, None]);
    }

    #[test]
    fn what_is_copied_is_whole_or_left_out() {
        let headings = ["NAME", "STATE", "CREATED", "ADDRESS"];
        let row = ["harbour-docs", "live", "3 months ago", "https://harbour-docs.svc.example.org/"];
        assert_eq!(widths(80, &headings, &row), [Some(12), Some(5), Some(12), Some(37)]);
        assert_eq!(widths(60, &headings, &row), [Some(12), Some(5), None, Some(37)]);
        assert_eq!(widths(40, &headings, &row), [Some(12), Some(5), Some(12), None]);
        let row = ["https://a-very-long-name-of-a-share.svc.example.org/", "in 3 days"];
        assert_eq!(widths(40, &["ADDRESS", "EXPIRES"], &row), [Some(52), None]);
        let row = ["ai_0123456789abcdefghij", "a label that somebody has written at length", "yesterday", "12"];
        let headings = ["TOKEN", "LABEL", "CREATED", "THIS MONTH"];
        for room in 24..120 {
            let whole = widths(room, &headings, &row)[0];
            assert_eq!(whole, Some(23), "{room}");
        }
    }

    #[test]
    fn bars_go_before_words_are_shortened() {
        let row = ["/a/path/of/some/length", "12,000", "████████████████████"];
        assert_eq!(widths(60, &["PATH", "VIEWS", ""], &row), [Some(22), Some(6), Some(20)]);
        assert_eq!(widths(40, &["PATH", "VIEWS", ""], &row), [Some(22), Some(6), None]);
        assert_eq!(widths(30, &["PATH", "VIEWS", ""], &row), [Some(22), Some(6), None]);
    }
}
