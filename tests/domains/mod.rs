//! `/projects/:name/domains`, and `svc domains`.

mod certificate;
mod claims;
mod cli;
mod diagnosis;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::world::{
    Actor, Builder, Site, World,
    answer::{Answer, assert_keys},
};

async fn attach(actor: &Actor, project: &str, domain: &str) -> Answer {
    actor.post(&format!("/projects/{project}/domains")).json(&json!({ "domain": domain })).await
}

async fn detach(actor: &Actor, project: &str, domain: &str) -> Answer {
    actor.delete(&format!("/projects/{project}/domains/{domain}")).await
}

/// The hostnames of the project, newest first.
async fn domains(actor: &Actor, project: &str) -> Vec<String> {
    let detail = actor.project(project).await;
    let names = detail["domains"].as_array().unwrap().iter();
    names.map(|domain| domain["domain"].as_str().unwrap().to_owned()).collect()
}

/// No certificate is good for foreign names here, so sites are asked over plain HTTP.
fn plain() -> Builder {
    World::builder().set("EDGE__HTTP_MODE", "serve")
}

fn plan_with(domains: u32) -> Value {
    json!({ "free": { "name": "Free", "price_cents": 0, "limits": {
        "projects": 100, "domains": domains, "ready_apps": 0, "bandwidth_bytes": 1, "ai_credit_cents": 1,
    } } })
}

fn count(answers: &[Answer], status: u16) -> usize {
    answers.iter().filter(|answer| answer.status.as_u16() == status).count()
}

#[tokio::test]
async fn a_domain_is_attached_served_and_detached() {
    let world = plain().edges(2).start().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("home")).await;
    let url = "http://www.example.com/";
    let seen = async || {
        let answers = world.edges.iter().map(async |edge| edge.get(url).await);
        join_all(answers).await.into_iter().map(|answer| answer.status.as_u16()).collect::<Vec<_>>()
    };
    assert_eq!(seen().await, [404, 404]);

    let attached = attach(&ada, "engine", "WWW.Example.com.").await;
    assert!(attached.header("x-svc-propagation").contains("/2; "), "{}", attached.header("x-svc-propagation"));
    let wanted = attached.created();
    assert_keys(&wanted, "domain tls_ready dns_target records status");
    assert_eq!(wanted["domain"], "www.example.com");
    assert_eq!((&wanted["tls_ready"], &wanted["dns_target"]), (&json!(false), &json!("edge.svc.localhost")));
    let record = json!({ "type": "CNAME", "name": "www.example.com", "value": "edge.svc.localhost" });
    assert_eq!(wanted["records"], json!([record]));
    assert_eq!(wanted["status"]["state"], "blocked", "nobody issues certificates here: {wanted}");
    assert_eq!(seen().await, [200, 200]);
    world.edge().get(url).await.assert_body(200, "home");
    assert_eq!(ada.project("engine").await["domains"], json!([wanted]));

    // What its project does happens there too.
    ada.deploy("engine", &Site::page("new")).await;
    world.edge().get(url).await.assert_body(200, "new");
    ada.put("/projects/engine/password").json(&json!({ "password": "hunter22" })).await.ok();
    assert!(!world.edge().get(url).await.text().contains("new"));
    ada.delete("/projects/engine/password").await.ok();
    world.sql("UPDATE projects SET suspended_at = now()").await;
    // The edge is not told of what no command did; what it reads next says so.
    ada.put("/projects/engine/password").json(&json!({ "password": "hunter22" })).await.ok();
    ada.delete("/projects/engine/password").await.ok();
    world.edge().get(url).await.assert_status(403);
    world.sql("UPDATE projects SET suspended_at = NULL").await;
    ada.deploy("engine", &Site::page("newest")).await;
    assert_eq!(seen().await, [200, 200]);

    attach(&ada, "engine", "bücher.example").await.created();
    assert_eq!(domains(&ada, "engine").await, ["xn--bcher-kva.example", "www.example.com"]);
    detach(&ada, "engine", "b%C3%BCcher.example").await.ok();

    let detached = detach(&ada, "engine", "www.EXAMPLE.com").await;
    assert!(!detached.header("x-svc-propagation").is_empty());
    assert_eq!(detached.ok(), json!({ "ok": true }));
    assert_eq!(seen().await, [404, 404]);
    assert_eq!(domains(&ada, "engine").await, Vec::<String>::new());
    for unknown in ["www.example.com", "never.example.com", "engine.svc.localhost", "x", "a%20b", "%00", "%FF", "*"] {
        detach(&ada, "engine", unknown).await.assert_error(404, "not_found");
    }
}

