//! Uploads that were begun with a right that is taken away before they are complete: nothing of them is published.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use reqwest::Method;
use serde_json::json;
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{
    BACKGROUND,
    world::{Actor, Site, World, answer::Answer, eventually, org::Staff, request::Request},
};

/// An upload of which the first half has been sent.
struct Begun {
    go_on: oneshot::Sender<()>,
    answer: JoinHandle<Answer>,
}

impl Begun {
    /// Begins an upload of `site` by `request`.
    fn new(request: Request, site: &Site) -> Self {
        let mut first = Bytes::from(site.tarball());
        let rest = first.split_off(first.len() / 2);
        let (go_on, may_go_on) = oneshot::channel();
        let rest = stream::once(async move {
            // One that is refused before is not gone on with.
            let _ = may_go_on.await;
            rest
        });
        let body = stream::once(async move { first }).chain(rest).map(Ok::<_, std::io::Error>);
        let upload = request.upload(reqwest::Body::wrap_stream(body.boxed()));
        Self { go_on, answer: tokio::spawn(async move { upload.await }) }
    }

    /// Begins an upload to the project `engine`, and waits until its record is there.
    async fn to_engine(request: Request, reader: &Actor) -> Self {
        let begun = Self::new(request, &Site::page("stolen").file("noise.bin", crate::world::site::noise(400_000)));
        eventually(BACKGROUND, "the upload has begun", async || {
            let detail = reader.project("engine").await;
            detail["deployments"].as_array().unwrap().iter().any(|d| d["status"] == "uploading")
        })
        .await;
        begun
    }

    /// Sends the rest.
    async fn end(self) -> Answer {
        let _ = self.go_on.send(());
        self.answer.await.unwrap()
    }
}

fn upload_of(actor: &Actor) -> Request {
    actor.post("/projects/engine/deployments")
}

/// An org whose project `engine` serves a page.
async fn engine_of_an_org(world: &World) -> Staff {
    let staff = world.staffed_org("acme").await;
    staff.owner.create_project_in(&staff.org, "engine").await;
    staff.owner.deploy("engine", &Site::page("ours")).await;
    staff
}

async fn assert_serves_ours(world: &World, reader: &Actor) {
    world.edge().get(&world.site_url("engine")).await.assert_body(200, "ours");
    eventually(BACKGROUND, "no upload is left open", async || {
        let detail = reader.project("engine").await;
        detail["deployments"].as_array().unwrap().iter().all(|d| d["status"] != "uploading")
    })
    .await;
}

#[tokio::test]
async fn who_left_the_org_publishes_nothing_more() {
    let world = World::start().await;
    let staff = engine_of_an_org(&world).await;
    let begun = Begun::to_engine(upload_of(&staff.member), &staff.owner).await;
    staff.owner.delete("/orgs/acme/members/org-member").await.ok();
    begun.end().await.assert_error(404, "not_found");
    assert_serves_ours(&world, &staff.owner).await;
}

#[tokio::test]
async fn a_project_that_moved_away_is_published_to_by_its_new_members_alone() {
    let world = World::start().await;
    let staff = engine_of_an_org(&world).await;
    staff.owner.create_org("other").await;
    let by_member = Begun::to_engine(upload_of(&staff.member), &staff.owner).await;
    staff.owner.post("/projects/engine/transfer").json(&json!({ "org": "other" })).await.ok();
    by_member.end().await.assert_error(404, "not_found");
    assert_serves_ours(&world, &staff.owner).await;
}

#[tokio::test]
async fn a_revoked_token_publishes_nothing_more() {
    let world = World::start().await;
    let staff = engine_of_an_org(&world).await;
    let token = staff.owner.post("/orgs/acme/tokens").json(&json!({ "kind": "deploy" })).await.created();
    let robot = world.nobody().with_token(token["token"].as_str().unwrap());
    let begun = Begun::to_engine(upload_of(&robot), &staff.owner).await;
    staff.owner.delete(&format!("/orgs/acme/tokens/{}", token["id"].as_str().unwrap())).await.ok();
    begun.end().await.assert_error(401, "unauthorized");
    assert_serves_ours(&world, &staff.owner).await;

    let own = staff.member.post("/tokens").json(&json!({ "kind": "cli" })).await.created();
    let leaked = world.nobody().with_token(own["token"].as_str().unwrap());
    let begun = Begun::to_engine(upload_of(&leaked), &staff.owner).await;
    let share = Begun::new(leaked.post("/shares"), &Site::page("shared"));
    staff.member.delete(&format!("/tokens/{}", own["id"].as_str().unwrap())).await.ok();
    begun.end().await.assert_error(401, "unauthorized");
    share.end().await.assert_error(401, "unauthorized");
    assert_eq!(staff.member.get("/shares").await.ok()["shares"], json!([]));
    assert_serves_ours(&world, &staff.owner).await;
}

#[tokio::test]
async fn a_session_that_ended_publishes_nothing_more() {
    let world = World::start().await;
    let staff = engine_of_an_org(&world).await;
    let person = world.person();
    person.sign_in("org-member").await;
    let begun = Begun::to_engine(person.api(Method::POST, "/projects/engine/deployments"), &staff.owner).await;
    staff.member.delete("/sessions").await.ok();
    begun.end().await.assert_error(401, "unauthorized");
    assert_serves_ours(&world, &staff.owner).await;
}

#[tokio::test]
async fn an_upload_whose_right_is_gone_is_not_received_to_its_end() {
    let world = World::start().await;
    let staff = engine_of_an_org(&world).await;
    let begun = Begun::to_engine(upload_of(&staff.member), &staff.owner).await;
    staff.owner.delete("/orgs/acme/members/org-member").await.ok();
    // Its rest never comes.
    let Begun { go_on, answer } = begun;
    let answer = tokio::time::timeout(Duration::from_mins(1), answer).await.expect("it is not waited for").unwrap();
    answer.assert_error(404, "not_found");
    drop(go_on);
    assert_serves_ours(&world, &staff.owner).await;
}
