//! `deploy/observe` and `deploy/runbook`: alerts and dashboards name metrics that the programs have, and each alert has its page.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
    BACKGROUND,
    metrics::Page,
    world::{Site, World, eventually, ports},
};

/// The parts of every page of the runbook.
const PARTS: [&str; 5] =
    ["## Symptom", "## What it means for users", "## Look here", "## Do this", "## When it is over"];

/// Metrics that a world shows which has just begun and in which all is well; the others are there once something has happened.
const QUIET: [&str; 21] = [
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "svc_admin_up",
    "svc_api_requests_total",
    "svc_backlog_late_seconds",
    "svc_backlog_rows",
    "svc_build_info",
    "svc_certificates_expiring",
    "svc_certificates_soonest_expiry_timestamp_seconds",
    "svc_change_propagation_seconds",
    "svc_connections",
    "svc_dependency_up",
    "svc_disk_free_bytes",
    "svc_edge_heartbeat_age_seconds",
    "svc_edge_lag_changes",
    "svc_postgres_connections",
    "svc_store_seconds",
    "svc_sites_requests_total",
];

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

fn read(path: &str) -> String {
    let path = deploy().join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The names of metrics in a text: words that begin as ours do, without what a histogram adds.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let ours = words.filter(|word| word.starts_with("svc_") || word.starts_with("process_"));
    ours.map(|word| ["_bucket", "_sum", "_count"].iter().fold(word, |word, end| word.strip_suffix(end).unwrap_or(word)))
        .map(str::to_owned)
        .collect()
}

/// The metrics that the programs describe: `describe_gauge!("name"` and its like, and those written by hand.
fn described() -> BTreeSet<String> {
    let root = deploy().join("..");
    let files = [
        "edge/metrics/src/lib.rs",
        "admin/app/src/metrics.rs",
        "admin/src/programs.rs",
        "common/identity/src/lib.rs",
        "common/telemetry/src/metrics.rs",
        "common/telemetry/src/process.rs",
    ];
    let mut names = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(root.join(file)).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        let is_by_hand = file.ends_with("programs.rs") || file.ends_with("process.rs");
        let pieces = code.split("describe_").skip(1).chain(is_by_hand.then_some(code));
        for piece in pieces {
            let literals = piece.split('"').skip(1).step_by(2);
            let literals = literals.filter(|literal| metrics_in(literal).len() == 1 && !literal.contains(' '));
            names.extend(literals.take(if is_by_hand { usize::MAX } else { 1 }).map(str::to_owned));
        }
    }
    names
}

#[tokio::test]
async fn alerts_and_dashboards_name_metrics_that_are_exported() {
    let described = described();
    for file in ["observe/alerts.yml", "observe/alerts_test.yml", "observe/edge.json", "observe/admin.json"] {
        let used = metrics_in(&read(file));
        assert!(used.len() > 15, "{file} is read");
        let unknown: Vec<_> = used.difference(&described).collect();
        assert!(unknown.is_empty(), "{file} names what no program exports: {unknown:?}");
    }
    let prefixes = |word: &String| !described.iter().any(|name| name.starts_with(word.as_str()));
    for page in [
        "README.md",
        "docs/operate/observe.md",
        "docs/operate/configure.md",
        "docs/operate/ai-gateway.md",
        "docs/operate/store.md",
    ] {
        let text = fs::read_to_string(deploy().join("..").join(page)).unwrap();
        let unknown: Vec<_> = metrics_in(&text).difference(&described).filter(|word| prefixes(word)).cloned().collect();
        assert!(unknown.is_empty(), "{page} names what no program exports: {unknown:?}");
    }

    // The programs themselves show nothing but these, and those that a quiet world has.
    let (edge, admin) = (ports::free(), ports::free());
    let world = World::builder()
        .set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{edge}"))
        .set("ADMIN__METRICS_LISTEN", format!("127.0.0.1:{admin}"))
        .start()
        .await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("x")).await;
    world.edge().get(&world.site_url("engine")).await.assert_status(200);
    ada.put("/projects/engine/access").json(&json!({ "mode": "public" })).await.ok();
    let mut shown = BTreeSet::new();
    eventually(BACKGROUND, "every metric of a quiet world is there", async || {
        let pages = [Page::of(edge).await, Page::of(admin).await];
        let lines = pages.iter().flat_map(|page| page.text.lines()).filter_map(|line| line.strip_prefix("# TYPE "));
        shown = lines.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
        QUIET.iter().all(|name| shown.contains(*name))
    })
    .await;
    let undescribed: Vec<_> = shown.difference(&described).collect();
    assert!(undescribed.is_empty(), "these metrics do not say what they are: {undescribed:?}");
}

#[test]
fn every_alert_has_its_page_and_every_page_its_parts() {
    let alerts = read("observe/alerts.yml");
    let value = |line: &str, key: &str| line.trim().strip_prefix(key).map(|value| value.trim().to_owned());
    let names: Vec<String> = alerts.lines().filter_map(|line| value(line, "- alert:")).collect();
    let pages: Vec<String> = alerts.lines().filter_map(|line| value(line, "runbook:")).collect();
    assert!(names.len() > 20 && names.len() == pages.len(), "each alert names one page");
    for key in ["summary:", "description:", "severity:"] {
        let count = alerts.lines().filter_map(|line| value(line, key)).filter(|value| !value.is_empty()).count();
        assert_eq!(count, names.len(), "each alert has a {key}");
    }
    let tests = read("observe/alerts_test.yml");
    for (name, page) in names.iter().zip(&pages) {
        let text = read(page.strip_prefix("deploy/").unwrap());
        assert!(text.contains(&format!("`{name}`")), "{page} does not name its alert");
        let at = |part: &&str| text.find(part).unwrap_or_else(|| panic!("{page} lacks {part}"));
        assert!(PARTS.iter().map(at).is_sorted(), "{page}");
        assert!(tests.contains(&format!("- name: {name} fires")), "no test has {name} fire");
        // Links between pages lead somewhere.
        for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            assert!(deploy().join("runbook").join(link).exists(), "{page} links to {link}");
        }
    }
}

#[test]
fn dashboards_are_what_grafana_reads() {
    for file in ["observe/edge.json", "observe/admin.json"] {
        let board: Value = serde_json::from_str(&read(file)).unwrap();
        let panels = board["panels"].as_array().unwrap();
        assert!(panels.len() > 10 && board["uid"].is_string(), "{file}");
        for panel in panels {
            let targets = panel["targets"].as_array().unwrap();
            assert!(!targets.is_empty() && targets.iter().all(|target| target["expr"].is_string()), "{file}: {panel}");
        }
    }
}
