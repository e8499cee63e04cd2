//! `admin suspend` and `admin resume`: what the operator takes down is served by no edge, until it is resumed.

use serde_json::{Value, json};

use crate::{
    cli::Shell,
    world::{
        Actor, Site, World,
        answer::{assert_keys, parse_timestamp},
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
        // Its owner goes on owning it, and what is deployed meanwhile is not served either.
        ada.deploy("engine", &Site::page("poison")).await;
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

#[tokio::test]
async fn what_is_not_there_or_has_no_reason_is_not_suspended() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let site = ada.publish("engine", &Site::page("fine")).await;
    for (arguments, word) in [
        (&["suspend", "motor", "--reason", "abuse"][..], "no project or share called motor"),
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
    assert_eq!(ada.get("/suspensions").await.ok(), json!({ "suspensions": [], "next_cursor": null }));
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

    operate(&world, &["resume", "wheel"]).await.unwrap();
    ada.delete(&format!("/shares/{words}")).await.ok();
    assert_eq!(suspensions(&ada, "").await, mine[2..]);
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
    for (name, reason) in [("engine", json!("legal")), ("motor", Value::Null), ("fresh", Value::Null)] {
        let deployed = shell.json(&["deploy", "site", "--project", name]).await;
        assert_eq!(deployed["suspended"], reason, "{name}");
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
