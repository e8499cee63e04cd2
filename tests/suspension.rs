//! `admin suspend` and `admin resume`: what the operator takes down is served by no edge, until it is resumed.

use serde_json::{Value, json};

use crate::world::{Actor, Site, World};

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
    let site = ada.publish("engine", &Site::page("bad")).await;
    let other = ada.publish("motor", &Site::page("good")).await;
    for (reason, status) in [("abuse", 403), ("legal", 451), ("payment", 403)] {
        for edge in &world.edges {
            edge.get(&site.url).await.assert_body(200, "bad");
        }
        let said = operate(&world, &["suspend", "engine", "--reason", reason]).await.unwrap();
        assert!(said.starts_with(&format!("engine is suspended ({reason}); edges: 2/2; ")), "{said}");
        for edge in &world.edges {
            for url in [&site.url, &site.permanent_url()] {
                let visit = edge.get(url).await.assert_status(status);
                assert!(!visit.text().contains("bad"), "{visit:?}");
            }
            edge.get(&other.url).await.assert_body(200, "good");
        }
        // Its owner goes on owning it, and what is deployed meanwhile is not served either.
        ada.deploy("engine", &Site::page("bad")).await;
        world.edge().get(&site.url).await.assert_status(status);
        let said = operate(&world, &["resume", "engine"]).await.unwrap();
        assert!(said.starts_with("engine is served again; edges: 2/2; "), "{said}");
    }
    world.edge().get(&site.url).await.assert_body(200, "bad");
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
    let share = ada.share(&Site::page("bad"), 1).await;
    let project = ada.get("/shares").await.ok()["shares"][0]["project"].as_str().unwrap().to_owned();
    for name in [share.share_name(), project.clone()] {
        world.edge().get(&share.url).await.assert_body(200, "bad");
        let said = operate(&world, &["suspend", &name, "--reason", "legal"]).await.unwrap();
        assert!(said.starts_with(&project), "{said}");
        world.edge().get(&share.url).await.assert_status(451);
        operate(&world, &["resume", &name]).await.unwrap();
    }
    // A project has the name first.
    let site = ada.publish(&share.share_name(), &Site::page("mine")).await;
    operate(&world, &["suspend", &share.share_name(), "--reason", "abuse"]).await.unwrap();
    world.edge().get(&site.url).await.assert_status(403);
    world.edge().get(&share.url).await.assert_body(200, "bad");
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
