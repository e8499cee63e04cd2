//! `GET /events`: who is told what, when a stream goes on where it was, and when it ends.

mod admins;
mod edges;
mod figures;
mod people;
mod waiting;

use serde_json::{Value, json};

use crate::world::{Site, World};

#[tokio::test]
async fn people_are_told_of_what_is_theirs_and_of_nothing_else() {
    let world = World::start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    let (mut adas, mut eves) = (ada.follow(None).await, eve.follow(None).await);
    let deployment = ada.publish("engine", &Site::page("home")).await.id;
    let created = adas.until("project.create").await;
    assert_eq!((&created.name, &created.data["account"]), (&"change".to_owned(), &json!("ada")));
    assert_eq!((&created.data["project"], &created.data["by"]), (&json!("engine"), &json!("ada")));
    let live = adas.until("deployment.upload").await.data;
    assert_eq!((&live["subject"], &live["detail"]["deployment"]), (&json!(deployment), &json!(deployment)));
    assert!(live["at"].as_str().unwrap().ends_with('Z'), "{live}");
    let receipt = adas.until("receipt").await.data;
    assert_eq!((&receipt["subject"], &receipt["detail"]["action"]), (&json!(deployment), &json!("deployment.upload")));
    assert_eq!(receipt["detail"]["edges"], receipt["detail"]["of"]);
    assert!(receipt["detail"]["ms"].is_number(), "{receipt}");

    eve.create_project("rival").await;
    assert_eq!(eves.next().await.unwrap().data["project"], "rival", "the first that she is told");
}

#[tokio::test]
async fn a_stream_goes_on_where_it_was() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let mut stream = ada.follow(None).await;
    ada.create_project("engine").await;
    let seen = stream.until("project.create").await.id.unwrap();
    drop(stream);
    ada.put("/projects/engine/env/KEY").json(&json!({ "value": "very secret" })).await.ok();
    ada.delete("/projects/engine/env/KEY").await.ok();
    let mut resumed = ada.follow(Some(&seen)).await;
    let set = resumed.next().await.unwrap();
    assert_eq!((&set.data["type"], &set.data["subject"]), (&json!("env.set"), &json!("KEY")));
    assert!(!set.data.to_string().contains("very secret"));
    assert_eq!(resumed.next().await.unwrap().data["type"], "env.remove");
    // Of what is not known, and of what is no id, nothing can be gone on with.
    for unknown in ["1-1", "99999999999999-0", "x"] {
        let mut stream = ada.follow(Some(unknown)).await;
        let first = stream.next().await.unwrap();
        assert_eq!((first.name.as_str(), &first.data), ("reset", &json!({})), "{unknown}");
        assert!(first.id.is_some(), "{first:?}");
    }
}

#[tokio::test]
async fn a_stream_that_has_told_nothing_can_be_gone_on_with() {
    let world = World::start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    let mut stream = ada.follow(None).await;
    eve.create_project("rival").await;
    let mut eves = eve.follow(None).await;
    ada.create_project("one").await;
    stream.until("project.create").await;
    let seen = stream.last_id.clone().unwrap();
    drop(stream);
    eve.create_project("rival-two").await;
    eves.until("project.create").await;
    // The id was given with the stream's beginning, and not by an event.
    let mut quiet = ada.follow(Some(&seen)).await;
    ada.create_project("two").await;
    assert_eq!(quiet.next().await.unwrap().data["project"], "two");
}

#[tokio::test]
async fn when_redis_forgets_everything_is_read_anew() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let mut stream = ada.follow(None).await;
    ada.create_project("engine").await;
    let seen = stream.until("project.create").await.id.unwrap();
    world.redis_command("FLUSHALL").await;
    assert_eq!(stream.next().await.unwrap().name, "reset");
    ada.create_project("two").await;
    assert_eq!(stream.until("project.create").await.data["project"], "two");
    assert_eq!(ada.follow(Some(&seen)).await.next().await.unwrap().name, "reset");
}

#[tokio::test]
async fn what_could_not_be_sent_is_made_good_by_a_reset() {
    let mut world = World::start().await;
    let ada = world.user("ada").await;
    let mut stream = ada.follow(None).await;
    ada.create_project("engine").await;
    stream.until("project.create").await;
    world.redis.kill();
    ada.create_project("two").await;
    world.restart_redis();
    assert_eq!(stream.next().await.unwrap().name, "reset");
    // There may be another: what was lost is said once Redis is back, whatever was read before.
    ada.create_project("three").await;
    loop {
        let told = stream.until("project.create").await.data;
        if told["project"] == "three" {
            break;
        }
    }
}

#[tokio::test]
async fn a_person_follows_in_so_many_places_and_no_more() {
    let world = World::start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    let mut streams = Vec::new();
    for _ in 0..16 {
        streams.push(ada.follow(None).await);
    }
    let (refused, _) = ada.get("/events").open().await;
    assert_eq!(serde_json::from_slice::<Value>(&refused.body).unwrap()["error"]["code"], "rate_limit_exceeded");
    assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (429, "30"));
    eve.follow(None).await;
    drop(streams.pop());
    crate::world::eventually(crate::BACKGROUND, "a place is free again", async || {
        ada.get("/events").head().await.status == 200
    })
    .await;
}
