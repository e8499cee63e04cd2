//! Lists every limited resource of the control plane, with its payer and its size. A test reads the sources and fails for a
//! limit that is not listed, or whose key differs from the list.
//!
//! A payer must not be free to create: a person can create organizations, projects and tokens. An account is therefore
//! a [`PayingAccount`](domain::PayingAccount): besides its own share, the share of its creator applies, and waiting
//! accounts take turns round robin, person by person.

use std::{fs, path::Path};

/// The party that has a share of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResourcePayer {
    /// The account that the caller acts for; without a caller, the one that pays for the project. The organizations that
    /// a person created have a common share.
    Account,
    /// The client by its address, where there is no account.
    Client,
    /// A browser's session, within its person's share.
    Session,
    /// The platform: only its own work uses the resource. The reason says what keeps others from exhausting it.
    Platform(&'static str),
}

struct LimitedResource {
    /// The file that declares it, and its field.
    at: (&'static str, &'static str),
    payer: ResourcePayer,
    /// The constants or configuration keys with the total and the share of one payer.
    all: &'static str,
    share: &'static str,
}

const fn scarce(
    file: &'static str,
    field: &'static str,
    payer: ResourcePayer,
    all: &'static str,
    share: &'static str,
) -> LimitedResource {
    LimitedResource { at: (file, field), payer, all, share }
}

const BOUNDS: &str = "app/src/bounds.rs";

const LIMITED_RESOURCES: &[LimitedResource] = &[
    scarce(BOUNDS, "uploads", ResourcePayer::Account, "UPLOADS_PER_CORE", "ACCOUNT_UPLOADS"),
    scarce(BOUNDS, "spool", ResourcePayer::Account, "SPOOL_BYTES", "ACCOUNT_UPLOADS"),
    scarce(BOUNDS, "publishes", ResourcePayer::Account, "PUBLISHES_PER_CORE", "halved"),
    scarce(BOUNDS, "small_publishes", ResourcePayer::Account, "SMALL_PUBLISHES_PER_CORE", "ACCOUNT_SMALL_PUBLISHES"),
    scarce(BOUNDS, "hashes", ResourcePayer::Account, "LEAST_HASHES", "halved"),
    scarce(BOUNDS, "webhooks", ResourcePayer::Client, "WEBHOOKS", "CLIENT_WEBHOOKS"),
    scarce(BOUNDS, "webhook_bytes", ResourcePayer::Client, "WEBHOOK_MEMORY_SHARE", "CLIENT_WEBHOOK_BYTES"),
    scarce(BOUNDS, "large_webhooks", ResourcePayer::Client, "LARGE_WEBHOOKS", "CLIENT_LARGE_WEBHOOKS"),
    scarce(BOUNDS, "domain_looks", ResourcePayer::Account, "DOMAIN_LOOKS", "ACCOUNT_DOMAIN_LOOKS"),
    scarce(BOUNDS, "listings", ResourcePayer::Account, "LISTING_MEMORY_SHARE", "halved"),
    scarce(BOUNDS, "tries", ResourcePayer::Account, "TRIES", "PERSON_TRIES"),
    scarce(BOUNDS, "event_streams", ResourcePayer::Account, "EVENT_STREAMS", "ACCOUNT_EVENT_STREAMS"),
    scarce(BOUNDS, "all", ResourcePayer::Account, "EVENT_STREAMS", "ACCOUNT_EVENT_STREAMS"),
    scarce(BOUNDS, "session_event_streams", ResourcePayer::Session, "EVENT_STREAMS", "SESSION_EVENT_STREAMS"),
    scarce(BOUNDS, "event_looks", ResourcePayer::Account, "EVENT_LOOKS", "ACCOUNT_EVENT_LOOKS"),
    scarce(BOUNDS, "checkouts", ResourcePayer::Account, "CHECKOUTS", "PERSON_CHECKOUTS"),
    scarce(BOUNDS, "pushes", ResourcePayer::Account, "PUSHES", "div_ceil(2)"),
    scarce(
        BOUNDS,
        "orders",
        ResourcePayer::Platform(
            "a job orders certificates: those who pay for the names take turns round robin, and have a part of the allowance each",
        ),
        "ORDERS",
        "PAYER_ORDERS",
    ),
    scarce("app/src/bounds/downloads.rs", "turns", ResourcePayer::Account, "DOWNLOADS", "ACCOUNT_DOWNLOADS"),
    scarce("app/src/bounds/payment_looks.rs", "turns", ResourcePayer::Client, "LOOKS", "CLIENT_LOOKS"),
    scarce("app/src/bounds/reports.rs", "accounts", ResourcePayer::Account, "REPORTS", "ACCOUNT_REPORTS"),
    scarce("app/src/bounds/reports.rs", "readers", ResourcePayer::Client, "READERS", "CLIENT_READERS"),
    scarce("app/src/bounds/reports.rs", "links", ResourcePayer::Account, "PUBLIC_REPORTS", "PAYER_REPORTS"),
    scarce("mail/src/lib.rs", "sends", ResourcePayer::Account, "CONCURRENT_SENDS", "ACCOUNT_SENDS"),
    scarce("vat/src/lib.rs", "turns", ResourcePayer::Account, "CALLS", "PERSON_CALLS"),
    scarce(
        "vat/src/lib.rs",
        "renewals",
        ResourcePayer::Platform("a job checks numbers again, each at its time, and as many at a time as there are"),
        "RECHECK_CALLS",
        "RECHECK_CALLS",
    ),
    scarce(
        "src/listener.rs",
        "places",
        ResourcePayer::Platform("edges and proxies connect, which have shares for their own clients"),
        "CONNECTION_BYTES",
        "MEMORY_SHARE",
    ),
];

