//! Metrics of both programs, on listeners of their own: they hold counts, and nothing about people.

use std::{collections::BTreeMap, time::Duration};

use serde_json::json;

use crate::{
    BACKGROUND,
    stubs::provider::{Provider, Script},
    world::{Site, World, eventually, ports},
};

/// A page of metrics: its text, and the sum over all labels of every name.
pub struct Page {
    pub text: String,
    sums: BTreeMap<String, f64>,
}

impl Page {
    pub async fn of(port: u16) -> Self {
        let answer = reqwest::get(format!("http://127.0.0.1:{port}/metrics")).await.unwrap();
        assert_eq!(answer.status(), 200);
        assert!(answer.headers()["content-type"].to_str().unwrap().starts_with("text/plain; version=0.0.4"));
        let text = answer.text().await.unwrap();
        let mut sums = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
            let name = name.split('{').next().unwrap().to_owned();
            *sums.entry(name).or_default() += value.parse::<f64>().unwrap_or_else(|e| panic!("{e}: {line}"));
        }
        Self { text, sums }
    }

    /// The sum of a metric.
    pub fn sum(&self, name: &str) -> f64 {
        self.sums.get(name).copied().unwrap_or(0.0)
    }

    /// A metric of one label, such as `kind="platform"`; `None` as long as there is none.
    pub fn labelled(&self, name: &str, label: &str) -> Option<f64> {
        let start = format!("{name}{{{label}}} ");
        let value = self.text.lines().find_map(|line| line.strip_prefix(&start))?;
        Some(value.parse().unwrap_or_else(|e| panic!("{e}: {start}{value}")))
    }

    /// Whether a line begins so, after any order of labels: all `parts` are in one line.
    #[track_caller]
    fn assert_line(&self, parts: &[&str], value: &str) {
        let has = self.text.lines().any(|line| {
            parts.iter().all(|part| line.contains(part))
                && line.rsplit_once(' ').is_some_and(|(_, found)| found == value)
        });
        assert!(has, "{parts:?} {value} in\n{}", self.text);
    }
}

