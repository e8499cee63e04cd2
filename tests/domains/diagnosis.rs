//! `GET /projects/:name/domains/:domain/diagnosis`, with a name server whose records the test writes.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{attach, detach, plain};
use crate::{
    stubs::resolver::Resolver,
    world::{Actor, Builder, Site, World, answer::assert_keys, name_server::NameServer, ports},
};

/// The platform's own name, and its address.
const TARGET: &str = "edge.platform.example";
const OURS: &str = "127.0.0.1";
/// An address of somebody else's.
const OTHER: &str = "203.0.113.9";

/// A world that asks a name server of its own, which knows the platform's name.
async fn looking(configure: impl FnOnce(Builder) -> Builder) -> (World, NameServer, TempDir) {
    let folder = TempDir::with_prefix("svc-names-").unwrap();
    let names = NameServer::start(folder.path(), "").await;
    names.a(TARGET, &[OURS]).await;
    let builder = plain()
        .set("SITE__DNS_TARGET", TARGET)
        .set("ACME__RESOLVERS", names.resolvers())
        .set("LIMITS__PROBE_ALLOW_PRIVATE", "true");
    (configure(builder).start().await, names, folder)
}

async fn diagnose(actor: &Actor, domain: &str) -> Value {
    actor.get(&format!("/projects/engine/domains/{domain}/diagnosis")).await.ok()
}

fn assert_said(diagnosis: &Value, verdict: &str, finding: &str, words: &[&str]) {
    assert_eq!(diagnosis["verdict"], verdict, "{diagnosis:#}");
    assert_eq!(diagnosis["resolvers"][0]["finding"], finding, "{diagnosis:#}");
    let message = diagnosis["message"].as_str().unwrap();
    for word in words {
        assert!(message.contains(word), "`{word}` is not said: {message}");
    }
}

fn fix(action: &str, kind: &str, name: &str, value: &str) -> Value {
    json!({ "action": action, "type": kind, "name": name, "value": value })
}

/// The fixes without their reasons.
fn fixes(diagnosis: &Value) -> Vec<Value> {
    let bare = |fix: &Value| {
        let mut fix = fix.clone();
        assert!(fix.as_object_mut().unwrap().remove("why").unwrap().as_str().unwrap().ends_with('.'));
        fix
    };
    diagnosis["fixes"].as_array().unwrap().iter().map(bare).collect()
}