/// A field that holds turns, amounts or permits.
struct LimitField {
    file: String,
    field: String,
    /// The key of its shares; `None` for a semaphore, which has no shares.
    key: Option<String>,
}

impl ResourcePayer {
    fn key(self) -> Option<&'static str> {
        match self {
            Self::Account => Some("PayingAccount"),
            Self::Client => Some("Client"),
            Self::Session => Some("SessionId"),
            Self::Platform(_) => None,
        }
    }
}

/// Collects the files by their paths below `admin`, without comments and tests.
fn sources(folder: &Path, root: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, root, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            let relative = path.strip_prefix(root).unwrap().display().to_string();
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
            found.push((relative, lines.collect::<Vec<_>>().join("\n")));
        }
    }
}

fn all_sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    sources(&root, &root, &mut found);
    found.retain(|(file, _)| file != "app/src/scarce.rs");
    found
}

/// Parses a line that declares a field of a limiting type.
fn declared(line: &str) -> Option<(&str, Option<&str>)> {
    let (field, kind) = line.trim_end().strip_suffix(',')?.split_once(": ")?;
    let field = field.rsplit(' ').next()?;
    if !field.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
        return None;
    }
    let kind = kind.strip_prefix("Arc<").map_or(kind, |inner| inner.strip_suffix('>').unwrap_or(inner));
    if kind == "Semaphore" || kind.ends_with("::Semaphore") {
        return Some((field, None));
    }
    ["TurnQueue<", "AmountLimit<", "SizedRoom<"].into_iter().find_map(|kept| {
        let key = kind.rsplit("::").next()?.strip_prefix(kept)?.strip_suffix('>')?;
        // A generic function's own parameter declares nothing.
        (key.len() > 1).then_some((field, Some(key)))
    })
}

fn all_declared() -> Vec<LimitField> {
    let of_file = |(file, code): (String, String)| -> Vec<LimitField> {
        let fields = code.lines().filter_map(declared).map(|(field, key)| LimitField {
            file: file.clone(),
            field: field.to_owned(),
            key: key.map(str::to_owned),
        });
        fields.collect()
    };
    all_sources().into_iter().flat_map(of_file).collect()
}

#[test]
fn what_is_scarce_says_who_pays_for_it() {
    for LimitField { file, field, key } in all_declared() {
        let Some(row) = LIMITED_RESOURCES.iter().find(|row| row.at == (&*file, &*field)) else {
            panic!("{file}: `{field}` bounds something, so LIMITED_RESOURCES must say whose a share of it is")
        };
        assert_eq!(
            key.as_deref(),
            row.payer.key(),
            "{file}: `{field}` is kept by another key than LIMITED_RESOURCES says"
        );
    }
}

#[test]
fn nothing_is_bounded_beside_a_field() {
    for (file, code) in all_sources() {
        for constructor in ["Semaphore::new(", "TurnQueue::new(", "AmountLimit::new(", "SizedRoom::new("] {
            let is_listed = LIMITED_RESOURCES.iter().any(|row| row.at.0 == file);
            assert!(
                !code.contains(constructor) || is_listed,
                "{file} calls {constructor}), and has no row in LIMITED_RESOURCES"
            );
        }
    }
}

#[test]
fn what_is_listed_is_there() {
    let (declared, sources) = (all_declared(), all_sources());
    for LimitedResource { at: (file, field), payer, all, share } in LIMITED_RESOURCES {
        let is_there = declared.iter().any(|found| found.file == *file && found.field == *field);
        assert!(is_there, "{file}: there is no `{field}`");
        let code = &sources.iter().find(|(path, _)| path == file).unwrap().1;
        for word in [all, share] {
            assert!(code.contains(word), "{file}: there is no {word}");
        }
        assert!(
            !matches!(payer, ResourcePayer::Platform(reason) if reason.is_empty()),
            "{file}: `{field}` has no reason"
        );
    }
}

#[test]
fn every_rate_says_by_whom_it_is_counted() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/rates.rs")).unwrap();
    let (_, buckets) = text.split_once("pub enum Bucket {").unwrap();
    let (buckets, _) = buckets.split_once("\n}").unwrap();
    let mut words = String::new();
    for line in buckets.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("///") {
            words.push_str(comment);
        } else if let Some(bucket) = line.strip_suffix(',') {
            let words = std::mem::take(&mut words);
            let is_said = words.contains(" per ") || words.contains("all clients together");
            assert!(is_said, "Bucket::{bucket} does not say by whom it is counted: {words}");
        }
    }
}

#[test]
fn declarations_are_read() {
    assert_eq!(declared("    uploads: TurnQueue<PayingAccount>,"), Some(("uploads", Some("PayingAccount"))));
    assert_eq!(declared("    pub(super) turns: fairness::TurnQueue<Client>,"), Some(("turns", Some("Client"))));
    assert_eq!(declared("    places: Arc<Semaphore>,"), Some(("places", None)));
    assert_eq!(declared("    sends: tokio::sync::Semaphore,"), Some(("sends", None)));
    assert_eq!(declared("    shared: Arc<Shared<K>>,"), None);
    assert_eq!(declared("    permit: OwnedSemaphorePermit,"), None);
}
