//! A domain that another project has: it goes to whoever proves that it is theirs, and never from one who has proved the same while it
//! leads to their project. A name beside others of somebody else that lead here needs the same proof.

use std::net::Ipv4Addr;

use domain::role::Role;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};

use super::{attach, domains, plan_with};
use crate::{
    BACKGROUND,
    world::{
        Actor, Builder, Site, World,
        answer::Answer,
        eventually,
        mailbox::{Mailbox, header},
        name_server::NameServer,
    },
};

const DOMAIN: &str = "www.example.com";
const RECORD: &str = "_svc-challenge.www.example.com";
/// A machine of somebody else's, at which nothing listens.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 7);
/// Another one, which is a proxy.
const PROXY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 8);

fn claimable(names: &NameServer) -> Builder {
    let world = World::builder().set("EDGE__HTTP_MODE", "serve").set("ACME__RESOLVERS", names.address());
    world.set("LIMITS__PROBE_ALLOW_PRIVATE", true)
}

/// `engine` of ada's, who has the domain, and `shop` of bob's, who wants it.
async fn holder_and_claimer(world: &World) -> (Actor, Actor) {
    let (ada, bob) = (world.user("ada").await, world.user("bob").await);
    ada.publish("engine", &Site::page("ada's")).await;
    bob.publish("shop", &Site::page("bob's")).await;
    attach(&ada, "engine", DOMAIN).await.created();
    (ada, bob)
}

/// The message of a refusal.
fn refusal(answer: Answer) -> String {
    answer.assert_error(409, "domain_taken")
}

/// The code that a refusal asks for.
fn code(message: &str) -> String {
    code_at(message, RECORD)
}

/// The code that a refusal asks for at this name.
fn code_at(message: &str, record: &str) -> String {
    let (_, rest) = message.split_once(&format!("`{record} TXT ")).unwrap_or_else(|| panic!("{message}"));
    let code = rest.split_once('`').unwrap().0;
    assert!(code.len() == 40 && code.bytes().all(|b| b.is_ascii_hexdigit()), "{message}");
    code.to_owned()
}

/// The claims and losses in the log of a project, with who made them.
async fn logged(actor: &Actor, project: &str) -> Vec<(Value, Value, Value)> {
    let log = actor.get(&format!("/projects/{project}/audit")).await.ok();
    let entries = log["entries"].as_array().unwrap().iter();
    let moves = entries.filter(|entry| ["domain.claim", "domain.lose"].iter().any(|action| entry["action"] == *action));
    moves.map(|entry| (entry["action"].clone(), entry["actor"]["name"].clone(), entry["detail"].clone())).collect()
}

