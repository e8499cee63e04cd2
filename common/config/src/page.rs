//! Checks `docs/reference/configuration.md` against the code: the type, default, description and effect of every key.

use std::fmt::Write as _;

use super::{
    Config,
    reload::{KEYS, KeyEffect, ReloadingProgram},
};

/// The source files of the sections, which contain the type and description of each key.
const SOURCES: [&str; 18] = [
    include_str!("sections/acme.rs"),
    include_str!("sections/admin.rs"),
    include_str!("sections/backup.rs"),
    include_str!("sections/billing.rs"),
    include_str!("sections/code_host.rs"),
    include_str!("sections/edge.rs"),
    include_str!("sections/gateway.rs"),
    include_str!("sections/limits.rs"),
    include_str!("sections/mail.rs"),
    include_str!("sections/postgres.rs"),
    include_str!("sections/quirks.rs"),
    include_str!("sections/redis.rs"),
    include_str!("sections/secrets.rs"),
    include_str!("sections/site.rs"),
    include_str!("sections/stats.rs"),
    include_str!("sections/store.rs"),
    include_str!("sections/telemetry.rs"),
    include_str!("sections/usage_fields.rs"),
];

/// Tables within sections that have keys of their own: the path and the struct's name in snake case.
const TABLES: [(&str, &str); 6] = [
    ("gateway.models.*", "model_entry"),
    ("gateway.models.*.fallback", "fallback_entry"),
    ("gateway.providers.*.quirks", "provider_quirks"),
    ("gateway.providers.*.quirks.messages", "message_rules"),
    ("gateway.providers.*.quirks.completions, .embeddings", "path_quirks"),
    ("gateway.providers.*.usage", "usage_fields"),
];

const HEAD: &str = "# Configuration

Every key of `svc.toml`, by section. A variable `SVC__SECTION__KEY` in the environment overrides the file; tables and lists of tables are
JSON there, other lists are separated by commas. A key that is unknown is an error that names the nearest one. A size may be written with a
unit (`\"64 MB\"`); a whole number whose name ends with a unit is in that unit. \"Taken over\" says when a new value is in force: on SIGHUP, or at
the next start of the program ([reloading](../operate/runbook/reloading.md)). [Configure](../operate/configure.md) has examples.

This page is written by `SVC_WRITE_KEYS=1 cargo test -p config`, which fails when it is not current.
";

fn struct_lines(section: &str) -> impl Iterator<Item = &'static str> {
    let name: String = section.split('_').map(|part| part[..1].to_uppercase() + &part[1..]).collect();
    let start = format!("pub struct {name} {{");
    let body = SOURCES.iter().find_map(|source| source.split_once(&start)).unwrap_or_else(|| panic!("{start}")).1;
    body.lines().map(str::trim).take_while(|line| *line != "}")
}

fn described(section: &str, key: &str) -> (String, String) {
    let mut words: Vec<&str> = Vec::new();
    for line in struct_lines(section) {
        if let Some(text) = line.strip_prefix("///") {
            words.push(text.trim());
        } else if let Some(of) = line.strip_prefix(&format!("pub {key}: ")) {
            let (shown, unit) = (shown_type(of.trim_end_matches(',')), unit(key));
            let is_number = ["whole number", "number"].contains(&shown.as_str());
            let shown = if is_number && !unit.is_empty() { format!("{shown}, {unit}") } else { shown };
            return (shown, plain_text(&words.join(" ")));
        } else if line.starts_with("pub ") {
            words.clear();
        }
    }
    panic!("{section}.{key} is not in its section's source");
}

/// Removes the links, paths and pipes of rustdoc: a key of the same section appears by its name.
fn plain_text(words: &str) -> String {
    words.replace("[`", "`").replace("`]", "`").replace("`Self::", "`").replace('|', "\\|")
}

#[test]
fn words_name_keys_as_the_configuration_does() {
    assert_eq!(plain_text("With [`Self::provider_api_key`], a|b."), "With `provider_api_key`, a\\|b.");
}

