//! Writes the tables of a part: all of them to `tables.md`, and the first one to README.md if it has a place for the
//! part. Each place is between two markers and replaced as a whole.

use std::fs;

use anyhow::Context as _;

const TABLES: &str = "bench/tables.md";
const README: &str = "bench/README.md";

/// Replaces the text between `<!-- name -->` and `<!-- /name -->` in both files.
pub(crate) fn write(name: &str, section: &str) -> anyhow::Result<()> {
    let tables = fs::read_to_string(TABLES).context(TABLES)?;
    let tables = replace(&tables, name, section).with_context(|| format!("{TABLES} has no markers for {name}"))?;
    fs::write(TABLES, tables).context(TABLES)?;
    let readme = fs::read_to_string(README).context(README)?;
    if let Some(readme) = replace(&readme, name, &headline(section)) {
        fs::write(README, readme).context(README)?;
    }
    Ok(())
}

/// Returns the line about the machine and the date of a section, and the section's first table.
fn headline(section: &str) -> String {
    let run = section.lines().find(|line| line.starts_with("Run of")).unwrap_or_default();
    let table = section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    format!("{run}\n\n{}", table.collect::<Vec<_>>().join("\n"))
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

    #[test]
    fn a_headline_is_the_first_table_and_its_machine() {
        let section = "Run of today.\n\nWords.\n\n| a |\n|---|\n| 1 |\n\nMore.\n\n| b |\n";
        assert_eq!(headline(section), "Run of today.\n\n| a |\n|---|\n| 1 |");
    }
}