#[tokio::test]
async fn a_domain_goes_to_whoever_proves_that_it_is_theirs() {
    let folder = TempDir::new().unwrap();
    let (names, mailbox) = (NameServer::start(folder.path(), "").await, Mailbox::start(folder.path()).await);
    let world = claimable(&names).edges(2).set("MAIL__URL", mailbox.url());
    let world = world.start().await;
    let (ada, bob) = holder_and_claimer(&world).await;
    world.sql("UPDATE users SET email = vcs_login || '@example.com'").await;
    let url = format!("http://{DOMAIN}/");
    for edge in &world.edges {
        edge.get(&url).await.assert_body(200, "ada's");
    }

    let keyed = async || {
        let request = bob.post("/projects/shop/domains").header("idempotency-key", "claim");
        request.json(&json!({ "domain": DOMAIN })).await
    };
    let bobs = code(&refusal(keyed().await));
    assert_eq!(code(&refusal(attach(&bob, "shop", DOMAIN).await)), bobs, "the record may be set in one's own time");
    let carol = world.user("carol").await;
    carol.publish("garden", &Site::page("carol's")).await;
    let carols = code(&refusal(attach(&carol, "garden", DOMAIN).await));
    assert_ne!(carols, bobs);
    // Another's code, the code at another name, and a part of the code prove nothing.
    names.txt(RECORD, "something else").await;
    names.txt(RECORD, &bobs[1..]).await;
    names.txt(DOMAIN, &bobs).await;
    names.txt("_svc-challenge.example.com", &bobs).await;
    refusal(attach(&bob, "shop", DOMAIN).await);
    names.txt(RECORD, &bobs).await;
    refusal(attach(&carol, "garden", DOMAIN).await);
    assert_eq!(domains(&ada, "engine").await, [DOMAIN]);

    // The same request, under its own key: the refusal said to repeat it.
    let moved = keyed().await;
    assert!(moved.header("x-svc-propagation").starts_with("2/2"), "{}", moved.header("x-svc-propagation"));
    assert_eq!(moved.created()["domain"], DOMAIN);
    for edge in &world.edges {
        edge.get(&url).await.assert_body(200, "bob's");
    }
    assert_eq!((domains(&ada, "engine").await, domains(&bob, "shop").await), (vec![], vec![DOMAIN.to_owned()]));
    let detail = json!({ "domain": DOMAIN });
    assert_eq!(logged(&bob, "shop").await, [(json!("domain.claim"), json!("bob"), detail.clone())]);
    assert_eq!(logged(&ada, "engine").await, [(json!("domain.lose"), json!("bob"), detail)]);
    eventually(BACKGROUND, "the former owner is told", async || !mailbox.letters().await.is_empty()).await;
    let letters = mailbox.letters().await;
    assert_eq!(letters.len(), 1);
    assert_eq!(header(&letters[0], "To"), ["ada@example.com"]);
    assert_eq!(header(&letters[0], "Subject"), ["www.example.com is no longer attached to engine"]);

    // It is the project's like any other: attaching it again changes nothing, and the former owner has to prove it,
    // too.
    attach(&bob, "shop", DOMAIN).await.created();
    let adas = code(&refusal(attach(&ada, "engine", DOMAIN).await));
    names.txt(RECORD, &adas).await;
    attach(&ada, "engine", DOMAIN).await.created();
    world.edge().get(&url).await.assert_body(200, "ada's");

    // A code is spent: the record that bob has left there takes nothing back.
    assert_ne!(code(&refusal(attach(&bob, "shop", DOMAIN).await)), bobs);
    assert_eq!(domains(&ada, "engine").await, [DOMAIN]);
}

#[tokio::test]
async fn a_domain_that_a_project_loses_is_its_former_owners_for_30_days() {
    let folder = TempDir::new().unwrap();
    let names = NameServer::start(folder.path(), "").await;
    let world = claimable(&names).start().await;
    let (ada, bob) = holder_and_claimer(&world).await;
    // What is detached may still lead here, and is for whoever had it.
    super::detach(&ada, "engine", DOMAIN).await.ok();
    let message = refusal(attach(&bob, "shop", DOMAIN).await);
    assert!(message.contains("30 days"), "{message}");
    // From an organization its admins may move it to a project of their own, and back. Other members could leave with it.
    let org = ada.create_org("acme").await;
    org.admit(&world.user("carol").await, Role::Member).await;
    let carol = world.user("carol").await;
    carol.create_project("garden").await;
    ada.create_project_in(&org, "crane").await;
    attach(&ada, "crane", DOMAIN).await.created();
    super::detach(&carol, "crane", DOMAIN).await.ok();
    refusal(attach(&bob, "shop", DOMAIN).await);
    let message = refusal(attach(&carol, "garden", DOMAIN).await);
    assert!(message.contains("30 days"), "{message}");
    attach(&carol, "crane", DOMAIN).await.created();
    super::detach(&carol, "crane", DOMAIN).await.ok();
    ada.put("/orgs/acme/members/carol").json(&json!({ "role": "admin" })).await.ok();
    attach(&carol, "garden", DOMAIN).await.created();
    super::detach(&carol, "garden", DOMAIN).await.ok();
    refusal(attach(&bob, "shop", DOMAIN).await);
    refusal(attach(&ada, "engine", DOMAIN).await);
    attach(&carol, "crane", DOMAIN).await.created();
    // Whoever has left the organization is a stranger to what it gave up before.
    super::detach(&ada, "crane", DOMAIN).await.ok();
    ada.delete("/orgs/acme/members/carol").await.ok();
    refusal(attach(&carol, "garden", DOMAIN).await);
    // An organization that is deleted leaves it to its owners.
    ada.delete("/projects/crane").await.ok();
    ada.delete("/orgs/acme").await.ok();
    refusal(attach(&carol, "garden", DOMAIN).await);
    attach(&ada, "engine", DOMAIN).await.created();
    ada.delete("/projects/engine").await.ok();
    let message = refusal(attach(&bob, "shop", DOMAIN).await);
    assert!(message.contains("30 days"), "{message}");
    // Its former owner has it at once, and then it is held, not kept.
    ada.publish("next", &Site::page("ada's")).await;
    attach(&ada, "next", DOMAIN).await.created();
    assert!(!refusal(attach(&bob, "shop", DOMAIN).await).contains("30 days"));
    ada.delete("/projects/next").await.ok();
    // Whoever proves that the domain is theirs need not wait.
    let code = code(&refusal(attach(&bob, "shop", DOMAIN).await));
    assert_ne!(code, self::code(&message), "another deletion");
    names.txt(RECORD, &code).await;
    attach(&bob, "shop", DOMAIN).await.created();
    bob.delete("/projects/shop").await.ok();
    ada.publish("last", &Site::page("ada's")).await;
    refusal(attach(&ada, "last", DOMAIN).await);
    world.sql("UPDATE retired_names SET retired_at = retired_at - interval '30 days'").await;
    attach(&ada, "last", DOMAIN).await.created();
}

