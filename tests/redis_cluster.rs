//! Redis as a cluster: changes, completions and rates spread over the nodes, and a node that comes back empty. Also a
//! Redis that speaks TLS.

use std::{collections::BTreeSet, process::Command};

use futures_util::future::join_all;
use serde_json::json;

use crate::{
    BACKGROUND,
    stubs::provider::{KEY, Provider},
    world::{Actor, Builder, Site, World, eventually, ports, process::Process},
};

/// Nodes that have keys.
const NODES: usize = 3;
/// At least so many people; more when their keys do not lie on every node.
const PEOPLE: usize = 9;
const PER_MINUTE: usize = 20;

struct Spread {
    world: World,
    /// Each with a key for the gateway.
    people: Vec<(Actor, String)>,
    provider: Provider,
}

impl Spread {
    async fn start() -> Self {
        Self::start_with(|builder| builder).await
    }

    async fn start_with(configure: impl FnOnce(Builder) -> Builder) -> Self {
        let provider = Provider::start().await;
        let builder = World::builder()
            .redis_cluster()
            .edges(2)
            .set("GATEWAY__PROVIDER_URL", &provider.url)
            .set("GATEWAY__PROVIDER_API_KEY", KEY)
            .set("LIMITS__GATEWAY_PER_MIN", PER_MINUTE);
        let world = configure(builder).start().await;
        let mut people = Vec::new();
        let mut nodes = BTreeSet::new();
        while people.len() < PEOPLE || nodes.len() < NODES {
            let login = format!("person-{}", people.len());
            let person = world.user(&login).await;
            let id = world.sql_text(&format!("SELECT id FROM users WHERE vcs_login = '{login}'")).await;
            // The nodes share the 16,384 slots evenly, in order.
            nodes.insert(match world.redis_number("CLUSTER", &["KEYSLOT", &id]).await.unwrap() {
                ..=5_460 => 0,
                5_461..=10_922 => 1,
                _ => 2,
            });
            let created = person.post("/tokens").json(&json!({ "kind": "ai" })).await.created();
            people.push((person, created["token"].as_str().unwrap().to_owned()));
        }
        Self { world, people, provider }
    }

    /// A completion for this person at this edge: its status, and how many tokens are left to the account.
    async fn complete(&self, edge: usize, person: usize) -> (u16, Option<u64>) {
        let body = json!({
            "model": "svc/gpt-oss-20b", "max_tokens": 100, "messages": [{ "role": "user", "content": "hello" }],
        });
        let request = self.world.edges[edge].post("https://ai.svc.localhost/v1/chat/completions");
        let answer = request.bearer(&self.people[person].1).json(&body).await;
        let left = answer.headers.get("x-ratelimit-remaining-tokens").and_then(|left| left.to_str().ok()?.parse().ok());
        (answer.status.as_u16(), left)
    }

    async fn rows(&self) -> i64 {
        self.world.sql_number("SELECT count(*) FROM ai_usage WHERE NOT estimated").await
    }

    /// Every person completes once, at one edge or the other, as soon as it is possible.
    async fn complete_all(&self) {
        for person in 0..self.people.len() {
            let served = async || self.complete(person % 2, person).await.0 == 200;
            eventually(2 * BACKGROUND, "admissions go on", served).await;
        }
    }

    /// Waits until all that the provider has served is counted, once.
    async fn assert_counted(&self) {
        let all = i64::try_from(self.provider.asked().len()).unwrap();
        eventually(BACKGROUND, "all is counted", async || self.rows().await == all).await;
    }

    /// Waits until every edge acknowledges changes.
    async fn assert_acknowledged(&self) {
        let (ada, _) = &self.people[0];
        let one = ada.publish("engine", &Site::page("one")).await;
        eventually(BACKGROUND, "edges acknowledge", async || {
            ada.activate("engine", &one.id).await.header("x-svc-propagation").starts_with("2/2")
        })
        .await;
    }

    /// How many keys of this kind each node has.
    async fn keys(&self, pattern: &str) -> Vec<usize> {
        join_all(self.world.redis_ports().map(async |port| {
            let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
            let mut node = client.get_multiplexed_async_connection().await.unwrap();
            redis::cmd("KEYS").arg(pattern).query_async::<Vec<String>>(&mut node).await.unwrap().len()
        }))
        .await
    }
}

#[tokio::test]
async fn changes_and_completions_go_through_a_cluster() {
    let spread = Spread::start().await;
    let (ada, _) = &spread.people[0];

    // Changes are heard by every edge, and acknowledged, though programs listen at different nodes.
    let one = ada.publish("engine", &Site::page("one")).await;
    let two = ada.deploy("engine", &Site::page("two")).await;
    let activate =
        async |id: &str| ada.activate("engine", id).await.assert_status(200).header("x-svc-propagation").to_owned();
    eventually(BACKGROUND, "admin has heard of every edge", async || activate(&one.id).await.starts_with("2/2")).await;
    for deployment in [&two, &one] {
        assert!(activate(&deployment.id).await.starts_with("2/2"));
        for edge in &spread.world.edges {
            let expected = if deployment.id == one.id { "one" } else { "two" };
            assert_eq!(edge.get(&deployment.url).await.text(), expected);
        }
    }

    // Completions of all accounts, over both edges, each counted once and the minute kept.
    let people = spread.people.len();
    for person in 0..people {
        assert_eq!(spread.complete(person % 2, person).await.0, 200);
    }
    let asked = join_all((0..PER_MINUTE + 5).map(|n| spread.complete(n % 2, 1))).await;
    assert_eq!(asked.iter().filter(|(status, _)| *status == 200).count(), PER_MINUTE - 1);
    assert!(asked.iter().all(|(status, _)| matches!(status, 200 | 429)));
    let all = people + PER_MINUTE - 1;
    eventually(BACKGROUND, "all is counted", async || spread.rows().await == i64::try_from(all).unwrap()).await;
    assert_eq!(spread.provider.asked().len(), all);
    for kind in ["svc:ai:*:spent", "svc:ai:epoch:*"] {
        assert!(spread.keys(kind).await.iter().all(|count| *count > 0), "{kind}: {:?}", spread.keys(kind).await);
    }
}