#[tokio::test]
async fn what_stands_in_dns_is_told_with_what_should() {
    let (world, names, _folder) = looking(|builder| builder).await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("home")).await;
    let cname = |host: &str| fix("set", "CNAME", host, TARGET);

    // Nothing yet, and not attached either.
    let nothing = diagnose(&ada, "www.none.example").await;
    assert_keys(&nothing, "domain attached taken verdict message records delegation resolvers http status fixes");
    let record = "`www.none.example.  CNAME  edge.platform.example.`";
    assert_said(&nothing, "waiting", "nothing", &[record, "DNS of none.example"]);
    assert_eq!(
        (&nothing["attached"], &nothing["taken"], &nothing["status"], &nothing["http"], &nothing["delegation"]),
        (&json!(false), &json!(false), &Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!(fixes(&nothing), [cname("www.none.example")]);
    assert_eq!(nothing["resolvers"][0]["resolver"], names.address());

    names.a("www.other.example", &[OTHER]).await;
    let elsewhere = diagnose(&ada, "www.other.example").await;
    assert_said(&elsewhere, "waiting", "elsewhere", &[OTHER, "CNAME"]);
    assert_eq!(elsewhere["resolvers"][0]["a"], json!([OTHER]));
    assert_eq!(fixes(&elsewhere), [fix("remove", "A", "www.other.example", OTHER), cname("www.other.example")]);

    names.cname("www.alias.example", "old.example").await;
    names.a("old.example", &[OTHER]).await;
    let alias = diagnose(&ada, "www.alias.example").await;
    assert_said(&alias, "waiting", "elsewhere", &[OTHER]);
    assert_eq!(alias["resolvers"][0]["cname"], json!(["old.example"]));
    assert_eq!(fixes(&alias), [cname("www.alias.example")], "what the alias leads to is somebody else's");
    names.cname("www.gone.example", "gone.example").await;
    assert_said(&diagnose(&ada, "www.gone.example").await, "waiting", "nothing", &["alias of gone.example"]);

    names.a("www.stale.example", &[OURS]).await;
    names.aaaa("www.stale.example", &["2001:db8::9"]).await;
    let stale = diagnose(&ada, "www.stale.example").await;
    assert_said(&stale, "blocked", "stale_ipv6", &["AAAA", "2001:db8::9", "removes"]);
    assert_eq!(fixes(&stale), [fix("remove", "AAAA", "www.stale.example", "2001:db8::9")]);

    // The record that is wrong is another name's.
    names.cname("www.apex.example", "apex.example").await;
    names.a("apex.example", &[OURS]).await;
    names.aaaa("apex.example", &["2001:db8::9"]).await;
    let stale = diagnose(&ada, "www.apex.example").await;
    assert_said(&stale, "blocked", "stale_ipv6", &["AAAA record of apex.example", "2001:db8::9", "removes"]);
    assert_eq!(fixes(&stale), [fix("remove", "AAAA", "apex.example", "2001:db8::9")]);
    names.cname("www.hosted.example", "hosting.test").await;
    names.a("hosting.test", &[OURS, OTHER]).await;
    let hosted = diagnose(&ada, "www.hosted.example").await;
    assert_said(&hosted, "blocked", "partly", &["alias of hosting.test", OTHER, "CNAME"]);
    assert_eq!(fixes(&hosted), [cname("www.hosted.example")]);

    names.a("www.half.example", &[OURS, OTHER]).await;
    assert_said(&diagnose(&ada, "www.half.example").await, "blocked", "partly", &[OTHER]);
    names.a("www.proxied.example", &["104.16.1.2"]).await;
    assert_said(&diagnose(&ada, "www.proxied.example").await, "blocked", "proxied", &["Cloudflare", "DNS only"]);
    names.servfail("www.broken.example").await;
    assert_said(&diagnose(&ada, "www.broken.example").await, "blocked", "servfail", &["SERVFAIL", "name servers"]);
    names.no_servfail("www.broken.example").await;
    assert_said(&diagnose(&ada, "www.broken.example").await, "waiting", "nothing", &[]);

    // Right, both ways; and each look is a new one.
    names.a("www.right.example", &[OURS]).await;
    assert_said(&diagnose(&ada, "www.right.example").await, "leads", "leads", &[]);
    names.cname("www.none.example", TARGET).await;
    let right = diagnose(&ada, "www.none.example").await;
    assert_said(&right, "leads", "leads", &["leads here"]);
    assert_eq!((&right["resolvers"][0]["cname"], fixes(&right)), (&json!([TARGET]), Vec::new()));
    names.no_cname("www.none.example").await;
    assert_said(&diagnose(&ada, "www.none.example").await, "waiting", "nothing", &[]);
}

#[tokio::test]
async fn an_apex_is_told_the_addresses() {
    let (world, names, _folder) = looking(|builder| builder.set("SITE__APEX_ADDRESSES", "127.0.0.1,2001:db8::7")).await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let records = json!([
        { "type": "A", "name": "shop.example", "value": "127.0.0.1" },
        { "type": "AAAA", "name": "shop.example", "value": "2001:db8::7" },
    ]);
    assert_eq!(attach(&ada, "engine", "shop.example").await.created()["records"], records);
    let diagnosis = diagnose(&ada, "shop.example").await;
    assert_eq!(diagnosis["records"], records);
    assert_said(&diagnosis, "waiting", "nothing", &["shop.example.  A  127.0.0.1", "AAAA  2001:db8::7"]);
    assert_eq!(diagnosis["attached"], true);
    assert_eq!(diagnosis["status"]["state"], "blocked", "certificates are imported here");
    names.a("shop.example", &["127.0.0.1"]).await;
    names.aaaa("shop.example", &["2001:db8::7"]).await;
    assert_eq!(diagnose(&ada, "shop.example").await["resolvers"][0]["finding"], "leads");
}

#[tokio::test]
async fn an_apex_without_addresses_is_told_of_aliases() {
    let (world, _names, _folder) = looking(|builder| builder).await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let diagnosis = diagnose(&ada, "shop.co.uk").await;
    assert_said(&diagnosis, "waiting", "nothing", &["shop.co.uk.  ALIAS  edge.platform.example.", "ANAME", "no CNAME"]);
}

#[tokio::test]
async fn caa_records_are_judged_up_the_tree() {
    // Nothing is ordered: no domain is attached.
    let (world, names, _folder) = looking(|builder| builder.set("ACME__ISSUER", "acme")).await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("home")).await;
    let host = "www.shop.example";
    names.cname("deep.www.shop.example", TARGET).await;
    names.a(host, &[OURS]).await;
    assert_said(&diagnose(&ada, host).await, "leads", "leads", &[]);

    names.caa("shop.example", &[("issue", "other.example")]).await;
    let refused = diagnose(&ada, host).await;
    let record = "`shop.example.  CAA  0 issue \"letsencrypt.org\"`";
    assert_said(&refused, "blocked", "leads", &[record, "CAA records of shop.example"]);
    assert_eq!(fixes(&refused), [fix("set", "CAA", "shop.example", "0 issue \"letsencrypt.org\"")]);
    let stands = json!([{ "type": "CAA", "name": "shop.example", "value": "0 issue \"other.example\"" }]);
    assert_eq!(refused["resolvers"][0]["caa"], stands);

    // The nearest ones count, alone.
    names.caa(host, &[("issue", "letsencrypt.org")]).await;
    assert_said(&diagnose(&ada, host).await, "leads", "leads", &[]);
    names.caa(host, &[("issue", "letsencrypt.org; validationmethods=other-01")]).await;
    assert_said(&diagnose(&ada, host).await, "blocked", "leads", &["other-01"]);
    names.caa(host, &[("issue", ";")]).await;
    assert_said(&diagnose(&ada, host).await, "blocked", "leads", &["letsencrypt.org"]);
    names.caa(host, &[]).await;
    names.caa("shop.example", &[]).await;
    assert_said(&diagnose(&ada, host).await, "leads", "leads", &[]);
}

