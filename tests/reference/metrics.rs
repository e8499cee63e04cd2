//! `docs/reference/metrics.md`: every metric that the programs describe.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::{cell, hold, read, source::literal};

const HEAD: &str = "# Metrics

Every metric of the two programs, as `/metrics` describes it (`edge.metrics_listen`, `admin.metrics_listen`); [Observe](../operate/observe.md) says
which ones to watch. A histogram has `_bucket`, `_sum` and `_count`. This page is written by `SVC_WRITE_DOCS=1 cargo test -p reference`, which
fails when it is not current.

| metric | kind | of | what it says |
|---|---|---|---|
";

/// The sources that describe metrics, and whose they are.
const SOURCES: [(&str, &str); 6] = [
    ("edge/metrics/src/lib.rs", "edge"),
    ("admin/app/src/metrics.rs", "admin"),
    ("admin/src/programs.rs", "admin"),
    ("common/identity/src/lib.rs", "both"),
    ("common/telemetry/src/metrics.rs", "both"),
    ("common/telemetry/src/process.rs", "both"),
];

type Rows = BTreeMap<String, (String, &'static str, String)>;

/// The metrics that are described by the macros of the crate `metrics`.
fn described(code: &str, whose: &'static str, rows: &mut Rows) {
    for kind in ["counter", "gauge", "histogram"] {
        for call in code.split(&format!("describe_{kind}!(")).skip(1) {
            let (first, _) = call.split_once(',').unwrap();
            let (name, rest) = if first.contains('"') {
                literal(call).unwrap()
            } else {
                // A name that other code uses as well is a constant.
                let constant = first.trim().rsplit("::").next().unwrap();
                let named = read("common/telemetry/src/reload.rs");
                let value = named.split_once(&format!("const {constant}: &str = ")).unwrap().1;
                (literal(value).unwrap().0, &call[first.len()..])
            };
            let words = literal(rest).unwrap().0;
            rows.insert(name, (kind.to_owned(), whose, words));
        }
    }
}

/// The metrics that are written by hand: a name, a kind, and words.
fn written(code: &str, whose: &'static str, rows: &mut Rows) {
    let pieces: Vec<&str> = code.split("Kind::").collect();
    for pair in pieces.windows(2) {
        let Some(name) = pair[0].trim_end().trim_end_matches(',').rsplit('"').nth(1) else { continue };
        let Some((kind, rest)) = pair[1].split_once(',') else { continue };
        if (name.starts_with("svc_") || name.starts_with("process_")) && rest.trim_start().starts_with('"') {
            rows.insert(name.to_owned(), (kind.to_lowercase(), whose, literal(rest).unwrap().0));
        }
    }
}

#[test]
fn the_page_of_metrics_is_current() {
    let mut rows = Rows::new();
    for (file, whose) in SOURCES {
        let text = read(file);
        let code = text.split("#[cfg(test)]").next().unwrap();
        described(code, whose, &mut rows);
        if !code.contains("describe_") {
            written(code, whose, &mut rows);
        }
    }
    assert!(rows.len() > 80, "{} metrics", rows.len());
    let mut page = HEAD.to_owned();
    for (name, (kind, whose, words)) in rows {
        writeln!(page, "| `{name}` | {kind} | {whose} | {} |", cell(&words)).unwrap();
    }
    hold("metrics.md", &page);
}
