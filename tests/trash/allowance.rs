//! What is deleted counts against no plan, and is bounded by it all the same: an account has no more in the store than its plan allows
//! to store, and as much again that it has deleted.

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    BACKGROUND,
    billing::plans::{org, person, subscribe},
    metrics::Page,
    world::{Actor, Site, World, eventually, ports, site::noise},
};

/// What the plan allows to store.
const PLAN: u64 = 1_000_000;
/// The size of a site: three fit into the plan.
const SITE: usize = 300_000;

fn large_site() -> Site {
    Site::page("large").file("noise.bin", noise(SITE))
}

/// The bytes of all files below a folder.
fn disk_usage(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => disk_usage(&entry.path()),
        Ok(metadata) => metadata.len(),
        // Moved meanwhile.
        Err(_) => 0,
    });
    sizes.sum()
}

/// The store's folder.
fn store(world: &World) -> std::path::PathBuf {
    world.folder_of_packs().parent().unwrap().to_owned()
}

/// Waits for the first sweep: before it nothing is deleted for good.
async fn swept(world: &World) {
    let is_swept = "SELECT count(in_step_until) FROM store_sweep";
    eventually(BACKGROUND, "the store was swept", async || world.sql_number(is_swept).await == 1).await;
}

/// Publishes a large site, however long it takes until the plan has room for what was deleted before.
async fn publish_when_possible(ada: &Actor, project: &str) -> String {
    let mut id = None;
    eventually(2 * BACKGROUND, "the site is published", async || {
        let answer = ada.upload(project, &large_site()).await;
        if answer.status == 201 {
            id = answer.created()["deployment_id"].as_str().map(str::to_owned);
            return true;
        }
        let message = answer.assert_error(403, "plan_limit_reached");
        assert!(message.contains("deleted files") && message.contains("wait some minutes"), "{message}");
        false
    })
    .await;
    id.unwrap()
}

#[tokio::test]
async fn publishing_and_deleting_all_day_fills_no_disk() {
    let metrics = ports::free();
    let world = World::builder()
        .plan(&json!({ "storage_bytes": PLAN }))
        .set("ADMIN__METRICS_LISTEN", format!("127.0.0.1:{metrics}"))
        .start()
        .await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("live")).await;
    swept(&world).await;
    let page = ada.project("engine").await["active_deployment_id"].as_str().unwrap().to_owned();
    let mut largest = 0;
    for _ in 0..12 {
        let id = publish_when_possible(&ada, "engine").await;
        ada.activate("engine", &page).await.ok();
        ada.delete(&format!("/projects/engine/deployments/{id}")).await.ok();
        largest = largest.max(disk_usage(&store(&world)));
    }
    // Twice the plan in the trash and on its way there, and the site that made it more.
    let most = 3 * PLAN + SITE as u64;
    assert!(largest <= most, "{largest} bytes are on the disk of a plan of {PLAN}");
    let trash = store(&world).join("trash");
    eventually(BACKGROUND, "the trash is back within the plan", async || {
        world.sql_number("SELECT count(*) FROM pack_removals").await == 0 && disk_usage(&trash) <= PLAN
    })
    .await;
    assert!(disk_usage(&trash) > PLAN / 2, "what fits into the plan stays");
    // Operators see it, in a count and a line of the log.
    let early = Page::of(metrics).await.sum("svc_packs_purged_early_total");
    assert!(early >= 8.0, "{early}");
    // The newest were kept.
    let oldest_left = world.sql_text("SELECT min(deployment_id) FROM trashed_packs").await;
    assert!(oldest_left > page);
}

/// Who pays for what is deleted, in the order of payers: how often, and how many bytes.
async fn held(world: &World) -> Vec<(String, i64, bool)> {
    let held = "SELECT COALESCE(json_agg(json_build_array(payer, n, has_bytes) ORDER BY payer), '[]')::text FROM (
                    SELECT payer, count(*) AS n, sum(bytes) > 0 AS has_bytes FROM (
                        SELECT payer, bytes FROM pack_removals UNION ALL SELECT payer, bytes FROM trashed_packs) AS packs
                    GROUP BY payer) AS payers";
    let held: Vec<Value> = serde_json::from_str(&world.sql_text(held).await).unwrap();
    held.iter()
        .map(|row| (row[0].as_str().unwrap_or("nobody").to_owned(), row[1].as_i64().unwrap(), row[2] == json!(true)))
        .collect()
}

