//! One line of text, as people write it: labels, names, lines of an invoice.

/// Returns whether a text has characters that break the line, or that cannot be seen: with the latter a name could pretend to be
/// another. Parts of a pictogram, which join it or say how it looks, are seen with it.
pub fn has_hidden(text: &str) -> bool {
    let mut before = ' ';
    text.chars().any(|c| {
        let is_hidden = is_hidden(c) && !(is_part_of_pictogram(c) && is_pictogram(before));
        before = c;
        is_hidden
    })
}

/// Returns whether a character breaks the line, turns the direction of text, or is invisible.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The joiner, and the selectors of a form.
fn is_part_of_pictogram(c: char) -> bool {
    matches!(c, '\u{200d}' | '\u{fe0e}' | '\u{fe0f}')
}

fn is_pictogram(c: char) -> bool {
    matches!(c, '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{27bf}' | '\u{2900}'..='\u{2bff}'
        | '\u{3030}'..='\u{303d}' | '\u{3297}'..='\u{3299}' | '\u{fe0f}' | '\u{1f000}'..='\u{1faff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_found() {
        for good in
            ["", "Acme & Söhne", "株式会社", "Ελλάδα", "עברית", "ⅷ – “x”", "❤\u{fe0f} CI", "👩\u{200d}💻", "👍🏽 ok"]
        {
            assert!(!has_hidden(good), "{good:?}");
        }
        for c in [
            '\0',
            '\t',
            '\n',
            '\r',
            '\u{7f}',
            '\u{85}',
            '\u{ad}',
            '\u{61c}',
            '\u{200b}',
            '\u{200c}',
            '\u{200d}',
            '\u{200e}',
            '\u{200f}',
            '\u{2028}',
            '\u{2029}',
            '\u{202a}',
            '\u{202e}',
            '\u{2060}',
            '\u{2066}',
            '\u{2069}',
            '\u{180e}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{e0041}',
        ] {
            assert!(has_hidden(&format!("a{c}b")) && has_hidden(&c.to_string()), "{c:?}");
        }
    }
}