#[tokio::test]
async fn a_domain_is_a_real_hostname_and_not_the_platforms() {
    let world = World::builder()
        .set("SITE__DNS_TARGET", "Edge.Platform.Example.")
        .set("SITE__SHARE_DOMAIN", "shares.example")
        .start()
        .await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let long = format!("{}.example", "a".repeat(64));
    for (bad, said) in [
        ("", "hostname"),
        ("example", "two labels"),
        ("localhost", "two labels"),
        ("https://example.com", "https://"),
        ("example.com/x", "path"),
        ("example.com:443", "port"),
        ("127.0.0.1", "IP address"),
        ("127.1", "IP address"),
        ("[::1]", "IP address"),
        ("169.254.169.254", "IP address"),
        ("*.example.com", "wildcard"),
        ("exa mple.com", "letters"),
        ("under_score.example", "letters"),
        ("-a.example", "letters"),
        ("a..example", "letters"),
        ("xn--a.example", "letters"),
        ("www.example.com\r\nx", "letters"),
        ("\u{0}.example", "letters"),
        (&long, "too long"),
    ] {
        let message = attach(&ada, "engine", bad).await.assert_error(400, "invalid_request");
        assert!(message.starts_with("domain ") && message.contains(said), "{bad:?}: {message}");
    }
    for own in [
        "svc.localhost",
        "SVC.localhost.",
        "blog.svc.localhost",
        "a.b.svc.localhost",
        "ｓｖｃ.localhost",
        "api.svc.localhost",
        "app.svc.localhost",
        "x.app.svc.localhost",
        "ai.svc.localhost",
        "shares.example",
        "a-b-c.shares.example",
        "edge.platform.example",
        "x.edge.platform.example",
    ] {
        let message = attach(&ada, "engine", own).await.assert_error(400, "invalid_request");
        assert!(message.contains("platform"), "{own}: {message}");
    }
    for body in [json!({}), json!({ "domain": null }), json!({ "domain": 7 }), json!({ "domain": ["www.example.com"] })]
    {
        let message = ada.post("/projects/engine/domains").json(&body).await.assert_error(400, "invalid_request");
        assert!(message.contains("`domain`"), "{message}");
    }
    assert_eq!(domains(&ada, "engine").await, Vec::<String>::new());
    // Only like the platform's.
    for good in ["notsvc.localhost", "svc.localhost.example", "platform.example", "xedge.platform.example"] {
        let attached = attach(&ada, "engine", good).await.created();
        assert_eq!(attached["dns_target"], "edge.platform.example");
    }
}

#[tokio::test]
async fn a_domain_belongs_to_one_project_at_a_time() {
    let world = plain().start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    ada.publish("engine", &Site::page("ada's")).await;
    eve.publish("rival", &Site::page("eve's")).await;
    ada.create_project("second").await;
    let first = attach(&ada, "engine", "www.example.com").await.created();
    // Again: the same answer, and nothing happens.
    let again = attach(&ada, "engine", "www.example.com").await;
    assert_eq!(again.find_header("x-svc-propagation"), None);
    assert_eq!(again.created(), first);
    attach(&eve, "rival", "www.example.com").await.assert_error(409, "domain_taken");
    attach(&ada, "second", "WWW.example.com").await.assert_error(409, "domain_taken");
    detach(&eve, "rival", "www.example.com").await.assert_error(404, "not_found");
    detach(&eve, "engine", "www.example.com").await.assert_error(404, "not_found");
    let url = "http://www.example.com/";
    world.edge().get(url).await.assert_body(200, "ada's");

    // What its owner gave up is kept for them for a while.
    detach(&ada, "engine", "www.example.com").await.ok();
    attach(&eve, "rival", "www.example.com").await.assert_error(409, "domain_taken");
    world.sql("UPDATE retired_names SET retired_at = retired_at - interval '30 days'").await;
    attach(&eve, "rival", "www.example.com").await.created();
    world.edge().get(url).await.assert_body(200, "eve's");

    // With its project it leads nowhere, and is kept for eve for a while.
    eve.delete("/projects/rival").await.ok();
    world.edge().get(url).await.assert_status(404);
    assert_eq!(world.sql_number("SELECT count(*) FROM custom_domains").await, 0);
    attach(&ada, "engine", "www.example.com").await.assert_error(409, "domain_taken");
    world.sql("UPDATE retired_names SET retired_at = retired_at - interval '30 days'").await;
    attach(&ada, "engine", "www.example.com").await.created();
    world.edge().get(url).await.assert_body(200, "ada's");

    // A repeated request is not a second one.
    for _ in 0..2 {
        let request = ada.post("/projects/engine/domains").header("idempotency-key", "one");
        request.json(&json!({ "domain": "once.example" })).await.created();
    }
    assert_eq!(domains(&ada, "engine").await, ["once.example", "www.example.com"]);
}

