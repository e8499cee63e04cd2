//! The widths of a table's columns on a terminal.
//!
//! A table that is too wide loses first the columns in which nothing stands and those that only draw, such as bars. Then
//! its columns are shortened, the first one least: it names what the row is about. What still has no room is left out from
//! the right.

use console::measure_text_width;

/// Characters between two columns.
const GAP: usize = 2;
/// A column is not shortened below this: two columns that can be read are worth more than four that cannot.
const LEAST: usize = 8;
/// The first column is not shortened below this, which is an id with its prefix.
const LEAST_OF_FIRST: usize = 28;

/// The width of each column, in characters; none for a column that is left out.
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
    // A mark before the name, such as that of the live deployment, is narrow enough to stay.
    let first = headings.iter().position(|heading| !heading.is_empty()).unwrap_or(0);
    let marks: usize = widths.iter().take(first).flatten().map(|width| width + GAP).sum();
    let room = room.saturating_sub(marks);
    let of_first = widths[first].unwrap_or(0).min(LEAST_OF_FIRST.max(room / 2)).min(room);
    widths[first] = Some(of_first);
    share(&mut widths[first + 1..], room - of_first);
    widths
}

/// Gives the columns after the first one their part of `room`: narrow ones what they need, the others alike.
fn share(widths: &mut [Option<usize>], room: usize) {
    let least =
        |widths: &[Option<usize>]| -> usize { widths.iter().flatten().map(|width| GAP + (*width).min(LEAST)).sum() };
    while least(widths) > room {
        let Some(last) = widths.iter().rposition(Option::is_some) else { return };
        widths[last] = None;
    }
    let mut by_width: Vec<usize> = (0..widths.len()).filter(|at| widths[*at].is_some()).collect();
    by_width.sort_by_key(|at| widths[*at]);
    let (mut left, mut waiting) = (room - GAP * by_width.len(), by_width.len());
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

/// Whether the character is part of a bar.
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
    fn bars_go_before_words_are_shortened() {
        let row = ["/a/path/of/some/length", "12,000", "████████████████████"];
        assert_eq!(widths(60, &["PATH", "VIEWS", ""], &row), [Some(22), Some(6), Some(20)]);
        assert_eq!(widths(40, &["PATH", "VIEWS", ""], &row), [Some(22), Some(6), None]);
        assert_eq!(widths(30, &["PATH", "VIEWS", ""], &row), [Some(22), Some(6), None]);
    }
}
