//! `admin suspend` and `admin resume`: what the operator takes down is served by no edge, until it is resumed.

mod accounts;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    cli::Shell,
    world::{
        Actor, Site, World,
        answer::{Answer, assert_keys, parse_timestamp},
        name_server::NameServer,
    },
};

/// What the program prints when it succeeds, else what it says of its failure.
async fn operate(world: &World, arguments: &[&str]) -> Result<String, String> {
    let output = world.operate(arguments).await;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim().to_owned();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stdout) + &text(output.stderr)) }
}

async fn entries(actor: &Actor, project: &str) -> Vec<Value> {
    let log = actor.get(&format!("/projects/{project}/audit")).await.ok();
    let entries = log["entries"].as_array().unwrap().clone();
    entries
        .into_iter()
        .filter(|entry| {
            entry["action"].as_str().unwrap().starts_with("project.suspend") || entry["action"] == "project.resume"
        })
        .collect()
}

#[tokio::test]
async fn a_suspended_site_is_served_by_no_edge_until_it_is_resumed() {
    let world = World::builder().edges(2).start().await;
    let ada = world.user("ada").await;
    let site = ada.publish("engine", &Site::page("poison")).await;
    let other = ada.publish("motor", &Site::page("good")).await;
    for (reason, status) in [("abuse", 403), ("legal", 451), ("payment", 403)] {
        for edge in &world.edges {
            edge.get(&site.url).await.assert_body(200, "poison");
        }
        let said = operate(&world, &["suspend", "engine", "--reason", reason]).await.unwrap();
        assert!(said.starts_with(&format!("engine is suspended ({reason}); edges: 2/2; ")), "{said}");
        for edge in &world.edges {
            for url in [&site.url, &site.permanent_url()] {
                let visit = edge.get(url).await.assert_status(status);
                assert!(!visit.text().contains("poison"), "{visit:?}");
            }
            edge.get(&other.url).await.assert_body(200, "good");
        }
        // Its owner goes on owning it, as it is.
        ada.upload("engine", &Site::page("cure")).await.assert_error(409, "suspended");
        world.edge().get(&site.url).await.assert_status(status);
        let said = operate(&world, &["resume", "engine"]).await.unwrap();
        assert!(said.starts_with("engine is served again; edges: 2/2; "), "{said}");
    }
    world.edge().get(&site.url).await.assert_body(200, "poison");
    let log = entries(&ada, "engine").await;
    assert_eq!(log.len(), 6);
    assert_eq!((&log[1]["action"], &log[1]["detail"]), (&json!("project.suspend"), &json!({ "reason": "payment" })));
    assert_eq!((&log[0]["action"], &log[0]["actor"]["kind"]), (&json!("project.resume"), &json!("platform")));
    assert_eq!(entries(&ada, "motor").await.len(), 0);
}

#[tokio::test]
async fn shares_are_suspended_by_their_words_or_their_project() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let share = ada.share(&Site::page("poison"), 1).await;
    let project = ada.get("/shares").await.ok()["shares"][0]["project"].as_str().unwrap().to_owned();
    for name in [share.share_name(), project.clone()] {
        world.edge().get(&share.url).await.assert_body(200, "poison");
        let said = operate(&world, &["suspend", &name, "--reason", "legal"]).await.unwrap();
        assert!(said.starts_with(&project), "{said}");
        world.edge().get(&share.url).await.assert_status(451);
        operate(&world, &["resume", &name]).await.unwrap();
    }
    // A project has the name first.
    let site = ada.publish(&share.share_name(), &Site::page("mine")).await;
    operate(&world, &["suspend", &share.share_name(), "--reason", "abuse"]).await.unwrap();
    world.edge().get(&site.url).await.assert_status(403);
    world.edge().get(&share.url).await.assert_body(200, "poison");
}

/// What somebody tries to go on with, and the code that refuses it.
type Attempt<'a> = (&'a str, Answer);

fn assert_refused(attempts: Vec<Attempt<'_>>) {
    for (what, answer) in attempts {
        let message = answer.assert_error(409, "suspended");
        assert!(message.contains("operator") && message.contains("abuse"), "{what}: {message}");
    }
}

