//! What an operator sees and does: `admin store`, the letter, the metric.

use std::time::Duration;

use crate::{
    BACKGROUND,
    metrics::Page,
    world::{Site, World, eventually, mailbox::Mailbox, ports},
};

#[tokio::test]
async fn a_deleted_deployment_waits_in_the_trash_and_comes_back_by_command() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let live = ada.publish("engine", &Site::page("one")).await;
    let kept = ada.deploy("engine", &Site::page("two")).await;
    ada.delete(&format!("/projects/engine/deployments/{}", live.id)).await.ok();
    world.edge().get(&live.permanent_url()).await.assert_status(404);
    eventually(BACKGROUND, "its pack is in the trash", async || world.trashed_files().len() == 3).await;
    assert_eq!(world.stored_files().len(), 2);

    let listed = world.admin_prints(&["store", "trash"]).await;
    let columns: Vec<&str> = listed.trim().split('\t').collect();
    assert_eq!(columns[..2], [&*live.id, "engine"], "{listed}");
    assert!(columns[2].ends_with('Z') && columns[3].parse::<u64>().unwrap() > 0, "{listed}");
    // Nothing of it is in the API.
    ada.get(&format!("/projects/engine/deployments/{}", live.id)).await.assert_error(404, "not_found");

    assert!(world.admin_prints(&["store", "restore", &live.id]).await.starts_with("1 pack "));
    assert_eq!((world.stored_files().len(), world.trashed_files().len()), (4, 0));
    assert!(!world.operate(&["store", "restore", &live.id]).await.status.success(), "it is not there any more");
    assert!(world.admin_prints(&["store", "restore", "--all"]).await.starts_with("0 packs"));

    // It has no record; the sweep sees it as one of two packs, which is not too much.
    world.age_packs(Duration::from_hours(2));
    let said = world.admin_prints(&["store", "sweep"]).await;
    assert!(said.contains("2 packs, 1 without a record") && said.contains(&live.id), "{said}");
    assert_eq!(world.stored_files().len(), 4, "a look moves nothing");
    assert!(world.admin_prints(&["store", "sweep", "--yes"]).await.starts_with("1 pack "));
    assert_eq!(world.trashed_files().len(), 3);
    world.edge().get(&kept.url).await.assert_body(200, "two");
}

/// Admin dies after it has moved a pack, and before it has noted that.
#[tokio::test]
async fn a_move_that_was_not_noted_is_noted_later() {
    let mut world = World::start().await;
    let ada = world.user("ada").await;
    let old = ada.publish("engine", &Site::page("one")).await;
    ada.deploy("engine", &Site::page("two")).await;
    ada.delete(&format!("/projects/engine/deployments/{}", old.id)).await.ok();
    eventually(BACKGROUND, "its pack is in the trash", async || world.trashed_files().len() == 3).await;
    world.admin.kill();
    world
        .sql(&format!(
            "DELETE FROM trashed_packs;
             INSERT INTO pack_removals (deployment_id, project, queued_at, next_attempt_at)
             VALUES ('{}', 'engine', now(), now()) ON CONFLICT DO NOTHING",
            old.id
        ))
        .await;
    world.restart_admin_later().await;
    let is_noted = async || world.sql_number("SELECT count(*) FROM trashed_packs WHERE is_deletion").await == 1;
    eventually(BACKGROUND, "the move is noted as a deletion", is_noted).await;
    let listed = world.admin_prints(&["store", "trash"]).await;
    assert!(listed.starts_with(&format!("{}\tengine\t", old.id)), "{listed}");
}

#[tokio::test]
async fn whoever_wants_no_trash_has_none() {
    let mut world = World::builder().set("STORE__TRASH_DAYS", 0).start().await;
    let ada = world.user("ada").await;
    let old = ada.publish("engine", &Site::page("one")).await;
    ada.deploy("engine", &Site::page("two")).await;
    ada.delete(&format!("/projects/engine/deployments/{}", old.id)).await.ok();
    // Noted, too, and with a store that was swept: what is tended before either waits for the next minute.
    let is_noted = "SELECT count(in_step_until) - (SELECT count(*) FROM pack_removals) FROM store_sweep";
    eventually(BACKGROUND, "its pack is in the trash, or gone", async || {
        world.stored_files().len() == 2 && world.sql_number(is_noted).await == 1
    })
    .await;
    world.restart_admin_later().await;
    eventually(BACKGROUND, "its pack is gone", async || world.trashed_files().is_empty()).await;
    assert_eq!(world.stored_files().len(), 2);
}

#[tokio::test]
async fn a_sweep_that_stops_tells_the_operator_once() {
    let folder = tempfile::tempdir().unwrap();
    let (mailbox, metrics) = (Mailbox::start(folder.path()).await, ports::free());
    let mut world = World::builder()
        .set("MAIL__URL", mailbox.url())
        .set("MAIL__OPERATOR", "ops@example.com")
        .set("ADMIN__METRICS_LISTEN", format!("127.0.0.1:{metrics}"))
        .start()
        .await;
    let ada = world.user("ada").await;
    for n in 0..3 {
        ada.publish(&format!("site-{n}"), &Site::page("here")).await;
    }
    let in_step = async || world.sql_number("SELECT count(in_step_until) FROM store_sweep").await == 1;
    eventually(BACKGROUND, "the store was swept", in_step).await;
    world.age_packs(Duration::from_hours(2));
    // What a table looks like whose rows are gone.
    world
        .sql(
            "UPDATE store_sweep SET in_step_until = now() + interval '1 minute';
             UPDATE projects SET active_deployment_id = NULL; DELETE FROM deployments",
        )
        .await;
    let stored = world.stored_files();
    world.restart_admin_later().await;
    let reason = async || Page::of(metrics).await.labelled("svc_store_sweep_stopped", r#"reason="share""#);
    eventually(BACKGROUND, "the metric says it", async || reason().await == Some(1.0)).await;
    let has_logged = async || world.admin.log().contains("the sweep of the store has stopped");
    eventually(BACKGROUND, "the log says it", has_logged).await;
    world.restart_admin_later().await;
    eventually(BACKGROUND, "the metric says it again", async || reason().await == Some(1.0)).await;
    eventually(BACKGROUND, "there is a letter", async || !mailbox.letters().await.is_empty()).await;
    let letters = mailbox.letters().await;
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert!(letters[0].to_string().contains("The sweep of the store has stopped"), "{letters:?}");
    assert_eq!(world.admin.log().matches("the sweep of the store has stopped").count(), 1);
    assert_eq!(world.stored_files(), stored);
}

#[tokio::test]
async fn a_clock_that_is_days_ahead_moves_and_deletes_nothing() {
    let world = World::builder().set("STORE__TRASH_DAYS", 0).admin_ahead(3 * 86_400).start().await;
    let stopped = "SELECT coalesce(max(stopped_for), '') FROM store_sweep";
    eventually(BACKGROUND, "the sweep has stopped", async || world.sql_text(stopped).await == "clocks").await;
}
