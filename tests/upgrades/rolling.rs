//! The programs of the version before, and today's, take turns under load, there and back. `make upgrade-test` builds the former and
//! runs this; `make test` does not.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use serde_json::json;
use tokio::task::block_in_place;

use crate::{
    BACKGROUND,
    stubs::{latency, provider::Provider},
    world::{
        Actor, Site, World,
        answer::Answer,
        eventually, ports,
        process::{Process, use_programs_of},
        request::client,
    },
};

/// Visits that were tried again on another connection.
static RETRIED: AtomicU64 = AtomicU64::new(0);

/// What is asked for while the programs take turns.
#[derive(Default)]
struct Load {
    is_over: AtomicBool,
    deploys: AtomicU64,
    completions: AtomicU64,
    visits: AtomicU64,
    domains: AtomicU64,
}

impl Load {
    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    fn count(counter: &AtomicU64) -> u64 {
        counter.fetch_add(1, Ordering::Relaxed)
    }
}

/// A caller who goes through the edge, as everybody does.
fn through_the_edge(world: &World, ada: &Actor) -> Caller {
    let ca = reqwest::Certificate::from_pem(&std::fs::read(world.ca()).unwrap()).unwrap();
    // A connection for each request: one that an edge closes when it is replaced is not what this looks at.
    let http = client().tls_certs_only([ca]).pool_max_idle_per_host(0).timeout(BACKGROUND).build().unwrap();
    Caller { http, port: world.public_port(), token: ada.token.clone().unwrap() }
}

#[derive(Clone)]
struct Caller {
    http: reqwest::Client,
    port: u16,
    token: String,
}

impl Caller {
    fn api(&self, path: &str) -> String {
        format!("https://api.svc.localhost:{}{path}", self.port)
    }

    async fn is(&self, request: reqwest::RequestBuilder, status: u16, what: &str) -> String {
        let request = request.bearer_auth(&self.token).build().unwrap();
        // As a browser does: a connection that an edge closes as it leaves, before it has read the request, fails nobody.
        let again = request.try_clone().filter(|request| request.method().is_safe());
        let answer = match (self.http.execute(request).await, again) {
            (Err(error), Some(again)) if error.is_request() => {
                RETRIED.fetch_add(1, Ordering::Relaxed);
                self.http.execute(again).await
            }
            (answer, _) => answer,
        };
        let answer = answer.unwrap_or_else(|e| panic!("{what}: {e:?}"));
        let (found, text) = (answer.status(), answer.text().await.unwrap_or_else(|e| panic!("{what}: {e:?}")));
        assert_eq!(found, status, "{what}: {text}");
        text
    }
}

/// The programs that are run now.
struct Versions {
    world: World,
    other_admin: Process,
    other_port: u16,
}

impl Versions {
    /// Replaces both admins, one after the other, by those of `programs`; without loss, as there are two.
    async fn admins(&mut self, programs: Option<&Path>) {
        use_programs_of(programs);
        block_in_place(|| self.other_admin.stop());
        self.other_admin = self.world.start_admin_at(self.other_port);
        self.is_healthy(self.other_port).await;
        block_in_place(|| self.world.admin.stop());
        self.world.restart_admin().await;
    }

    async fn is_healthy(&self, port: u16) {
        let api = self.world.nobody().at_admin(port);
        let is_healthy = async || api.get("/health").attempt().await.is_ok_and(|answer: Answer| answer.status == 200);
        eventually(BACKGROUND, "the other admin is ready", is_healthy).await;
        // The edges look every second whether it is.
        latency(Duration::from_secs(3)).await;
    }

    /// Has the edge hand over to that of `programs`.
    async fn edge(&mut self, programs: Option<&Path>) {
        use_programs_of(programs);
        let mut former = self.world.start_upgrade(0);
        let waits = async || self.world.edge().process.log().contains("waiting for the running edge");
        eventually(BACKGROUND, "the new edge waits", waits).await;
        former.signal("QUIT");
        block_in_place(|| former.wait());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stderr, reason = "the counts are what this is for")]