/// A server at an address, whose every answer is this.
async fn answering(address: Ipv4Addr, port: u16, answer: String) -> AbortHandle {
    // The one before has just been closed.
    let listener = loop {
        match TcpListener::bind((address, port)).await {
            Ok(listener) => break listener,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    let serving = tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut asked = [0; 4096];
            let _ = client.read(&mut asked).await;
            let _ = client.write_all(answer.as_bytes()).await;
        }
    });
    serving.abort_handle()
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_not_said_to_be_missing() {
    let folder = TempDir::new().unwrap();
    let names = NameServer::start(folder.path(), "").await;
    let world = claimable(&names).start().await;
    let (ada, bob) = holder_and_claimer(&world).await;
    let bobs = code(&refusal(attach(&bob, "shop", DOMAIN).await));
    names.txt(RECORD, &bobs).await;
    names.servfail(RECORD).await;
    let message = refusal(attach(&bob, "shop", DOMAIN).await);
    assert!(message.contains("could not be read") && code(&message) == bobs, "{message}");
    assert_eq!(domains(&ada, "engine").await, [DOMAIN]);
    names.no_servfail(RECORD).await;
    attach(&bob, "shop", DOMAIN).await.created();
}

#[tokio::test]
async fn a_domain_that_leads_to_a_holder_who_has_proved_it_is_nobody_elses() {
    let folder = TempDir::new().unwrap();
    let names = NameServer::start(folder.path(), "").await;
    let world = claimable(&names).start().await;
    let (ada, bob) = holder_and_claimer(&world).await;
    // Moved to another of ada's projects by a record, and back.
    ada.publish("other", &Site::page("other")).await;
    for project in ["other", "engine"] {
        names.txt(RECORD, &code(&refusal(attach(&ada, project, DOMAIN).await))).await;
        attach(&ada, project, DOMAIN).await.created();
    }
    let bobs = code(&refusal(attach(&bob, "shop", DOMAIN).await));
    names.txt(RECORD, &bobs).await;

    let here = Ipv4Addr::LOCALHOST.to_string();
    let elsewhere = ELSEWHERE.to_string();
    for addresses in [vec![here.as_str()], vec![&here, &elsewhere]] {
        names.a(DOMAIN, &addresses).await;
        let message = refusal(attach(&bob, "shop", DOMAIN).await);
        assert!(message.contains("leads to the site"), "{addresses:?}: {message}");
    }
    // A proxy in front, that nobody knows to be one.
    let proxy = TcpListener::bind((PROXY, world.edge().http_port)).await.unwrap();
    let edge = (Ipv4Addr::LOCALHOST, world.edge().http_port);
    let proxying = tokio::spawn(async move {
        while let Ok((mut client, _)) = proxy.accept().await {
            let mut server = TcpStream::connect(edge).await.unwrap();
            tokio::spawn(async move { copy_bidirectional(&mut client, &mut server).await.map(drop) });
        }
    });
    for addresses in [vec![PROXY], vec![PROXY, ELSEWHERE], vec![ELSEWHERE, PROXY]] {
        let addresses: Vec<String> = addresses.iter().map(Ipv4Addr::to_string).collect();
        names.a(DOMAIN, &addresses.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let message = refusal(attach(&bob, "shop", DOMAIN).await);
        assert!(message.contains("leads to the site"), "{addresses:?}: {message}");
    }
    proxying.abort();
    // One that passes HTTPS on only, as soon as there is a certificate for it.
    let redirect = format!("HTTP/1.1 301 Moved\r\nlocation: https://{DOMAIN}/\r\ncontent-length: 0\r\n\r\n");
    let redirecting = answering(PROXY, world.edge().http_port, redirect).await;
    names.a(DOMAIN, &[&PROXY.to_string()]).await;
    world
        .sql(&format!(
            "INSERT INTO certificates (id, names, chain_pem, sealed_key, not_before, not_after, created_at)
             VALUES ('crt_00000000000000000001', '{{{DOMAIN}}}', '', '',
                     now() - interval '1 day', now() + interval '1 day', now())"
        ))
        .await;
    let message = refusal(attach(&bob, "shop", DOMAIN).await);
    assert!(message.contains("leads to the site"), "{message}");
    redirecting.abort();
    // One that cannot reach us at the moment.
    let broken = "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n";
    let failing = answering(PROXY, world.edge().http_port, broken.to_owned()).await;
    let message = refusal(attach(&bob, "shop", DOMAIN).await);
    assert!(message.contains("could not be looked up"), "{message}");
    failing.abort();
    // Who cannot be asked has not said that it leads elsewhere.
    names.servfail(DOMAIN).await;
    let message = refusal(attach(&bob, "shop", DOMAIN).await);
    assert!(message.contains("could not be looked up"), "{message}");
    names.no_servfail(DOMAIN).await;
    assert_eq!(domains(&ada, "engine").await, [DOMAIN]);

    names.a(DOMAIN, &[&elsewhere]).await;
    attach(&bob, "shop", DOMAIN).await.created();
    world.edge().get(&format!("http://{DOMAIN}/")).await.assert_body(200, "bob's");
}

#[tokio::test]
async fn a_record_decides_over_a_holder_who_has_proved_nothing_wherever_the_domain_leads() {
    let folder = TempDir::new().unwrap();
    let names = NameServer::start(folder.path(), "").await;
    let world = claimable(&names).start().await;
    let (ada, bob) = holder_and_claimer(&world).await;
    names.a(DOMAIN, &["127.0.0.1"]).await;
    let bobs = code(&refusal(attach(&bob, "shop", DOMAIN).await));
    assert_eq!(domains(&ada, "engine").await, [DOMAIN]);
    names.txt(RECORD, &bobs).await;
    attach(&bob, "shop", DOMAIN).await.created();
    world.edge().get(&format!("http://{DOMAIN}/")).await.assert_body(200, "bob's");
    // He has proved it now, and it leads to him: a second record beside his takes nothing.
    names.txt(RECORD, &code(&refusal(attach(&ada, "engine", DOMAIN).await))).await;
    let message = refusal(attach(&ada, "engine", DOMAIN).await);
    assert!(message.contains("leads to the site"), "{message}");
    assert_eq!(domains(&bob, "shop").await, [DOMAIN]);
}

#[tokio::test]
async fn a_name_beside_one_of_somebody_else_that_leads_here_needs_a_record() {
    const LOGIN: &str = "login.example.com";
    let folder = TempDir::new().unwrap();
    let names = NameServer::start(folder.path(), "").await;
    let world = claimable(&names).start().await;
    let (ada, bob) = holder_and_claimer(&world).await;
    for name in [DOMAIN, LOGIN, "shop.example.com", "team.example.com"] {
        names.a(name, &["127.0.0.1"]).await;
    }
    let message = refusal(attach(&bob, "shop", LOGIN).await);
    assert!(message.contains("example.com lead to the site of another account"), "{message}");
    assert!(!message.contains(DOMAIN), "whose names there are is not for strangers: {message}");
    let login = format!("http://{LOGIN}/");
    world.edge().get(&login).await.assert_status(404);
    refusal(attach(&bob, "shop", "example.com").await);
    refusal(attach(&bob, "shop", "deep.down.example.com").await);
    // Organizations are free to make.
    bob.create_org("bobs").await;
    bob.post("/projects").json(&json!({ "name": "stall", "org": "bobs" })).await.created();
    refusal(attach(&bob, "stall", LOGIN).await);
    // Her own, in whichever account of hers, need none; nor do names of other registered domains, whose end is the same.
    attach(&ada, "engine", "shop.example.com").await.created();
    ada.create_org("acme").await;
    ada.post("/projects").json(&json!({ "name": "crane", "org": "acme" })).await.created();
    attach(&ada, "crane", "team.example.com").await.created();
    attach(&bob, "shop", "www.another-example.com").await.created();
    attach(&bob, "shop", "www.example.com.example").await.created();
    // Below a public suffix, everybody is somebody else.
    names.a("ada.github.io", &["127.0.0.1"]).await;
    attach(&ada, "engine", "ada.github.io").await.created();
    attach(&bob, "shop", "bob.github.io").await.created();

    // Whoever sets records of the domain may.
    let record = format!("_svc-challenge.{LOGIN}");
    names.txt(&record, &code_at(&message, &record)).await;
    refusal(attach(&bob, "stall", LOGIN).await);
    attach(&bob, "shop", LOGIN).await.created();
    world.edge().get(&login).await.assert_body(200, "bob's");
    // It is proved, and leads to him.
    names.txt(&record, &code_at(&refusal(attach(&ada, "engine", LOGIN).await), &record)).await;
    let message = refusal(attach(&ada, "engine", LOGIN).await);
    assert!(message.contains("leads to the site"), "{message}");
}

#[tokio::test]
async fn a_name_beside_one_that_leads_elsewhere_needs_no_record() {
    let folder = TempDir::new().unwrap();
    let names = NameServer::start(folder.path(), "").await;
    let world = claimable(&names).start().await;
    let (_ada, bob) = holder_and_claimer(&world).await;
    names.a(DOMAIN, &[&ELSEWHERE.to_string()]).await;
    attach(&bob, "shop", "login.example.com").await.created();
}

#[tokio::test]
async fn a_claim_counts_against_the_plan_and_needs_the_right_to_attach() {
    let folder = TempDir::new().unwrap();
    let names = NameServer::start(folder.path(), "").await;
    let world = claimable(&names).set("BILLING__PLANS", plan_with(1)).start().await;
    let (ada, bob) = holder_and_claimer(&world).await;
    names.txt(RECORD, &code(&refusal(attach(&bob, "shop", DOMAIN).await))).await;
    attach(&bob, "shop", "other.example.com").await.created();
    attach(&bob, "shop", DOMAIN).await.assert_error(403, "plan_limit_reached");
    attach(&bob, "engine", DOMAIN).await.assert_error(404, "not_found");
    assert_eq!(domains(&ada, "engine").await, [DOMAIN]);
    // The limit is on all of an account's projects, so one's own domain may move between them.
    ada.publish("second", &Site::page("second")).await;
    names.txt(RECORD, &code(&refusal(attach(&ada, "second", DOMAIN).await))).await;
    attach(&ada, "second", DOMAIN).await.created();
    assert_eq!(domains(&ada, "second").await, [DOMAIN]);
}