#[tokio::test]
async fn whatever_is_deleted_has_a_payer() {
    let mut world = World::start().await;
    let (ada, bob) = (world.user("ada").await, world.user("bob").await);
    let (ada_id, bob_id) = (person(&world, "ada").await.to_string(), person(&world, "bob").await.to_string());
    // A deployment, a share, and a whole project.
    let old = ada.publish("engine", &Site::page("one")).await;
    ada.deploy("engine", &Site::page("two")).await;
    ada.delete(&format!("/projects/engine/deployments/{}", old.id)).await.ok();
    let share = ada.share(&Site::page("look"), 1).await;
    ada.delete(&format!("/shares/{}", share.share_name())).await.ok();
    ada.delete("/projects/engine").await.ok();
    assert_eq!(held(&world).await, [(ada_id.clone(), 3, true)]);
    // A share whose time is over.
    ada.share(&Site::page("gone"), 1).await;
    world.sql("UPDATE projects SET expires_at = now() - interval '1 hour' WHERE share_name IS NOT NULL").await;
    // Its jobs run when it starts.
    world.restart_admin_later().await;
    eventually(BACKGROUND, "the share has gone", async || held(&world).await == [(ada_id.clone(), 4, true)]).await;

    // A failed upload leaves nothing that anybody pays for.
    ada.create_project("failed").await;
    ada.upload("failed", &Site::new()).await.assert_error(400, "invalid_archive");
    ada.delete("/projects/failed").await.ok();
    let failed = "SELECT COALESCE(sum(bytes), 0)::bigint FROM pack_removals WHERE project = 'failed'";
    assert_eq!(world.sql_number(failed).await, 0);
    world.sql("DELETE FROM pack_removals; DELETE FROM trashed_packs").await;

    // Of an organization without a subscription it is who has created it, even once the organization is gone; of one with a subscription
    // it is the organization. What a project had deleted before it was transferred stays with who deleted it.
    let acme = bob.create_org("acme").await;
    bob.create_project_in(&acme, "team").await;
    let first = bob.deploy("team", &Site::page("one")).await;
    bob.deploy("team", &Site::page("two")).await;
    bob.delete(&format!("/projects/team/deployments/{}", first.id)).await.ok();
    assert_eq!(held(&world).await, [(bob_id.clone(), 1, true)]);
    bob.post("/projects/team/transfer").json(&json!({ "org": null })).await.ok();
    bob.delete("/orgs/acme").await.ok();
    bob.delete("/projects/team").await.ok();
    assert_eq!(held(&world).await, [(bob_id.clone(), 2, true)]);
    // Nobody can restore what a deleted organization had, so its packs wait for nobody.
    let gone = bob.create_org("gone").await;
    bob.create_project_in(&gone, "left").await;
    bob.deploy("left", &Site::page("one")).await;
    bob.delete("/projects/left").await.ok();
    let waiting = "SELECT count(*) FROM pack_removals WHERE project = 'left' AND next_attempt_at > now()";
    assert_eq!(world.sql_number(waiting).await, 1);
    bob.delete("/orgs/gone").await.ok();
    assert_eq!(world.sql_number(waiting).await, 0);
    assert_eq!(held(&world).await, [(bob_id.clone(), 3, true)]);
    let paying = bob.create_org("paying").await;
    let paying_id = org(&world, "paying").await;
    subscribe(&world, &paying_id, "pro").await;
    bob.create_project_in(&paying, "shop").await;
    bob.deploy("shop", &Site::page("one")).await;
    bob.delete("/projects/shop").await.ok();
    assert_eq!(held(&world).await, [(paying_id.to_string(), 1, true), (bob_id, 3, true)]);
}

#[tokio::test]
async fn the_newest_deleted_projects_that_fit_into_the_plan_can_be_restored() {
    let world = World::builder().plan(&json!({ "storage_bytes": PLAN })).start().await;
    let ada = world.user("ada").await;
    swept(&world).await;
    for name in ["one", "two", "three", "four", "five"] {
        ada.create_project(name).await;
        publish_when_possible(&ada, name).await;
        ada.delete(&format!("/projects/{name}")).await.ok();
    }
    let kept = ada.get("/deleted-projects").await.ok();
    let names: Vec<_> = kept["projects"].as_array().unwrap().iter().map(|project| &project["name"]).collect();
    assert_eq!(names, ["five", "four", "three"]);
    // They come before what is in the trash, of which there is no room for anything then.
    eventually(BACKGROUND, "the packs of the others are gone", async || {
        disk_usage(&store(&world).join("trash")) < SITE as u64 && disk_usage(&world.folder_of_packs()) < PLAN
    })
    .await;
    let restore = format!("/deleted-projects/{}/restore", kept["projects"][0]["id"].as_str().unwrap());
    ada.post(&restore).json(&json!({})).await.ok();
}
