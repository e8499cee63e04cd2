//! SIGHUP: edges and admins read their configuration again, take over all of it or nothing, and lose no request over it.

use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    BACKGROUND,
    metrics::Page,
    stubs::provider::{Provider, Script},
    world::{
        Edge, Site, World, eventually,
        mailbox::Mailbox,
        ports,
        process::{Process, program},
        request::Request,
        socket::{connect_from, converse, statuses},
    },
};

/// The address that a balancer connects from.
const BALANCER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const MODEL: &str = "svc/gpt-oss-20b";

/// The file that a world's programs read.
struct File {
    path: PathBuf,
    _folder: TempDir,
}

impl File {
    fn with(text: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let file = Self { path: folder.path().join("svc.toml"), _folder: folder };
        file.write(text);
        file
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.path, text).unwrap();
    }
}

/// The keys of the AI gateway with these prices of its only model.
fn model(input_cents: u32, output_cents: u32) -> String {
    format!(
        "[gateway.models.\"{MODEL}\"]\nprovider = \"ovhcloud\"\nupstream = \"gpt\"\n\
         input_cents = {input_cents}\noutput_cents = {output_cents}\n"
    )
}

/// Sends SIGHUP and waits until the program has said what became of it, in a line with these words. Returns what it said since.
async fn reload(process: &Process, words: &str) -> String {
    let before = process.log().len();
    process.signal("HUP");
    eventually(BACKGROUND, &format!("a line with `{words}`"), async || process.log()[before..].contains(words)).await;
    process.log()[before..].to_owned()
}

const TAKEN: &str = "the configuration was read again";

/// Makes the same request again and again.
type Ask = Box<dyn Fn() -> Request + Send>;

/// Visitors of a site and callers of the API, who go on until they are stopped.
struct Crowd {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    tasks: Vec<tokio::task::JoinHandle<Vec<String>>>,
}

impl Crowd {
    fn start<const N: usize>(requests: [(Ask, &'static str); N]) -> Self {
        let (stop, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let tasks = requests.into_iter().map(|(ask, contains)| {
            let (stop, answered) = (stop.clone(), answered.clone());
            tokio::spawn(async move {
                let mut failed = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    match ask().attempt().await {
                        Ok(answer) if answer.status == 200 && answer.text().contains(contains) => {
                            answered.fetch_add(1, Ordering::Relaxed);
                        }
                        other => failed.push(format!("{other:?}")),
                    }
                }
                failed
            })
        });
        Self { tasks: tasks.collect(), stop: stop.clone(), answered }
    }

    /// Waits until some more requests have been answered.
    async fn go_on(&self) {
        let before = self.answered.load(Ordering::Relaxed);
        eventually(BACKGROUND, "more answers", async || self.answered.load(Ordering::Relaxed) > before + 20).await;
    }

    /// Ends it. No request has failed.
    async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            assert_eq!(task.await.unwrap(), [""; 0]);
        }
    }
}

/// A completion's body.
fn completion(is_stream: bool) -> String {
    json!({ "model": MODEL, "stream": is_stream, "messages": [{ "role": "user", "content": "Hi?" }] }).to_string()
}

fn complete(edge: &Edge, port: u16, key: &str, is_stream: bool) -> Request {
    let url = format!("https://ai.svc.localhost:{port}/v1/chat/completions");
    edge.post(&url).bearer(key).header("content-type", "application/json").body(completion(is_stream))
}