async fn old_and_new_programs_take_turns() {
    let Some(old) = std::env::var_os("SVC_TEST_OLD_PROGRAMS").map(PathBuf::from) else { return };
    let minutes: f64 = std::env::var("SVC_UPGRADE_MINUTES").map_or(10.0, |text| text.parse().unwrap());
    let old = Some(old.as_path());
    use_programs_of(old);
    let provider = Provider::start().await;
    let sockets = tempfile::tempdir().unwrap();
    let other_port = ports::free();
    let world = World::builder()
        .other_admin(other_port)
        // The version before does not know it, and refuses what it does not know.
        .without("STATS__SEND_SECONDS")
        .set("GATEWAY__PROVIDER_URL", &provider.url)
        .set("LIMITS__GATEWAY_PER_MIN", "1000000")
        .set("EDGE__UPGRADE_SOCKET", sockets.path().join("upgrade.sock").display())
        .start()
        .await;
    let other_admin = world.start_admin_at(other_port);
    let ada = world.user("ada").await;
    let caller = through_the_edge(&world, &ada);
    ada.publish("engine", &Site::page("begun")).await;
    ada.create_project("named").await;
    let site = world.site_url("engine");
    let key = ada.post("/tokens").json(&json!({ "kind": "ai" })).await.created();
    let key = key["token"].as_str().unwrap().to_owned();
    let mut versions = Versions { world, other_admin, other_port };
    versions.is_healthy(other_port).await;

    let load = Load::default();
    let deploying = async {
        while load.goes_on() {
            let page = format!("page {}", Load::count(&load.deploys));
            let upload = caller.http.post(caller.api("/projects/engine/deployments"));
            let upload = upload.header("content-type", "application/gzip").body(Site::page(&page).tarball());
            caller.is(upload, 201, "a deployment").await;
            let served = caller.is(caller.http.get(&site), 200, "a visit after it").await;
            assert_eq!(served, page, "an old answer after a receipt");
            latency(Duration::from_millis(300)).await;
        }
    };
    let visiting = async {
        while load.goes_on() {
            caller.is(caller.http.get(&site), 200, "a visit").await;
            Load::count(&load.visits);
            latency(Duration::from_millis(50)).await;
        }
    };
    let asking = async {
        let body = json!({ "model": "svc/gpt-oss-20b", "messages": [{ "role": "user", "content": "hello" }] });
        let url = format!("https://ai.svc.localhost:{}/v1/chat/completions", caller.port);
        let asker = Caller { token: key.clone(), ..caller.clone() };
        while load.goes_on() {
            asker.is(asker.http.post(&url).json(&body), 200, "a completion").await;
            Load::count(&load.completions);
            latency(Duration::from_millis(200)).await;
        }
    };
    let naming = async {
        while load.goes_on() {
            let domain = format!("www{}.example.org", Load::count(&load.domains));
            let domains = caller.api("/projects/named/domains");
            let attach = caller.http.post(&domains).json(&json!({ "domain": domain }));
            caller.is(attach, 201, "a domain").await;
            caller.is(caller.http.delete(format!("{domains}/{domain}")), 200, "a domain's end").await;
            latency(Duration::from_millis(500)).await;
        }
    };
    let phase = Duration::from_secs_f64(minutes * 60.0 / 5.0);
    let turns = async {
        latency(phase).await;
        // Admins first: they bring the schema that new edges ask for, and old edges get along with it.
        versions.admins(None).await;
        latency(phase).await;
        versions.edge(None).await;
        latency(phase).await;
        if std::env::var_os("SVC_UPGRADE_ONE_WAY").is_none() {
            versions.admins(old).await;
            latency(phase).await;
            versions.edge(old).await;
            latency(phase).await;
        }
        load.is_over.store(true, Ordering::Relaxed);
    };
    tokio::join!(deploying, visiting, asking, naming, turns);

    let counted = |counter: &AtomicU64| i64::try_from(counter.load(Ordering::Relaxed)).unwrap();
    let world = &versions.world;
    let deployed = "SELECT count(*) FROM deployments d JOIN projects p ON p.id = d.project_id
                    WHERE p.name = 'engine' AND d.status IN ('live', 'superseded')";
    assert_eq!(world.sql_number(deployed).await, 1 + counted(&load.deploys));
    let completions = counted(&load.completions);
    let recorded = async || world.sql_number("SELECT count(*) FROM ai_usage").await;
    eventually(2 * BACKGROUND, "every completion is recorded once", async || recorded().await == completions).await;
    eprintln!(
        "{} deployments, {} completions, {} visits, {} domains: 0 failed, 0 lost; {} visits needed another connection",
        counted(&load.deploys),
        completions,
        counted(&load.visits),
        counted(&load.domains),
        counted(&RETRIED)
    );
}
