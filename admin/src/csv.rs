//! Cells of comma-separated values (RFC 4180).

/// Formats a cell that holds what others wrote. A spreadsheet takes no such cell for a formula: one that looks like it
/// begins with an apostrophe.
pub fn cell(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
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
            ("@a,b", "\"'@a,b\""),
            ("404\t/x\t", "404\t/x\t"),
            ("", ""),
        ] {
            assert_eq!(cell(text), expected);
        }
    }
}