#[tokio::test]
async fn what_changes_is_served_from_the_next_request_on_and_none_is_lost() {
    let provider = Provider::start().await;
    let file = File::with(&model(1_000, 2_000));
    let builder =
        World::builder().set("GATEWAY__PROVIDER_URL", &provider.url).variable("SVC_CONFIG", file.path.display());
    let mut world = builder.start().await;
    // The environment would override the file.
    let settings = world.settings().into_iter().filter(|(name, _)| name != "SVC__EDGE__ADMIN_UPSTREAMS").collect();
    let upstreams = |port: u16| format!("[edge]\nadmin_upstreams = [\"127.0.0.1:{port}\"]\n");
    world.replace_settings(settings);
    file.write(&(upstreams(world.admin_port) + &model(1_000, 2_000)));
    world.restart_edge(0).await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("steady")).await;
    let key = ada.post("/tokens").json(&json!({ "kind": "ai" })).await.created()["token"].as_str().unwrap().to_owned();
    let (edge, port) = (world.edge(), world.public_port());
    let site = world.site_url("engine");
    let me = format!("https://api.svc.localhost:{port}/me");
    let token = ada.token.clone().unwrap();
    let asking = |http2: bool, url: &str, token: &str| -> Ask {
        let (browser, url, token) = (edge.another_browser(http2), url.to_owned(), token.to_owned());
        Box::new(move || Request::new(&browser, Method::GET, &url).bearer(&token))
    };
    let crowd = Crowd::start([
        (asking(true, &site, "none"), "steady"),
        (asking(false, &site, "none"), "steady"),
        (asking(true, &me, &token), "ada"),
        (asking(false, &me, &token), "ada"),
    ]);
    crowd.go_on().await;

    // A completion that is under way while the price changes costs what it did when it began.
    provider.next(Script::usual_stream(5).held_after(1));
    let begun = tokio::spawn(complete(edge, port, &key, true).attempt());
    eventually(BACKGROUND, "the provider is asked", async || provider.asked().len() == 1).await;
    let limits = "[limits]\ngateway_per_min = 77\n";
    file.write(&(upstreams(world.admin_port) + limits + &model(3_000, 4_000)));
    let said = reload(&edge.process, TAKEN).await;
    assert!(said.contains("gateway.models, limits.gateway_per_min"), "{said}");
    reload(&world.admin, TAKEN).await;
    provider.go_on();
    begun.await.unwrap().unwrap();
    let list = edge.get(&format!("https://ai.svc.localhost:{port}/v1/models")).bearer(&key).await.ok();
    assert_eq!((&list["data"][0]["pricing"]["input"], list["data"].as_array().unwrap().len()), (&json!(3_000), 1));
    assert!(ada.get("/ai/models").await.ok().to_string().contains("4000"), "admin shows the same");
    let answer = complete(edge, port, &key, false).await;
    assert_eq!((answer.status.as_u16(), answer.header("x-ratelimit-limit-requests")), (200, "77"));
    // 9 and 5 tokens at the former prices, in cents for a million, and 9 and 12 at the present ones.
    let wanted: i64 = 9 * 1_000 + 5 * 2_000 + 9 * 3_000 + 12 * 4_000;
    eventually(BACKGROUND, "both are charged by their prices", async || {
        world.sql_number("SELECT COALESCE(sum(cost_microcents), 0)::bigint FROM ai_usage").await == wanted
    })
    .await;
    crowd.go_on().await;

    // From now on this machine's word on its visitors is believed.
    let claims = || edge.get(&site).header("x-forwarded-for", "192.0.2.7").header("x-forwarded-proto", "http");
    assert_eq!(claims().attempt().await.unwrap().status, 200);
    let trusted = "trusted_proxies = [\"127.0.0.1\"]\n";
    file.write(&(upstreams(world.admin_port) + trusted + limits + &model(3_000, 4_000)));
    reload(&edge.process, TAKEN).await;
    assert_eq!(claims().attempt().await.unwrap().status, 308, "such a visitor is sent to HTTPS");
    crowd.go_on().await;

    // Another admin takes the first one's place, which may go then.
    let (other_port, other) = world.start_admin_at_a_port();
    let of_other = ada.at_admin(other_port);
    eventually(BACKGROUND, "the other admin answers", async || {
        of_other.get("/health").attempt().await.is_ok_and(|answer| answer.status == 200)
    })
    .await;
    file.write(&(upstreams(other_port) + trusted + limits + &model(3_000, 4_000)));
    reload(&edge.process, TAKEN).await;
    crowd.go_on().await;
    let (served, former) = (other.log().len(), world.admin.log().len());
    crowd.go_on().await;
    assert!(other.log().len() > served, "the other admin is asked");
    assert!(!world.admin.log()[former..].contains("/me"), "the first one is not");
    world.admin.signal("TERM");
    crowd.go_on().await;
    crowd.end().await;
}