#[tokio::test]
async fn a_suspended_site_stays_as_it_is() {
    let folder = TempDir::new().unwrap();
    let names = NameServer::start(folder.path(), "").await;
    let world = World::builder().set("EDGE__HTTP_MODE", "serve").set("ACME__RESOLVERS", names.address());
    let world = world.set("LIMITS__PROBE_ALLOW_PRIVATE", true).start().await;
    let (ada, bob) = (world.user("ada").await, world.user("bob").await);
    ada.create_org("acme").await;
    let first = ada.publish("engine", &Site::page("poison")).await;
    let second = ada.deploy("engine", &Site::page("poison")).await;
    ada.create_project("motor").await;
    ada.attach("engine", "www.example.com").await;
    let share = ada.share(&Site::page("poison"), 1).await;
    for name in ["engine", share.share_name().as_str()] {
        operate(&world, &["suspend", name, "--reason", "abuse"]).await.unwrap();
    }

    let deployment = |id: &str| format!("/projects/engine/deployments/{id}");
    let attach = |project: &str| format!("/projects/{project}/domains");
    let domain = json!({ "domain": "www.example.com" });
    assert_refused(vec![
        ("delete", ada.delete("/projects/engine").await),
        ("transfer", ada.post("/projects/engine/transfer").json(&json!({ "org": "acme" })).await),
        ("upload", ada.upload("engine", &Site::page("poison")).await),
        ("activate", ada.activate("engine", &first.id).await),
        ("activate the live one", ada.activate("engine", &second.id).await),
        ("delete a deployment", ada.delete(&deployment(&first.id)).await),
        ("detach", ada.delete("/projects/engine/domains/www.example.com").await),
        ("attach", ada.post(&attach("engine")).json(&json!({ "domain": "more.example.com" })).await),
        ("delete a share", ada.delete(&format!("/shares/{}", share.share_name())).await),
    ]);
    // A refused upload leaves no deployment behind, failed or not.
    let deployments = ada.get("/projects/engine/deployments").await.ok();
    assert_eq!(deployments["deployments"].as_array().unwrap().len(), 2);
    // Nor does a proof move its domain to another project of the same hands; somebody else, whose domain it is, may have it.
    let record = "_svc-challenge.www.example.com";
    let code = |message: &str| message.split("TXT ").nth(1).unwrap().split('`').next().unwrap().to_owned();
    let message = ada.post(&attach("motor")).json(&domain).await.assert_error(409, "domain_taken");
    names.txt(record, &code(&message)).await;
    assert_refused(vec![("claim", ada.post(&attach("motor")).json(&domain).await)]);
    for url in [first.url.as_str(), "http://www.example.com/", share.url.as_str()] {
        world.edge().get(url).await.assert_status(403);
    }
    bob.publish("shop", &Site::page("bob's")).await;
    let message = bob.post(&attach("shop")).json(&domain).await.assert_error(409, "domain_taken");
    names.txt(record, &code(&message)).await;
    bob.post(&attach("shop")).json(&domain).await.created();
    world.edge().get("http://www.example.com/").await.assert_body(200, "bob's");

    // It is still read, and it ends. The same request is looked at anew.
    ada.get("/projects/engine").await.ok();
    let moved = async || {
        let request = ada.post("/projects/engine/transfer").header("idempotency-key", "move");
        request.json(&json!({ "org": "acme" })).await
    };
    assert_refused(vec![("transfer with a key", moved().await)]);
    operate(&world, &["resume", "engine"]).await.unwrap();
    moved().await.ok();
    ada.delete("/projects/engine").await.ok();
}

#[tokio::test]
async fn what_is_not_there_or_has_no_reason_is_not_suspended() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let site = ada.publish("engine", &Site::page("fine")).await;
    for (arguments, word) in [
        (&["suspend", "--reason", "abuse"][..], "--account"),
        (&["suspend", "engine", "--account", "ada", "--reason", "abuse"], "cannot be used with"),
        (&["suspend", "motor", "--reason", "abuse"], "no project or share called motor"),
        (&["resume", "no-such-share"], "no project or share"),
        (&["suspend", "Not A Name", "--reason", "abuse"], "neither the name"),
        (&["suspend", "engine"], "--reason"),
        (&["suspend", "engine", "--reason", "mood"], "abuse, legal, payment"),
    ] {
        let said = operate(&world, arguments).await.unwrap_err();
        assert!(said.contains(word), "{arguments:?}: {said}");
    }
    world.edge().get(&site.url).await.assert_body(200, "fine");
    assert_eq!(entries(&ada, "engine").await.len(), 0);
}

/// The projects and reasons of a list of suspended sites.
async fn suspensions(actor: &Actor, query: &str) -> Vec<(String, String)> {
    let list = actor.get(&format!("/suspensions{query}")).await.ok();
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let sites = list["suspensions"].as_array().unwrap().iter();
    sites.map(|site| (word(&site["project"]), word(&site["reason"]))).collect()
}

