//! Cells of comma-separated values (RFC 4180).

/// Characters at which spreadsheets may split a cell, quoted or not: depending on the locale, many split at semicolons
/// or tabs, and then take a quote within a cell for its end.
const SPLITS: [char; 5] = [';', '\t', '\r', '\n', '"'];
/// Characters that start a formula.
const SIGILS: [char; 4] = ['=', '+', '-', '@'];

/// Formats a cell with text from others. An apostrophe precedes anything that looks like the start of a formula, so
/// that no part of the cell is interpreted as one, wherever a spreadsheet splits it. Numbers are written without this
/// function, so that negative ones stay numbers.
pub fn cell(text: &str) -> String {
    let text = without_formulas(text);
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

fn without_formulas(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    // Spreadsheets skip these at the start of a cell.
    if text.starts_with(['\t', '\r']) {
        safe.push('\'');
    }
    let mut may_begin = true;
    for c in text.chars() {
        if may_begin && SIGILS.contains(&c) {
            safe.push('\'');
        }
        may_begin = SPLITS.contains(&c) || (may_begin && c == ' ');
        safe.push(c);
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_one_cell_and_no_formula() {
        for (text, expected) in [
            ("/plain", "/plain"),
            ("/a,b", "\"/a,b\""),
            ("/say \"x\"", "\"/say \"\"x\"\"\""),
            ("=cmd()", "'=cmd()"),
            (" =cmd()", " '=cmd()"),
            ("@a,b", "\"'@a,b\""),
            ("404\t/x\t", "404\t/x\t"),
            ("/a-b=c+d@e", "/a-b=c+d@e"),
            ("", ""),
        ] {
            assert_eq!(cell(text), expected);
        }
    }

    /// Splits a line at `separator`, like a program that ignores quotes.
    fn split(line: &str, separator: char) -> impl Iterator<Item = &str> {
        line.split(separator).map(|cell| cell.trim_start_matches(['"', ' ', '\r', '\n', '\t']))
    }

    #[test]
    fn no_part_is_a_formula_wherever_a_spreadsheet_splits() {
        for between in [";", "\t", "\r", "\n", "\r\n", "\"", "\"\"", ";\"", "; ", "\";\"", ";;"] {
            for sigil in SIGILS {
                let line = format!("2026-11-28,path,{},1,16", cell(&format!("/a{between}{sigil}cmd|' /C calc'!A0;b")));
                for separator in [';', '\t', '\r', '\n', '"'] {
                    for part in split(&line, separator) {
                        assert!(!part.starts_with(SIGILS), "{between:?} {sigil}: {part:?} of {line:?}");
                    }
                }
            }
        }
    }
}