#[tokio::test]
async fn of_many_who_claim_a_name_at_once_one_gets_it() {
    let world = World::start().await;
    let mut people = Vec::new();
    for number in 0..6 {
        let person = world.user(&format!("user-{number}")).await;
        let project = format!("project-{number}");
        person.create_project(&project).await;
        people.push((person, project));
    }
    for round in 0..5 {
        let domain = format!("round-{round}.example");
        let answers = join_all(people.iter().map(|(person, project)| attach(person, project, &domain))).await;
        assert_eq!((count(&answers, 201), count(&answers, 409)), (1, 5));
    }
    assert_eq!(world.sql_number("SELECT count(*) FROM custom_domains").await, 5);
    assert_eq!(world.sql_number("SELECT count(*) FROM audit_log WHERE action = 'domain.attach'").await, 5);

    // One's own, at once: all are told yes, and it is done once.
    let (person, project) = &people[0];
    let answers = join_all((0..6).map(|_| attach(person, project, "own.example"))).await;
    assert_eq!(count(&answers, 201), 6);
    assert_eq!(world.sql_number("SELECT count(*) FROM audit_log WHERE action = 'domain.attach'").await, 6);
    let answers = join_all((0..6).map(|_| detach(person, project, "own.example"))).await;
    assert_eq!((count(&answers, 200), count(&answers, 404)), (1, 5));
}

#[tokio::test]
async fn a_plan_bounds_the_domains_over_all_projects() {
    let world = World::builder().set("BILLING__PLANS", plan_with(3)).start().await;
    let staff = world.staffed_org("acme").await;
    for (project, org) in [("one", Some("acme")), ("two", Some("acme")), ("mine", None)] {
        staff.owner.post("/projects").json(&json!({ "name": project, "org": org })).await.created();
    }
    let racers = (0..10).map(|number| {
        let project = ["one", "two"][number % 2];
        let actor = if number < 5 { &staff.owner } else { &staff.member };
        async move { attach(actor, project, &format!("{number}.example")).await }
    });
    let answers = join_all(racers).await;
    assert_eq!((count(&answers, 201), count(&answers, 403)), (3, 7));
    let message = attach(&staff.member, "two", "more.example").await.assert_error(403, "plan_limit_reached");
    assert!(message.contains("detach"), "{message}");
    // What is there may be attached again, and a name of others is taken all the same.
    let (mut one, two) = (domains(&staff.owner, "one").await, domains(&staff.owner, "two").await);
    let (project, domain) = if one.is_empty() { ("two", &two[0]) } else { ("one", &one[0]) };
    attach(&staff.member, project, domain).await.created();
    attach(&staff.member, if project == "one" { "two" } else { "one" }, domain).await.assert_error(409, "domain_taken");

    // The org's do not count against its members, nor theirs against the org.
    attach(&staff.owner, "mine", "mine.example").await.created();
    let transfer = async |actor: &Actor, project: &str, org: Value| {
        actor.post(&format!("/projects/{project}/transfer")).json(&json!({ "org": org })).await
    };
    let refused = transfer(&staff.owner, "mine", json!("acme")).await.assert_error(403, "plan_limit_reached");
    assert!(refused.contains("domains"), "{refused}");
    assert_eq!(staff.owner.project("mine").await["org"], Value::Null);
    let log = staff.owner.get("/orgs/acme/audit").await.ok().to_string();
    assert!(!log.contains("transfer"), "{log}");
    // A project without domains takes no room, and one that leaves makes some.
    staff.owner.create_project("bare").await;
    transfer(&staff.owner, "bare", json!("acme")).await.ok();
    one.extend(two);
    for domain in &one {
        let project = if domains(&staff.owner, "one").await.contains(domain) { "one" } else { "two" };
        detach(&staff.member, project, domain).await.ok();
    }
    for number in 0..2 {
        attach(&staff.member, "one", &format!("again-{number}.example")).await.created();
    }
    transfer(&staff.owner, "mine", json!("acme")).await.ok();
    assert_eq!(domains(&staff.member, "mine").await, ["mine.example"]);
    attach(&staff.member, "two", "more.example").await.assert_error(403, "plan_limit_reached");
    transfer(&staff.owner, "mine", Value::Null).await.ok();
    attach(&staff.member, "two", "more.example").await.created();
}

