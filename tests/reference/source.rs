//! Reads what the pages need of Rust's sources: documented items, and string literals.

/// An item with the words of its documentation. Its code is on one line.
pub(crate) struct Item {
    pub(crate) words: String,
    pub(crate) code: String,
}

/// The documented statements of a source, each up to its semicolon.
pub(crate) fn items(text: &str) -> Vec<Item> {
    let (mut items, mut words, mut code) = (Vec::new(), Vec::new(), String::new());
    for line in text.lines().map(str::trim) {
        if code.is_empty() {
            if let Some(doc) = line.strip_prefix("///") {
                words.push(doc.trim());
                continue;
            }
            if line.starts_with("#[") {
                continue;
            }
        }
        code.push_str(line);
        code.push(' ');
        if line.ends_with(';') || line.ends_with('}') || line.ends_with('{') || line.is_empty() {
            if !words.is_empty() {
                items.push(Item { words: words.join(" "), code: code.trim().trim_end_matches(';').to_owned() });
            }
            words.clear();
            code.clear();
        }
    }
    items
}

/// The first string literal of a piece of code, without its escapes, and what follows it.
pub(crate) fn literal(code: &str) -> Option<(String, &str)> {
    let (_, rest) = code.split_once('"')?;
    let (mut value, mut letters) = (String::new(), rest.char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &rest[at + 1..])),
            '\\' => match letters.next()?.1 {
                '\n' => {
                    let indent = letters.as_str().chars().take_while(|next| next.is_whitespace()).count();
                    for _ in 0..indent {
                        letters.next();
                    }
                }
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[test]
fn literals_are_read_with_their_escapes() {
    let (value, rest) = literal("x(\"a \\\n     b \\\"c\\\"\", 1)").unwrap();
    assert_eq!((value.as_str(), rest), ("a b \"c\"", ", 1)"));
    assert!(literal("no literal").is_none());
}
