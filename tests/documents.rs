//! What the documents say of the code is so: the excerpts in `CONTRIBUTING.md`, the map in `ARCHITECTURE.md` and what it calls
//! absent.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use domain::plans::{Plan, Plans};

/// Between two pieces of one file.
const GAP: &str = "// …";

#[test]
fn every_excerpt_is_the_code_itself() {
    let root = root();
    let guide = fs::read_to_string(root.join("CONTRIBUTING.md")).unwrap();
    let excerpts: Vec<&str> = guide.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(excerpts.len() >= 7, "an excerpt each of endpoint, extractor, SQL, error, job, row and test");
    for excerpt in excerpts {
        let (path, code) = excerpt.trim_start().split_once('\n').unwrap();
        let path =
            path.strip_prefix("// ").unwrap_or_else(|| panic!("an excerpt does not say where it is from: {path}"));
        let source = fs::read_to_string(root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        let source = flat(&source);
        for piece in code.split(GAP) {
            assert!(
                source.contains(&flat(piece)),
                "this is not in {path}, so CONTRIBUTING.md shows an old shape:\n{piece}"
            );
        }
    }
}

/// Without the indentation, which a list in the guide changes.
fn flat(code: &str) -> String {
    code.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_map_names_every_folder() {
    let root = root();
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let map = text.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let named: HashSet<&str> = map.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').collect();
    // The tests stand by noun, like the API; what `cargo fuzz` writes is not ours.
    for parent in ["", "common", "admin", "admin/src", "edge", "certs", "cli", "bench", "deploy"] {
        for folder in entries(&root.join(parent)).into_iter().filter(|path| path.is_dir()) {
            let name = folder.file_name().unwrap().to_str().unwrap();
            // Where a property fails, its test writes down for which values.
            let is_generated = name.starts_with('.') || name == "target" || name == "proptest-regressions";
            assert!(is_generated || named.contains(name), "the map does not name {parent}/{name}");
        }
    }
}

#[test]
fn the_table_of_plans_is_what_is_shipped() {
    let plans = Plans::default();
    let plans = plans.by_price();
    let row = |what: &str, of: &dyn Fn(&Plan) -> String| {
        let cells: Vec<String> = plans.iter().map(|(_, plan)| of(plan)).collect();
        format!("| {what} | {} |\n", cells.join(" | "))
    };
    let euros = |cents: u32| format!("€{}", cents / 100);
    let table = [
        row("", &|plan| plan.name.clone()).replace("|  |", "| |"),
        row("---", &|_| "---".to_owned()).replace(' ', ""),
        row("a month, without VAT", &|plan| euros(plan.price_cents)),
        row("`projects`", &|plan| plan.limits.projects.to_string()),
        row("`domains`", &|plan| plan.limits.domains.to_string()),
        row("`ready_apps` (limits nothing yet)", &|plan| plan.limits.ready_apps.to_string()),
        row("`bandwidth_bytes` a month", &|plan| domain::size(plan.limits.bandwidth_bytes)),
        row("`ai_credit_cents` a month", &|plan| euros(plan.limits.ai_credit_cents)),
        row("`members`, with pending invites", &|plan| plan.limits.members.to_string()),
        row("`orgs` that a person creates", &|plan| plan.limits.orgs.to_string()),
        row("`storage_bytes`", &|plan| domain::size(plan.limits.storage_bytes)),
        row("`deployments` of a project that are kept", &|plan| plan.limits.deployments.to_string()),
        row("`shares` that have not expired", &|plan| plan.limits.shares.to_string()),
        row("`gateway_body_bytes` of a request", &|plan| domain::size(plan.limits.gateway_body_bytes.get())),
        row("`gateway_max_tokens` of a request", &|plan| plan.limits.gateway_max_tokens.get().to_string()),
    ]
    .concat();
    let page = "docs/guides/plans-and-bills.md";
    let text = fs::read_to_string(root().join(page)).unwrap();
    assert!(text.contains(&table), "{page} does not have this table:\n{table}");
}

#[test]
fn no_crate_but_db_holds_sql() {
    let root = root();
    let mut crates = entries(&root.join("common"));
    crates.retain(|folder| !folder.ends_with("db"));
    crates.extend(["admin", "edge", "certs", "cli"].map(|name| root.join(name)));
    crates.extend(["admin", "edge"].iter().flat_map(|name| entries(&root.join(name))));
    let paths = crates.iter().map(|folder| folder.join("src")).filter(|folder| folder.exists());
    let mut paths: Vec<PathBuf> = paths.collect();
    let mut files = 0;
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            // Tests look into the tables, here as in this crate: what they ask is no part of a program.
            paths.extend(entries(&path).into_iter().filter(|inner| !inner.ends_with("tests")));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files += 1;
            let code = fs::read_to_string(&path).unwrap();
            assert!(!code.contains("sqlx::query") && !code.contains("sqlx::raw_sql"), "{}", path.display());
        }
    }
    assert!(files > 200, "only {files} files were read");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}