#[tokio::test]
async fn the_second_authority_s_caa_record_is_missed_before_it_is_asked() {
    // Neither is asked for anything: no domain is attached.
    let fallback = json!({ "directory_url": "https://acme.zerossl.com/v2/DV90" });
    let (world, names, _folder) =
        looking(|builder| builder.set("ACME__ISSUER", "acme").set("ACME__FALLBACK", fallback)).await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("home")).await;
    let host = "www.shop.example";
    names.a(host, &[OURS]).await;
    names.caa("shop.example", &[("issue", "letsencrypt.org")]).await;
    let diagnosis = diagnose(&ada, host).await;
    assert_said(&diagnosis, "leads", "leads", &[]);
    assert_eq!(fixes(&diagnosis), [fix("set", "CAA", "shop.example", "0 issue \"sectigo.com\"")]);
    names.caa("shop.example", &[("issue", "letsencrypt.org"), ("issue", "sectigo.com")]).await;
    assert_eq!(fixes(&diagnose(&ada, host).await), Vec::<Value>::new());
}

#[tokio::test]
async fn signatures_are_what_is_wrong_only_where_it_goes_without_them() {
    let resolver = Resolver::start().await;
    let world = plain()
        .set("SITE__DNS_TARGET", TARGET)
        .set("ACME__RESOLVERS", &resolver.address)
        .set("LIMITS__PROBE_ALLOW_PRIVATE", "true")
        .start()
        .await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let bogus = diagnose(&ada, "www.shop.example").await;
    assert_said(&bogus, "blocked", "servfail", &["DNSSEC", "DS record of shop.example"]);
    assert_eq!(bogus["fixes"], json!([]));
}

#[tokio::test]
async fn a_resolver_that_does_not_answer_says_nothing_about_the_domain() {
    let silent = format!("127.0.0.1:{}", ports::free());
    let folder = TempDir::with_prefix("svc-names-").unwrap();
    let mut names = NameServer::start(folder.path(), "").await;
    names.a(TARGET, &[OURS]).await;
    names.a("www.shop.example", &[OURS]).await;
    let world = plain()
        .set("SITE__DNS_TARGET", TARGET)
        .set("ACME__RESOLVERS", format!("{silent},{}", names.resolvers()))
        .set("LIMITS__PROBE_ALLOW_PRIVATE", "true")
        .start()
        .await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("home")).await;
    let diagnosis = diagnose(&ada, "www.shop.example").await;
    assert_said(&diagnosis, "leads", "unasked", &[]);
    assert_eq!(diagnosis["resolvers"][1]["finding"], "leads", "{diagnosis:#}");
    assert_eq!(diagnosis["fixes"], json!([]));

    names.process.signal("STOP");
    let diagnosis = diagnose(&ada, "www.shop.example").await;
    assert_said(&diagnosis, "waiting", "unasked", &["could not be asked", "says nothing about its records"]);
    assert_eq!(diagnosis["resolvers"][1]["finding"], "unasked", "{diagnosis:#}");
    assert_eq!(diagnosis["fixes"], json!([]));
    names.process.kill();
}

