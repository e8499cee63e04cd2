//! The tables of README.md: each stands between two markers and is replaced whole.

use std::fs;

use anyhow::Context as _;

const FILE: &str = "bench/README.md";

/// Replaces what stands between `<!-- name -->` and `<!-- /name -->`.
pub(crate) fn write(name: &str, section: &str) -> anyhow::Result<()> {
    let text = fs::read_to_string(FILE).context(FILE)?;
    let replaced = replace(&text, name, section).with_context(|| format!("{FILE} has no markers for {name}"))?;
    fs::write(FILE, replaced).context(FILE)
}

fn replace(text: &str, name: &str, section: &str) -> Option<String> {
    let (head, rest) = text.split_once(&format!("<!-- {name} -->"))?;
    let (_, tail) = rest.split_once(&format!("<!-- /{name} -->"))?;
    Some(format!("{head}<!-- {name} -->\n{}\n<!-- /{name} -->{tail}", section.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_section_changes() {
        let text = "a\n<!-- x -->\nold\n<!-- /x -->\nb <!-- y -->keep<!-- /y -->\n";
        let expected = "a\n<!-- x -->\nnew\n<!-- /x -->\nb <!-- y -->keep<!-- /y -->\n";
        assert_eq!(replace(text, "x", "new\n").as_deref(), Some(expected));
        assert_eq!(replace(text, "z", "new"), None);
    }
}
