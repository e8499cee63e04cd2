//! Line breaking of text to a width.

use super::fonts::{FontWeight, width};

/// Breaks the text into at most `max` lines of the width, in units of the font size: at spaces, between characters of
/// East Asian scripts, and within a word that is wider than a line. Overflowing text ends in an ellipsis.
pub(super) fn wrap(text: &str, weight: FontWeight, room: f32, max: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    let mut used = 0.0;
    for piece in pieces(text) {
        let wide = width(piece, weight);
        if used + width(piece.trim_end(), weight) > room && !line.is_empty() {
            lines.push(std::mem::take(&mut line));
            used = 0.0;
        }
        if wide <= room {
            line.push_str(piece);
            used += wide;
            continue;
        }
        for c in piece.chars() {
            let wide = width(c.encode_utf8(&mut [0; 4]), weight);
            if used + wide > room && !line.is_empty() && c != ' ' {
                lines.push(std::mem::take(&mut line));
                used = 0.0;
            }
            line.push(c);
            used += wide;
        }
    }
    lines.push(line);
    let is_cut = lines.len() > max;
    lines.truncate(max);
    for line in &mut lines {
        line.truncate(line.trim_end().len());
    }
    if let (true, Some(last)) = (is_cut, lines.last_mut()) {
        *last = shorten(&format!("{last}…"), weight, room);
    }
    lines
}

/// Returns the text, shortened with an ellipsis if it exceeds the width.
pub(super) fn shorten(text: &str, weight: FontWeight, room: f32) -> String {
    if width(text, weight) <= room {
        return text.to_owned();
    }
    let mut kept = text.trim_end_matches('…').to_owned();
    while !kept.is_empty() && width(&kept, weight) + width("…", weight) > room {
        kept.pop();
    }
    kept.truncate(kept.trim_end().len());
    kept + "…"
}

/// Splits text into words with their trailing spaces; characters before or after which a line may break are separate.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut chars = rest.char_indices().peekable();
        while let Some((_, c)) = chars.next() {
            if let Some(&(at, next)) = chars.peek()
                && ((c == ' ' && next != ' ') || is_ideograph(c) || is_ideograph(next))
            {
                let (piece, after) = rest.split_at(at);
                rest = after;
                return Some(piece);
            }
        }
        (!rest.is_empty()).then(|| std::mem::take(&mut rest))
    })
}

/// Returns whether a character is Chinese, Japanese or Korean, so that lines may break next to it.
fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{2fff}' | '\u{3040}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_lose_nothing() {
        let text = "Analytical Engines & Daughters, Department of Difference, Donaudampfschifffahrtsgesellschaftskapitän 株式会社東京";
        let lines = wrap(text, FontWeight::Regular, 9.0, 100);
        assert!(lines.len() > 6);
        assert!(lines.iter().all(|line| width(line, FontWeight::Regular) <= 9.0), "{lines:?}");
        let letters = |text: &str| text.replace(' ', "");
        assert_eq!(letters(&lines.concat()), letters(text));
    }

    #[test]
    fn what_does_not_fit_ends_in_an_ellipsis() {
        let lines = wrap("one two three four five six", FontWeight::Regular, 5.0, 2);
        assert_eq!(lines.len(), 2);
        assert!(lines[1].ends_with('…') && width(&lines[1], FontWeight::Regular) <= 5.0, "{lines:?}");
        assert_eq!(shorten("short", FontWeight::Regular, 50.0), "short");
        assert_eq!(wrap("", FontWeight::Regular, 5.0, 2), [""]);
    }
}