#[tokio::test]
async fn the_way_over_plain_http_is_tried_through_the_public_name() {
    let (world, names, _folder) = looking(|builder| builder).await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("home")).await;
    attach(&ada, "engine", "www.shop.example").await.created();
    names.a("www.shop.example", &[OURS]).await;
    let open = diagnose(&ada, "www.shop.example").await;
    assert_eq!(open["http"]["open"], true, "{open:#}");
    assert_eq!(world.sql_number("SELECT count(*) FROM acme_challenges").await, 0, "it is taken back");
    detach(&ada, "engine", "www.shop.example").await.ok();

    // The same name at an address where nobody answers.
    names.a(TARGET, &[OURS, "127.0.0.77"]).await;
    names.a("www.shop.example", &[OURS, "127.0.0.77"]).await;
    let closed = diagnose(&ada, "www.shop.example").await;
    assert_eq!((&closed["verdict"], &closed["http"]["open"]), (&json!("leads"), &json!(false)), "{closed:#}");
    let message = closed["message"].as_str().unwrap();
    assert!(message.contains("127.0.0.77") && message.contains("cannot be connected to"), "{message}");
}

#[tokio::test]
async fn nobody_learns_what_stands_in_the_operators_network() {
    let (world, names, _folder) = looking(|builder| builder.set("LIMITS__PROBE_ALLOW_PRIVATE", "false")).await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("home")).await;
    names.a("www.shop.example", &[OURS]).await;
    let diagnosis = diagnose(&ada, "www.shop.example").await;
    assert_eq!(diagnosis["http"]["open"], false, "{diagnosis:#}");
    assert!(diagnosis["message"].as_str().unwrap().contains("public address"), "{diagnosis:#}");
    for aimed in ["64:ff9b::7f00:1", "2002:7f00:1::1", "fc00::1"] {
        names.a("www.shop.example", &[]).await;
        names.cname("www.shop.example", TARGET).await;
        names.a(TARGET, &[]).await;
        names.aaaa(TARGET, &[aimed]).await;
        let diagnosis = diagnose(&ada, "www.shop.example").await;
        assert_eq!(diagnosis["http"]["open"], false, "{aimed}: {diagnosis:#}");
        assert!(diagnosis["message"].as_str().unwrap().contains("public address"), "{aimed}: {diagnosis:#}");
    }
}

#[tokio::test]
async fn a_diagnosis_is_for_those_who_may_attach() {
    let world = World::builder().set("LIMITS__PROBE_ALLOW_PRIVATE", "true").start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    ada.create_project("engine").await;
    let path = |domain: &str| format!("/projects/engine/domains/{domain}/diagnosis");
    eve.get(&path("www.shop.example")).await.assert_error(404, "not_found");
    world.nobody().get(&path("www.shop.example")).await.assert_error(401, "unauthorized");
    ada.get(&path("127.0.0.1")).await.assert_error(404, "not_found");
    ada.get(&path("blog.svc.localhost")).await.assert_error(400, "invalid_request");
    // Names under localhost are this machine's, and nobody is asked about them.
    let local = diagnose(&ada, "www.shop.localhost").await;
    assert_eq!((&local["verdict"], &local["resolvers"]), (&json!("leads"), &json!([])), "{local:#}");
    // The edge listens on one of the machine's own addresses only.
    assert_eq!(local["http"]["open"], true, "{local:#}");
    for refused in ["www.shop.example", "a%20b"] {
        let refresh = format!("/projects/engine/domains/{refused}/certificate/refresh");
        ada.post(&refresh).await.assert_error(404, "not_found");
        eve.post(&refresh).await.assert_error(404, "not_found");
    }
}

#[tokio::test]
async fn looks_are_limited_by_person() {
    let world = World::start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    ada.create_project("engine").await;
    ada.create_project("second").await;
    eve.create_project("rival").await;
    for _ in 0..60 {
        diagnose(&ada, "www.shop.localhost").await;
    }
    for project in ["engine", "second"] {
        let path = format!("/projects/{project}/domains/www.shop.localhost/diagnosis");
        let refused = ada.get(&path).await;
        assert!(!refused.header("retry-after").is_empty(), "{refused:?}");
        refused.assert_error(429, "rate_limit_exceeded");
    }
    eve.get("/projects/rival/domains/www.shop.localhost/diagnosis").await.ok();
    // A member's looks in an organization are not its creator's.
    let staff = world.staffed_org("acme").await;
    staff.owner.create_project_in(&staff.org, "ours").await;
    for _ in 0..60 {
        staff.member.get("/projects/ours/domains/www.shop.localhost/diagnosis").await.ok();
    }
    let path = "/projects/ours/domains/www.shop.localhost/diagnosis";
    staff.member.get(path).await.assert_error(429, "rate_limit_exceeded");
    staff.owner.get(path).await.ok();
}