#[tokio::test]
async fn owners_see_which_of_their_sites_are_suspended() {
    let world = World::start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    ada.create_org("acme").await;
    for name in ["engine", "motor", "wheel"] {
        ada.create_project(name).await;
    }
    ada.post("/projects").json(&json!({ "name": "crane", "org": "acme" })).await.created();
    let words = ada.share(&Site::page("poison"), 1).await.share_name();
    let none = json!({ "account": null, "suspensions": [], "next_cursor": null });
    assert_eq!(ada.get("/suspensions").await.ok(), none);
    for (name, reason) in [("engine", "legal"), ("wheel", "abuse"), ("crane", "payment"), (words.as_str(), "abuse")] {
        operate(&world, &["suspend", name, "--reason", reason]).await.unwrap();
    }

    let behind = ada.get("/shares").await.ok()["shares"][0]["project"].as_str().unwrap().to_owned();
    let pair = |project: &str, reason: &str| (project.to_owned(), reason.to_owned());
    let mine = [pair(&behind, "abuse"), pair("wheel", "abuse"), pair("engine", "legal")];
    assert_eq!(suspensions(&ada, "").await, mine);
    assert_eq!(suspensions(&ada, "?org=acme").await, [pair("crane", "payment")]);
    let first = ada.get("/suspensions?limit=2").await.ok();
    let cursor = first["next_cursor"].as_str().unwrap();
    assert_eq!(suspensions(&ada, &format!("?limit=2&cursor={cursor}")).await, mine[2..]);
    assert_keys(&first["suspensions"][1], "project reason suspended_at");
    parse_timestamp(&first["suspensions"][1]["suspended_at"]);
    // They are nobody else's to see, and a project has the fields that it always has.
    assert!(suspensions(&eve, "").await.is_empty());
    eve.get("/suspensions?org=acme").await.assert_error(404, "not_found");
    let listed = ada.get("/projects").await.ok();
    assert_keys(&listed["projects"][0], "id name org url active_deployment_id expires_at created_at");

    for name in ["wheel", words.as_str()] {
        operate(&world, &["resume", name]).await.unwrap();
    }
    assert_eq!(suspensions(&ada, "").await, mine[2..]);
    // Of a suspended account it is every site, those for another reason of their own included.
    operate(&world, &["suspend", "--account", "ada", "--reason", "payment"]).await.unwrap();
    let all = [pair(&behind, "payment"), pair("wheel", "payment"), pair("motor", "payment"), pair("engine", "legal")];
    assert_eq!(suspensions(&ada, "").await, all);
    let account = ada.get("/suspensions").await.ok()["account"].clone();
    assert_keys(&account, "reason suspended_at");
    assert_eq!(account["reason"], "payment");
    assert_eq!(suspensions(&ada, "?org=acme").await, [pair("crane", "payment")]);
}

#[tokio::test]
async fn the_command_line_calls_no_suspended_site_live() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let shell = Shell::new(&world, ada.token.clone());
    ada.create_project("empty").await;
    for name in ["engine", "motor"] {
        ada.publish(name, &Site::page("poison")).await;
    }
    let share = ada.share(&Site::page("poison"), 1).await.share_name();
    for name in ["engine", share.as_str()] {
        operate(&world, &["suspend", name, "--reason", "legal"]).await.unwrap();
    }
    let state = async |command: &str, name: &str| {
        let table = shell.text(&[command]).await;
        table.lines().find(|line| line.starts_with(name)).unwrap().to_owned()
    };
    let engine = state("projects", "engine").await;
    assert!(engine.contains(" suspended (legal) ") && !engine.contains("live"), "{engine}");
    assert!(state("projects", "motor").await.contains(" live "));
    assert!(state("projects", "empty").await.contains(" empty "));
    assert!(state("shares", &share).await.contains(" suspended (legal) "));
    let projects = shell.json(&["projects"]).await;
    let reasons: Vec<&Value> =
        projects["projects"].as_array().unwrap().iter().map(|project| &project["suspended"]).collect();
    assert_eq!(reasons, [&Value::Null, &json!("legal"), &Value::Null]);
    assert_eq!(shell.json(&["shares"]).await["shares"][0]["suspended"], "legal");
    shell.write("site/index.html", "bad again");
    for name in ["motor", "fresh"] {
        let deployed = shell.json(&["deploy", "site", "--project", name]).await;
        assert_eq!(deployed["suspended"], Value::Null, "{name}");
    }
    operate(&world, &["resume", "engine"]).await.unwrap();
    assert!(state("projects", "engine").await.contains(" live "));

    // A token that may not ask is not told that a site is live.
    ada.create_org("acme").await;
    ada.post("/projects").json(&json!({ "name": "crane", "org": "acme" })).await.created();
    ada.deploy("crane", &Site::page("hello")).await;
    let token = ada.post("/orgs/acme/tokens").json(&json!({ "kind": "deploy" })).await.created();
    let ci = Shell::new(&world, token["token"].as_str().map(str::to_owned));
    assert!(ci.text(&["projects"]).await.contains(" deployed "));
}
