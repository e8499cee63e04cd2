//! Enforces the layers of `lib.rs`: reads the sources, and fails if a module imports from a layer above its own.

use std::{fs, path::Path};

/// The modules, from the top layer down. A module may import from its own layer and from those below.
const FLOORS: [&[&str]; 9] = [
    &["main", "commands", "serve", "listener", "readiness", "reload"],
    &["router"],
    &["api", "pages", "webhooks", "jobs"],
    &["publishing", "joining", "suspension", "certificates", "billing", "trash", "store_check", "vat_checks", "doctor"],
    &["middleware"],
    &["auth"],
    &["app"],
    &["change"],
    &[
        "addresses",
        "authorities",
        "backups",
        "bounds",
        "codehost",
        "console_files",
        "csv",
        "edges",
        "error",
        "events",
        "extract",
        "fresh_traffic",
        "fullness",
        "gateway",
        "hostnames",
        "html",
        "mail",
        "metrics",
        "payments",
        "probe",
        "programs",
        "quotas",
        "rates",
        "talkers",
        "vat",
        "vitals",
    ],
];

/// The layer of `app.rs`: no layer below names `App`.
const APP: usize = 6;

struct SourceFile {
    path: String,
    module: String,
    code: String,
}

fn sources(folder: &Path, root: &Path, found: &mut Vec<SourceFile>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, root, found);
            continue;
        }
        let relative = path.strip_prefix(root).unwrap();
        let module = relative.components().next().unwrap().as_os_str().to_str().unwrap();
        let module = module.strip_suffix(".rs").unwrap_or(module).to_owned();
        if path.extension().is_none_or(|ext| ext != "rs") || ["lib", "floors", "scarce"].contains(&&*module) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let code = lines.collect::<Vec<_>>().join("\n");
        found.push(SourceFile { path: relative.display().to_string(), module, code });
    }
}

fn crate_sources() -> Vec<SourceFile> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    sources(&root, &root, &mut found);
    found
}

fn find_floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|modules| modules.contains(&module))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the modules that follow each `crate::`, alone or in braces.
fn imports(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, root) in code.match_indices("crate::") {
        if code[..at].ends_with(is_word) {
            continue;
        }
        let rest = &code[at + root.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            found.push(rest.split(|c| !is_word(c)).next().unwrap());
            continue;
        };
        let mut depth = 0;
        let mut item = 0;
        for (i, c) in group.char_indices() {
            if depth == 0 && matches!(c, ',' | '}') {
                found.push(group[item..i].trim().split(|c| !is_word(c)).next().unwrap());
                item = i + 1;
            }
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                _ => {}
            }
        }
    }
    found.retain(|module| !module.is_empty());
    found
}

#[test]
fn imports_lead_down() {
    for SourceFile { path, module, code } in crate_sources() {
        let floor = find_floor(&module).unwrap_or_else(|| panic!("{module} stands on no floor: add it to FLOORS"));
        for imported in imports(&code) {
            let Some(other) = find_floor(imported) else {
                panic!("{path} imports crate::{imported}, which has no floor")
            };
            assert!(floor <= other, "{path} imports crate::{imported}, which stands on a higher floor");
        }
    }
}

#[test]
fn nothing_below_app_names_it() {
    for SourceFile { path, module, code } in crate_sources() {
        let code = code.replace("'\"'", "").replace("\\\"", "");
        // Every second piece is a string literal.
        let names = code.split('"').step_by(2).any(|code| {
            let mut words = code.split(|c| !is_word(c));
            words.any(|word| word == "App")
        });
        let is_below = find_floor(&module).is_some_and(|floor| floor > APP);
        assert!(!(names && is_below), "{path} names App; a service takes the parts that it needs");
    }
}

#[test]
fn changes_are_recorded_in_one_place() {
    for SourceFile { path, code, .. } in crate_sources() {
        let records = code.contains("audit::record(") || code.contains("route_changes::record(");
        assert_eq!(
            records,
            path == "change.rs",
            "{path}: a Change writes the audit log and route_changes, in their order"
        );
    }
}

#[test]
fn imports_are_read_in_both_forms() {
    let code = "use crate::{\n    app::App,\n    auth::{CliUser, x::{self, Y}},\n    pages,\n};\nfn f() { crate::edges::x(); }";
    assert_eq!(imports(code), ["app", "auth", "pages", "edges"]);
    assert_eq!(imports("use crate::error::ApiError;"), ["error"]);
    assert!(imports("notcrate::x").is_empty());
}