#[tokio::test]
async fn rates_are_counted_in_a_cluster() {
    let spread = Spread::start_with(|builder| builder.set("LIMITS__API_PER_MIN", 60)).await;
    let (eve, _) = &spread.people[2];
    let answers = join_all((0..70).map(async |_| eve.get("/me").await)).await;
    let refused = answers.iter().filter(|answer| answer.status == 429).count();
    let log = spread.world.admin.log();
    assert!(!log.contains("limits are kept in this process"), "{log}");
    assert_eq!(refused, 11, "60 a minute, one of which made the key");
    assert!(spread.keys("svc:count:*").await.iter().sum::<usize>() >= spread.people.len());
}

#[tokio::test]
async fn a_node_that_comes_back_empty_is_filled_from_postgres() {
    let mut spread = Spread::start().await;
    let mut left = Vec::new();
    let people = spread.people.len();
    for person in 0..people {
        assert_eq!(spread.complete(0, person).await.0, 200);
        // The first says what it reserves; the next, what all have used.
        eventually(BACKGROUND, "it is counted", async || spread.rows().await == i64::try_from(2 * person + 1).unwrap())
            .await;
        left.push(spread.complete(0, person).await.1.unwrap());
        eventually(BACKGROUND, "it is counted", async || spread.rows().await == i64::try_from(2 * person + 2).unwrap())
            .await;
    }
    let used = left[0] - spread.complete(1, 0).await.1.unwrap();
    assert!(used > 0);
    left[0] -= used;
    spread.world.restart_redis_node(2).await;
    for (person, left) in left.into_iter().enumerate() {
        let mut found = (0, None);
        eventually(BACKGROUND, "admissions go on", async || {
            found = spread.complete(person % 2, person).await;
            found.0 != 503
        })
        .await;
        assert_eq!(found, (200, Some(left - used)), "person {person}");
    }
    // An edge that has settled everything leaves nothing open.
    let all = i64::try_from(3 * people + 1).unwrap();
    eventually(BACKGROUND, "all is counted", async || spread.rows().await == all).await;
    eventually(BACKGROUND, "nothing is open", async || spread.keys("svc:ai:*:open").await.iter().all(|n| *n == 0))
        .await;
    spread.assert_acknowledged().await;
}

#[tokio::test]
async fn a_node_that_fell_silent_is_given_up_for_its_copy() {
    let spread = Spread::start_with(Builder::redis_cluster_with_copies).await;
    spread.complete_all().await;
    spread.assert_counted().await;
    spread.world.signal_redis_node(2, "STOP");
    spread.complete_all().await;
    spread.assert_counted().await;
    // It comes back as the copy of what was its copy.
    spread.world.signal_redis_node(2, "CONT");
    for _ in 0..2 {
        spread.complete_all().await;
    }
    spread.assert_counted().await;
    spread.assert_acknowledged().await;
}

#[tokio::test]
async fn a_node_that_was_silent_for_a_while_is_used_again() {
    let spread = Spread::start().await;
    spread.complete_all().await;
    spread.world.signal_redis_node(2, "STOP");
    eventually(BACKGROUND, "what cannot be counted is refused", async || {
        let asked = join_all((0..spread.people.len()).map(|person| spread.complete(person % 2, person))).await;
        asked.iter().any(|(status, _)| *status == 503)
    })
    .await;
    spread.world.signal_redis_node(2, "CONT");
    spread.complete_all().await;
    spread.assert_counted().await;
}

#[tokio::test]
async fn a_redis_that_speaks_tls_is_spoken_to() {
    let (folder, port) = (tempfile::tempdir().unwrap(), ports::free());
    let [certificate, key] = ["redis.pem", "redis.key"].map(|name| folder.path().join(name));
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let mut server = Command::new("redis-server");
    server.args(["--save", "", "--port", "0", "--tls-auth-clients", "no", "--requirepass", "sesame", "--tls-port"]);
    server.arg(port.to_string()).arg("--dir").arg(folder.path());
    server.arg("--tls-cert-file").arg(&certificate).arg("--tls-key-file").arg(&key);
    server.arg("--tls-ca-cert-file").arg(&certificate);
    let _server = Process::start("redis", folder.path(), &server);

    let url = format!("rediss://:sesame@127.0.0.1:{port}");
    // Whom the machine trusts.
    let world = World::builder().set("REDIS__URL", url).variable("SSL_CERT_FILE", certificate.display()).start().await;
    let ada = world.user("ada").await;
    let one = ada.publish("engine", &Site::page("one")).await;
    eventually(BACKGROUND, "the edge acknowledges", async || {
        ada.activate("engine", &one.id).await.header("x-svc-propagation").starts_with("1/1")
    })
    .await;
    assert_eq!(world.edge().get(&one.url).await.text(), "one");
}