#[tokio::test]
async fn an_operator_sees_what_is_going_on() {
    let (edge_port, admin_port) = (ports::free(), ports::free());
    let provider = Provider::start().await;
    let mut world = World::builder()
        .set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{edge_port}"))
        .set("ADMIN__METRICS_LISTEN", format!("127.0.0.1:{admin_port}"))
        .set("GATEWAY__PROVIDER_URL", &provider.url)
        .start()
        .await;
    let ada = world.user("ada-of-metrics").await;
    let created = ada.post("/tokens").json(&json!({ "kind": "ai", "label": "bot" })).await.created();
    let key = created["token"].as_str().unwrap();
    let url = "https://ai.svc.localhost/v1/chat/completions";
    let ask = async |fields: serde_json::Value| {
        let mut body = json!({ "model": "svc/gpt-oss-20b", "messages": [{ "role": "user", "content": "hush-hush" }] });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        world.edge().post(url).bearer(key).json(&body).await.status.as_u16()
    };
    assert_eq!(ask(json!({})).await, 200);
    assert_eq!(ask(json!({ "stream": true })).await, 200);
    provider.next(Script::error(500));
    assert_eq!(ask(json!({})).await, 502);
    assert_eq!(ask(json!({ "model": "made/up" })).await, 404);
    let host = "nobody-has-this.svc.localhost";
    world.edge().get(&format!("https://{host}/secret-path")).await.assert_status(404);
    let site = "metered-site";
    ada.publish(site, &Site::page("hello")).await;
    for _ in 0..2 {
        world.edge().get(&format!("{}/", world.site_url(site))).await.assert_status(200);
    }

    eventually(BACKGROUND, "usage is in Postgres", async || {
        Page::of(edge_port).await.sum("svc_gateway_settled_total") > 1.5
    })
    .await;
    let page = Page::of(edge_port).await;
    page.assert_line(&["svc_gateway_requests_total{", "model=\"svc/gpt-oss-20b\"", "status=\"200\""], "2");
    page.assert_line(&["svc_gateway_requests_total{", "model=\"svc/gpt-oss-20b\"", "status=\"502\""], "1");
    page.assert_line(&["svc_gateway_requests_total{", "model=\"none\"", "status=\"404\""], "1");
    page.assert_line(&["svc_gateway_upstream_failures_total{", "why=\"500\""], "1");
    page.assert_line(&["svc_gateway_upstream_seconds_count"], "3");
    page.assert_line(&["svc_sites_requests_total{status=\"4xx\"}"], "1");
    page.assert_line(&["svc_sites_requests_total{status=\"2xx\"}"], "2");
    page.assert_line(&["svc_sites_bodies_total{cache=\"hit\"}"], "1");
    page.assert_line(&["svc_gateway_redis_up"], "1");
    let used = world.sql_number("SELECT sum(prompt_tokens + completion_tokens)::bigint FROM ai_usage").await;
    #[expect(clippy::cast_precision_loss, reason = "a handful")]
    let used = used as f64;
    assert!((page.sum("svc_gateway_tokens_total") - used).abs() < 0.5);
    for name in ["svc_gateway_open", "svc_gateway_journal_backlog", "svc_gateway_admitted_total", "svc_build_info"] {
        assert!(page.text.contains(&format!("# TYPE {name} ")), "{name} in\n{}", page.text);
    }

    ada.get("/projects/no-such-project").await.assert_status(404);
    let page = Page::of(admin_port).await;
    page.assert_line(
        &["svc_api_requests_total{", "route=\"/projects/{name}\"", "method=\"GET\"", "status=\"404\""],
        "1",
    );
    assert!(page.sum("svc_api_seconds_count") > 0.0 && page.sum("svc_job_runs_total") > 0.0);
    assert!(page.sum("svc_job_last_run_timestamp_seconds") > 1e9);
    // Nobody and nothing of anybody's.
    for page in [page, Page::of(edge_port).await] {
        for word in ["hush", "ada-of", "usr_", "tok_", "metered-site", "secret-path", host, "made/up", "no-such", key] {
            assert!(!page.text.contains(word), "{word} in\n{}", page.text);
        }
    }
    // Nothing else is there, and nothing of it on the public listener.
    let elsewhere = reqwest::get(format!("http://127.0.0.1:{edge_port}/")).await.unwrap();
    assert_eq!(elsewhere.status(), 404);
    let posted = reqwest::Client::new().post(format!("http://127.0.0.1:{admin_port}/metrics")).send().await.unwrap();
    assert_eq!(posted.status(), 405);
    world.nobody().get("/metrics").await.assert_status(404);
    let public = world.edge().get("https://api.svc.localhost/metrics").await;
    assert_eq!(public.status.as_u16(), 404);

    // Redis goes: that is seen too.
    world.redis.kill();
    eventually(BACKGROUND, "Redis is missed", async || {
        let page = Page::of(edge_port).await;
        page.sum("svc_redis_errors_total") > 0.0 && page.text.contains("svc_gateway_redis_up 0")
    })
    .await;
    world.restart_redis();
    eventually(BACKGROUND, "Redis is back", async || Page::of(edge_port).await.text.contains("svc_gateway_redis_up 1"))
        .await;
    // A listener that is taken is said at once.
    let taken = tokio::process::Command::new(crate::world::process::program("edge"))
        .env("SVC__EDGE__METRICS_LISTEN", format!("127.0.0.1:{edge_port}"))
        .env("SVC__EDGE__LISTEN_HTTP", format!("127.0.0.1:{}", ports::free()))
        .env("SVC__EDGE__LISTEN_HTTPS", format!("127.0.0.1:{}", ports::free()))
        .env("SVC__SECRETS__MASTER_KEY_FILE", World::master_key().await)
        .kill_on_drop(true)
        .output();
    let taken = tokio::time::timeout(Duration::from_secs(20), taken).await.unwrap().unwrap();
    assert!(!taken.status.success());
    assert!(String::from_utf8_lossy(&taken.stderr).contains("edge.metrics_listen"));
}

#[tokio::test]
async fn nothing_is_exported_unless_it_is_asked_for() {
    let world = World::start().await;
    for log in [world.admin.log(), world.edge().process.log()] {
        assert!(!log.contains("9464") && !log.contains("9465"));
    }
    world.nobody().get("/metrics").await.assert_status(404);
}
