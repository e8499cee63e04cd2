//! `docs/reference/limits.md`: the bounds that no key changes.

use std::{fmt::Write as _, path::Path};

use crate::{cell, hold, read, root, source};

const HEAD: &str = "# Limits

The bounds that stand in the code, with the reasons that stand beside them. [Plans](../guides/plans-and-bills.md) and
[configuration](configuration.md) have those that an operator sets. KB, MB and GB are powers of 1,024. This page is written by
`SVC_WRITE_DOCS=1 cargo test -p reference`, which fails when it is not current.
";

/// The sources with bounds outside of the edge, and their headings.
const SOURCES: [(&str, &str); 3] = [
    ("common/domain/src/limits.rs", "What people can do"),
    ("admin/app/src/rates.rs", "Admin: rates"),
    ("admin/app/src/bounds.rs", "Admin: work at a time"),
];

/// A value as people write it: sizes, times and numbers that can be computed here, and code otherwise.
fn shown(name: &str, code: &str) -> String {
    let code = code.trim();
    if let Some((start, end)) = code.split_once("..=") {
        return format!("{} to {}", shown(name, start), shown(name, end));
    }
    if let Some((unit, inner)) =
        code.strip_prefix("Duration::from_").and_then(|rest| rest.strip_suffix(')')?.split_once('('))
        && let Some(number) = product(inner)
    {
        return match unit {
            "millis" => format!("{} ms", grouped(number)),
            "secs" => format!("{} s", grouped(number)),
            "mins" => format!("{} min", grouped(number)),
            "hours" if number > 24 && number % 24 == 0 => format!("{} days", grouped(number / 24)),
            "hours" => format!("{} h", grouped(number)),
            other => format!("{} {other}", grouped(number)),
        };
    }
    match product(code) {
        Some(number) if name.contains("BYTES") || code.contains('B') => size(number),
        Some(number) => grouped(number),
        None => format!("`{}`", cell(code)),
    }
}

/// The value of a product of numbers and units of size.
fn product(code: &str) -> Option<u64> {
    code.split('*').try_fold(1, |value: u64, factor| {
        let factor = match factor.trim() {
            "KB" | "KIB" => 1024,
            "MB" | "MIB" => 1024 * 1024,
            "GB" | "GIB" => 1024 * 1024 * 1024,
            number => number.replace('_', "").parse().ok()?,
        };
        value.checked_mul(factor)
    })
}

fn size(bytes: u64) -> String {
    [("GB", 1024 * 1024 * 1024), ("MB", 1024 * 1024), ("KB", 1024)]
        .iter()
        .find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit))
        .map_or_else(|| format!("{} bytes", grouped(bytes)), |(name, unit)| format!("{} {name}", grouped(bytes / unit)))
}

/// The number with a comma between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The section of a source's documented constants; empty where it has none.
fn section(file: &str, heading: &str) -> String {
    let mut rows = String::new();
    let text = read(file);
    for item in source::items(text.split("#[cfg(test)]").next().unwrap()) {
        let Some((_, declared)) = item.code.split_once("const ") else { continue };
        let Some(((name, of), value)) =
            declared.split_once('=').and_then(|(head, value)| Some((head.split_once(':')?, value)))
        else {
            continue;
        };
        let is_bound = ["u8", "u16", "u32", "u64", "usize", "i32", "i64", "f64", "Duration", "RangeInclusive"];
        let is_unit = ["KB", "MB", "GB"].contains(&name.trim());
        if is_unit || !is_bound.iter().any(|kind| of.trim().starts_with(kind)) {
            continue;
        }
        writeln!(rows, "| {} | {} | `{}` |", cell(&item.words), shown(name, value), name.trim()).unwrap();
    }
    if rows.is_empty() {
        return rows;
    }
    format!("\n## {heading}\n\n| what | value | in `{file}` |\n|---|---|---|\n{rows}")
}

#[test]
fn the_page_of_limits_is_current() {
    let mut page = HEAD.to_owned();
    for (file, heading) in SOURCES {
        page.push_str(&section(file, heading));
    }
    let mut files: Vec<String> = std::fs::read_dir(root().join("edge/limits/src"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| {
            Path::new(name).extension().is_some_and(|end| end == "rs")
                && !["lib.rs", "payers.rs", "tests.rs"].contains(&name.as_str())
        })
        .collect();
    files.sort();
    for file in files {
        let name = file.trim_end_matches(".rs").replace('_', " ");
        page.push_str(&section(&format!("edge/limits/src/{file}"), &format!("Edge: {name}")));
    }
    assert!(page.lines().count() > 300, "{} lines", page.lines().count());
    hold("limits.md", &page);
}

#[test]
fn values_are_written_as_people_do() {
    for (name, code, wanted) in [
        ("UPLOAD_BYTES", "100 * MB", "100 MB"),
        ("A", "Duration::from_hours(30 * 24)", "30 days"),
        ("A", "Duration::from_millis(1_500)", "1,500 ms"),
        ("A", "4..=128", "4 to 128"),
        ("CONNECTION_BYTES", "24 * 1000", "24,000 bytes"),
        ("A", "2 * CLIENT", "`2 * CLIENT`"),
    ] {
        assert_eq!(shown(name, code), wanted);
    }
}