#[tokio::test]
async fn a_transfer_and_an_attachment_at_once_keep_to_the_plan() {
    let world = World::builder().set("BILLING__PLANS", plan_with(1)).start().await;
    let staff = world.staffed_org("acme").await;
    for round in 0..5 {
        let (coming, there) = (format!("coming-{round}"), format!("there-{round}"));
        staff.owner.create_project(&coming).await;
        staff.owner.post("/projects").json(&json!({ "name": there, "org": "acme" })).await.created();
        attach(&staff.owner, &coming, &format!("{coming}.example")).await.created();
        let path = format!("/projects/{coming}/transfer");
        let (moved, attached) = tokio::join!(
            async { staff.owner.post(&path).json(&json!({ "org": "acme" })).await },
            attach(&staff.member, &there, "there.example"),
        );
        let fine = [moved.status == 200, attached.status == 201];
        assert_eq!(fine.iter().filter(|fine| **fine).count(), 1, "{moved:?} {attached:?}");
        let refused = if fine[0] { attached } else { moved };
        refused.assert_error(403, "plan_limit_reached");
        for project in [&coming, &there] {
            staff.owner.delete(&format!("/projects/{project}")).await.ok();
        }
    }
}

#[tokio::test]
async fn a_share_has_no_domains() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.share(&Site::page("x"), 1).await;
    let project = ada.get("/shares").await.ok()["shares"][0]["project"].as_str().unwrap().to_owned();
    let message = attach(&ada, &project, "www.example.com").await.assert_error(400, "invalid_request");
    assert!(message.contains("share"), "{message}");
    detach(&ada, &project, "www.example.com").await.assert_error(404, "not_found");
    assert_eq!(domains(&ada, &project).await, Vec::<String>::new());
}

#[tokio::test]
async fn tls_is_ready_when_a_valid_certificate_covers_the_name() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let store = async |names: &str, from: &str, to: &str| {
        let sql = format!(
            "INSERT INTO certificates (id, names, chain_pem, sealed_key, not_before, not_after, created_at)
             VALUES ('crt_' || left(md5(random()::text), 20), '{names}', '', '', now() + interval '{from}',
                     now() + interval '{to}', now())"
        );
        world.sql(&sql).await;
    };
    store("{exact.example,other.example}", "-1 day", "1 day").await;
    store("{*.wild.example}", "-1 day", "1 day").await;
    store("{over.example}", "-2 days", "-1 day").await;
    store("{early.example}", "1 day", "2 days").await;
    for (domain, ready) in [
        ("exact.example", true),
        ("www.exact.example", false),
        ("www.wild.example", true),
        ("wild.example", false),
        ("a.www.wild.example", false),
        ("over.example", false),
        ("early.example", false),
    ] {
        let attached = attach(&ada, "engine", domain).await.created();
        assert_keys(&attached, "domain tls_ready dns_target records status");
        assert_eq!(attached["tls_ready"], ready, "{domain}");
        assert_eq!(attached["status"]["state"], if ready { "live" } else { "blocked" }, "{domain}");
        let path = format!("/projects/engine/domains/{domain}/certificate/refresh");
        let refreshed = json!({ "ok": true, "domain": domain, "tls_ready": ready });
        assert_eq!(ada.post(&path).await.ok(), refreshed);
        assert_eq!(ada.project("engine").await["domains"][0], attached);
    }
    // Again, once there is one.
    store("{early.example}", "-1 day", "1 day").await;
    assert_eq!(attach(&ada, "engine", "early.example").await.created()["tls_ready"], true);
}

#[tokio::test]
async fn an_org_sees_who_attached_what() {
    let world = World::start().await;
    let staff = world.staffed_org("acme").await;
    staff.owner.post("/projects").json(&json!({ "name": "engine", "org": "acme" })).await.created();
    attach(&staff.member, "engine", "www.example.com").await.created();
    attach(&staff.member, "engine", "svc.localhost").await.assert_error(400, "invalid_request");
    detach(&staff.admin, "engine", "www.example.com").await.ok();
    let log = staff.owner.get("/orgs/acme/audit").await.ok();
    let told: Vec<_> =
        log["entries"].as_array().unwrap().iter().take(2).map(|e| (&e["action"], &e["actor"]["name"])).collect();
    let wanted = [("domain.detach", "org-admin"), ("domain.attach", "org-member")].map(|(a, n)| (json!(a), json!(n)));
    assert_eq!(told, wanted.iter().map(|(a, n)| (a, n)).collect::<Vec<_>>());
    assert_eq!(log["entries"][1]["detail"], json!({ "domain": "www.example.com" }));
}