/// Returns the unit that the name of a numeric key ends with.
fn unit(key: &str) -> &'static str {
    let units = [
        ("_bytes_per_second", "bytes a second"),
        ("_bytes", "bytes"),
        ("_seconds", "seconds"),
        ("_days", "days"),
        ("_percent", "percent"),
        ("_cents", "cents"),
        ("_per_min", "a minute"),
        ("_per_10_min", "in ten minutes"),
        ("_per_day", "a day"),
        ("_port", "port"),
    ];
    units.iter().find(|(end, _)| key.ends_with(end)).map_or("", |(_, unit)| unit)
}

fn shown_type(of: &str) -> String {
    if let Some(inner) = of.strip_prefix("Option<").and_then(|rest| rest.strip_suffix('>')) {
        return shown_type(inner);
    }
    if let Some(inner) = of.strip_prefix("Vec<").and_then(|rest| rest.strip_suffix('>')) {
        return format!("list of {}", shown_type(inner));
    }
    match of {
        "String" | "SecretString" => "text",
        "PathBuf" => "path",
        "bool" => "true or false",
        "Url" => "URL",
        "ByteSize" => "size (`\"64 MB\"`, or bytes)",
        "SocketAddr" => "address and port",
        "IpAddr" => "address",
        "f64" => "number",
        "JsonPointer" => "JSON pointer",
        _ if of.starts_with(['u', 'i']) => "whole number",
        _ if of.starts_with("BTreeMap") || of.starts_with("IndexMap") || of.starts_with("HashMap") => "table",
        _ => "see the description",
    }
    .to_owned()
}

fn default(section: &str, key: &str, config: &serde_json::Value) -> String {
    match &config[section][key] {
        serde_json::Value::Null => "absent".to_owned(),
        serde_json::Value::Array(list) if list.is_empty() => "empty".to_owned(),
        value @ (serde_json::Value::Object(_) | serde_json::Value::Array(_)) if value.to_string().len() > 100 => {
            "built in".to_owned()
        }
        value => format!("`{}`", value.to_string().replace('|', "\\|")),
    }
}

fn taken_over(effect: KeyEffect) -> String {
    let KeyEffect::AtStart(programs) = effect else { return "on SIGHUP".to_owned() };
    let name = |program: &ReloadingProgram| match program {
        ReloadingProgram::Edge => "edges",
        ReloadingProgram::Admin => "admin",
    };
    format!("at the start of {}", programs.iter().map(name).collect::<Vec<_>>().join(" and "))
}

#[test]
fn the_page_of_keys_is_current() {
    let config = serde_json::to_value(Config::default()).unwrap();
    let (mut page, mut last) = (HEAD.to_owned(), "");
    for (name, effect) in KEYS {
        let (section, key) = name.split_once('.').unwrap();
        if section != last {
            write!(
                page,
                "\n## `[{section}]`\n\n| key | type | default | what it is | taken over |\n|---|---|---|---|---|\n"
            )
            .unwrap();
            last = section;
        }
        let (of, words) = described(section, key);
        let (default, taken) = (default(section, key, &config), taken_over(*effect));
        writeln!(page, "| `{key}` | {of} | {default} | {words} | {taken} |").unwrap();
    }
    for (place, table) in TABLES {
        write!(page, "\n## `[{place}]`\n\n| key | type | what it is |\n|---|---|---|\n").unwrap();
        for key in struct_lines(table).filter_map(|line| Some(line.strip_prefix("pub ")?.split_once(':')?.0)) {
            let (of, words) = described(table, key);
            writeln!(page, "| `{key}` | {of} | {words} |").unwrap();
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/configuration.md");
    if std::env::var_os("SVC_WRITE_KEYS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), page, "SVC_WRITE_KEYS=1 cargo test -p config");
}

#[test]
fn every_example_in_the_documentation_is_a_configuration() {
    let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"))];
    let mut examples = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            // A block that another program reads has a second word after its language.
            for block in text.split("```toml\n").skip(1) {
                let block = block.split("```").next().unwrap();
                let read = Config::from_parts(&path, block, std::iter::empty());
                assert!(read.is_ok(), "{}: {}\n{block}", path.display(), read.unwrap_err());
                examples += 1;
            }
        }
    }
    assert!(examples > 12, "{examples} examples");
}
