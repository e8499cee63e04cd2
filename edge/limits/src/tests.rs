//! Tests of the code of the edge: its limits are in this crate, and each shared one names its payer.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::payers::{PAYERS, Payer};

/// Constants of a number or a duration that are allowed outside `limits/`, each with the reason.
const NO_BOUNDS: [(&str, &str); 39] = [
    ("AWAKE_FOR", "a bound in the unit of a clock"),
    ("CALM", "a code"),
    ("CREATED", "a date that the API's answers repeat"),
    ("DATE_WEIGHT", "an estimate"),
    ("DECODED", "a format"),
    ("DEPTH", "belongs to the recursion that it ends"),
    ("ENTRY_WEIGHT", "an estimate"),
    ("EXPIRY_LEN", "a format"),
    ("FILE_WEIGHT", "an estimate"),
    ("FOREIGN", "a code"),
    ("FORM_WEIGHT", "an estimate"),
    ("FIXED_LEN", "a format"),
    ("FINGERPRINTED_NAME", "the shape of a name"),
    ("HEAD_LEN", "a format"),
    ("HOUR_SECONDS", "a unit"),
    ("INDEX_BITS", "a format"),
    ("KIND_WEIGHT", "an estimate"),
    ("LENGTH", "a format"),
    ("LINE_LEN", "a format"),
    ("MARK_LEN", "a format"),
    ("MARKS", "as many as the type of an index has values"),
    ("NUMBER_LEN", "a format"),
    ("PREFACE_LEN", "a format"),
    ("PUBLISHED", "a date that the API's answers repeat"),
    ("REDIS_PAUSE", "belongs to the loop that it slows down"),
    ("REWRITE", "a status"),
    ("RULE_PART_WEIGHT", "an estimate"),
    ("RULE_WEIGHT", "an estimate"),
    ("SAID_LEN", "a format"),
    ("SEAL_BYTES", "a format"),
    ("SPAN_KIND", "a code"),
    ("SPELLING_WEIGHT", "an estimate"),
    ("STATUS_ERROR", "a code"),
    ("UNCERTAIN", "belongs to the release that it slows down"),
    ("UNSURE", "belongs to the release that it slows down"),
    ("V4_LEN", "a format"),
    ("WORD_BYTES", "a format"),
    ("V6_LEN", "a format"),
    ("VERSION_LEN", "a format"),
];

const BOUND_TYPES: [&str; 11] =
    ["Duration", "usize", "u8", "u16", "u32", "u64", "u128", "i32", "i64", "f64", "NonZeroU32"];

const SHARED: [&str; 7] = [
    "Semaphore::new(",
    "TurnQueue::new(",
    "AmountLimit::new(",
    "SizedRoom::new(",
    "KeptRoom::new(",
    "RateLimiter::new(",
    "ByteBudget::new(",
];

/// A source file: its path under `edge/`, and its code without comments and tests.
struct SourceFile {
    path: PathBuf,
    code: String,
}

impl SourceFile {
    /// Whether the file is of this crate, or of the checks, which are no part of the program.
    fn is_excepted(&self) -> bool {
        self.path.starts_with("limits") || self.path.starts_with("gateway-checks")
    }
}

fn sources() -> Vec<SourceFile> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut sources, mut folders) = (Vec::new(), vec![root.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let path = path.strip_prefix(&root).unwrap().to_owned();
            let is_test = path.iter().any(|part| part == "tests" || part == "tests.rs");
            if is_test || path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//")).fold(
                String::new(),
                |mut code, line| {
                    code.push_str(line);
                    code.push('\n');
                    code
                },
            );
            sources.push(SourceFile { path, code });
        }
    }
    assert!(sources.len() > 200, "the sources are read");
    sources
}

fn name_at(text: &str) -> &str {
    text.split(|character: char| !character.is_alphanumeric() && character != '_').next().unwrap_or_default()
}

#[test]
fn bounds_stand_in_limits() {
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| !source.is_excepted()) {
        for line in source.code.lines() {
            // A const generic parameter is not a limit.
            let constant = line.split_once("const ").filter(|(before, _)| !before.contains('<'));
            let constant = constant.and_then(|(_, rest)| rest.split_once(": "));
            let is_bound = constant.is_some_and(|(name, rest)| {
                let is_excepted = NO_BOUNDS.iter().any(|(excepted, _)| name.starts_with(excepted));
                BOUND_TYPES.contains(&name_at(rest)) && name_at(name) == name && !is_excepted
            });
            let is_literal = line.split("Duration::from_").skip(1).any(|call| {
                let argument = call.split_once('(').map_or("", |(_, argument)| argument);
                // One second serves as a floor or a unit, not as a limit.
                argument.starts_with(|first: char| first.is_ascii_digit()) && !argument.starts_with("1)")
            });
            if is_bound || (is_literal && constant.is_none()) {
                found.push(format!("{}: {}", source.path.display(), line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "bounds outside the crate of limits:\n{}", found.join("\n"));
}

#[test]
fn every_bound_that_is_shared_names_who_pays() {
    let mut made: BTreeMap<String, usize> = BTreeMap::new();
    for source in sources().iter().filter(|source| !source.is_excepted()) {
        let count = SHARED.iter().map(|constructor| source.code.matches(constructor).count()).sum();
        if count > 0 {
            made.insert(source.path.display().to_string(), count);
        }
    }
    let mut named: BTreeMap<String, usize> = BTreeMap::new();
    for (file, what, payer) in PAYERS {
        *named.entry(file.to_owned()).or_default() += 1;
        assert!(!what.is_empty() && payer != Payer::Nobody(""), "{file}");
    }
    assert_eq!(made, named, "each bound has a row in payers.rs");
}