async fn ready(port: u16) -> (u16, Value) {
    let answer = reqwest::get(format!("http://127.0.0.1:{port}/readyz")).await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

/// What a program says that is to start with this file, and cannot.
fn refusal_at_start(file: &Path) -> String {
    let mut command = std::process::Command::new(program("admin"));
    let output = command
        .arg("migrate")
        .arg("--config")
        .arg(file)
        .envs([("SVC_LOG_FORMAT", "text"), ("NO_COLOR", "1")])
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    said.lines().last().unwrap().split_once("admin: ").unwrap().1.to_owned()
}

#[tokio::test]
async fn a_file_that_is_refused_changes_nothing_and_what_needs_a_start_is_named() {
    let (edge_metrics, admin_metrics) = (ports::free(), ports::free());
    let file = File::with("[limits]\ngateway_per_min = 60\n");
    let world = World::builder()
        .set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{edge_metrics}"))
        .set("ADMIN__METRICS_LISTEN", format!("127.0.0.1:{admin_metrics}"))
        .variable("SVC_CONFIG", file.path.display())
        .start()
        .await;
    let programs = [(&world.edge().process, edge_metrics), (&world.admin, admin_metrics)];
    for (_, metrics) in programs {
        eventually(BACKGROUND, "a program is ready", async || ready(metrics).await.0 == 200).await;
    }

    file.write("[limits]\ngateway_per_mni = 1\n");
    let sentence = refusal_at_start(&file.path);
    assert!(sentence.contains("limits.gateway_per_mni") && sentence.contains("did you mean"), "{sentence}");
    for (process, metrics) in programs {
        reload(process, &sentence).await;
        let page = Page::of(metrics).await;
        assert_eq!(page.labelled("svc_config_reloads_total", "outcome=\"refused\""), Some(1.0), "{}", page.text);
        assert_eq!(ready(metrics).await.0, 200);
    }
    // What is right in a file that is wrong is not taken over either: this value is new again afterwards.
    let limit = "[limits]\ngateway_per_min = 61\n";
    file.write(&format!("{limit}[edge]\ntrusted_proxies = [\"10.0.0.0/99\"]\n"));
    for (process, _) in programs {
        reload(process, "edge.trusted_proxies: `10.0.0.0/99` is not an address").await;
    }
    file.write(&format!("{limit}[edge]\nbody_cache_percent = 99\n"));
    reload(&world.edge().process, "edge.body_cache_percent, manifest_cache_percent").await;

    file.write(&format!("{limit}[edge]\nconnections = 500\n[admin]\nuploads = 9\n"));
    let [of_edge, of_admin] = [reload(programs[0].0, TAKEN).await, reload(programs[1].0, TAKEN).await];
    let starts = |key: &str| format!("`{key}` takes effect at the next start");
    assert!(of_edge.contains(&starts("edge.connections")) && !of_edge.contains("admin.uploads"), "{of_edge}");
    assert!(of_admin.contains(&starts("admin.uploads")) && !of_admin.contains("edge.connections"), "{of_admin}");
    for said in [of_edge, of_admin] {
        assert!(said.contains("limits.gateway_per_min"), "{said}");
    }
    for (_, metrics) in programs {
        let page = Page::of(metrics).await;
        assert_eq!(page.labelled("svc_config_reloads_total", "outcome=\"taken_over\""), Some(1.0), "{}", page.text);
    }
}

/// A page that a balancer asks an edge for on behalf of a visitor: its status.
async fn balanced(edge: &Edge) -> u16 {
    let mut stream = connect_from(BALANCER, edge.http_port).await.unwrap();
    let request = "PROXY TCP4 203.0.113.9 10.0.0.1 1 80\r\nGET / HTTP/1.1\r\nHost: engine.svc.localhost\r\nConnection: close\r\n\r\n";
    statuses(&converse(&mut stream, request.as_bytes()).await)[0]
}

#[tokio::test]
async fn a_balancer_a_mail_server_and_a_plan_are_taken_over() {
    let file = File::with("");
    let mailbox = Mailbox::start(file.path.parent().unwrap()).await;
    let world = World::builder().variable("SVC_CONFIG", file.path.display()).start().await;
    let org = world.acme().await;
    assert_eq!(org.invite("member").await["email_sent"], false);
    assert_eq!(balanced(world.edge()).await, 400);
    let create = async |name: &str| org.owner.post("/projects").json(&json!({ "name": name })).await;
    create("first").await.created();

    let limits = "orgs = 9\nprojects = 1\ndomains = 9\nready_apps = 0\nbandwidth_bytes = 9\nai_credit_cents = 9\n";
    file.write(&format!(
        "[edge]\nproxy_protocol_from = [\"{BALANCER}\"]\n[mail]\nurl = \"{}\"\n\
         [billing.plans.free]\nname = \"Free\"\nprice_cents = 0\n[billing.plans.free.limits]\n{limits}",
        mailbox.url()
    ));
    let [of_edge, of_admin] = [reload(&world.edge().process, TAKEN).await, reload(&world.admin, TAKEN).await];
    assert!(of_edge.contains("edge.proxy_protocol_from"), "{of_edge}");
    assert!(of_admin.contains("billing.plans, mail.url"), "{of_admin}");
    assert_eq!(balanced(world.edge()).await, 308, "the visitor is sent to HTTPS");
    let letters = mailbox.letters().await.len();
    let invited =
        org.owner.post("/orgs/acme/invites").json(&json!({ "email": "other@example.com", "role": "member" })).await;
    assert_eq!(invited.created()["email_sent"], true);
    assert!(mailbox.letters().await.len() > letters);
    create("second").await.assert_error(403, "plan_limit_reached");
}
