//! A receipt is true after Postgres has lost commits: a copy that lacked the last ones was promoted, a backup was restored, or somebody
//! took them back by hand. The numbers of lost changes are given again, to others.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use serde_json::json;

use crate::{
    BACKGROUND,
    invalidation::{assert_all, propagation, seen_at, three_edges_of},
    metrics::Page,
    stubs::latency,
    world::{Actor, Edge, Site, World, actor::Uploaded, eventually, mailbox::Mailbox, ports},
};

/// What the edges say when they take over another epoch, with what they remember and without.
const ADOPTED: &str = "the database began another epoch, and nothing is lost";
const STARTED_OVER: &str = "the database may lack changes that are applied here";
/// The receipts that are compared after each promotion, by each of two clients.
const AFTER: usize = 16;

/// Makes as many changes of another project as Postgres is to lose.
async fn make(ada: &Actor, count: usize) {
    let filler = ada.post("/projects").json(&json!({ "name": "filler" })).await;
    assert!([201, 409].contains(&filler.status.as_u16()), "{filler:?}");
    for number in 0..count {
        ada.deploy("filler", &Site::page(&number.to_string())).await;
    }
}

/// Takes back the last changes' rows and numbers, but not what they changed.
async fn take_back(world: &World, count: usize) {
    world
        .sql(&format!(
            "BEGIN;
             DELETE FROM route_changes WHERE seq > (SELECT last_seq - {count} FROM route_counter);
             UPDATE route_counter SET last_seq = last_seq - {count};
             COMMIT"
        ))
        .await;
}

/// The status with which every edge answers a request that shows the key.
async fn key_is(world: &World, key: &str, status: u16) {
    let url = format!("https://ai.svc.localhost:{}/v1/models", world.public_port());
    for (index, edge) in world.edges.iter().enumerate() {
        assert_eq!(edge.get(&url).bearer(key).await.status.as_u16(), status, "edge {index}");
    }
}

#[tokio::test]
async fn a_receipt_is_true_after_commits_were_taken_back() {
    let (world, ada, [one, _two]) = three_edges_of(World::builder()).await;
    let locked = ada.publish("locked", &Site::page("open")).await;
    for lost in 1..=3 {
        let created = ada.post("/tokens").json(&json!({ "kind": "ai" })).await.created();
        let (id, key) = (created["id"].as_str().unwrap(), created["token"].as_str().unwrap());
        ada.put("/projects/locked/access").json(&json!({ "mode": "public" })).await.ok();
        // What every edge remembers, and the changes that are lost.
        key_is(&world, key, 200).await;
        assert_all(&seen_at(&world.edges, &locked.url).await, 200, Some("open"));
        seen_at(&world.edges, &one.url).await;
        make(&ada, lost).await;
        take_back(&world, lost).await;
        // Each of these has the number of a lost change, and one has the next.
        let text = format!("new {lost}");
        let new = ada.deploy("engine", &Site::page(&text)).await;
        assert!(new.propagation.starts_with("3/3"), "{}", new.propagation);
        assert_all(&seen_at(&world.edges, &one.url).await, 200, Some(&text));
        let revoked = ada.delete(&format!("/tokens/{id}")).await;
        assert!(revoked.header("x-svc-propagation").starts_with("3/3"), "{revoked:?}");
        key_is(&world, key, 401).await;
        let password = ada.put("/projects/locked/password").json(&json!({ "password": "hunter22" })).await;
        assert!(password.header("x-svc-propagation").starts_with("3/3"), "{password:?}");
        assert_all(&seen_at(&world.edges, &locked.url).await, 401, None);
        make(&ada, lost).await;
        assert_all(&seen_at(&world.edges, &one.url).await, 200, Some(&text));
    }
    for edge in &world.edges {
        assert_eq!(edge.process.log().matches(STARTED_OVER).count(), 3, "{}", edge.process.log());
    }
}

#[tokio::test]
async fn lost_changes_are_told_to_the_operator_by_name() {
    let (folder, port) = (tempfile::tempdir().unwrap(), ports::free());
    let mailbox = Mailbox::start(folder.path()).await;
    let builder = World::builder()
        .set("MAIL__URL", mailbox.url())
        .set("MAIL__OPERATOR", "ops@example.com")
        .set("ADMIN__METRICS_LISTEN", format!("127.0.0.1:{port}"));
    let (world, ada, _) = three_edges_of(builder).await;
    let created = ada.post("/tokens").json(&json!({ "kind": "ai" })).await.created();
    let id = created["id"].as_str().unwrap();
    assert!(ada.delete(&format!("/tokens/{id}")).await.header("x-svc-propagation").starts_with("3/3"));
    let reached = world.sql_number("SELECT last_seq FROM route_counter").await;
    take_back(&world, 1).await;
    eventually(BACKGROUND, "admin says so", async || world.admin.log().contains("the database has lost changes")).await;
    let (doctor, list) = (world.operate(&["doctor"]).await, world.admin_prints(&["lost-changes"]).await);
    let doctor = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(doctor.contains(&format!("edges had reached {reached}")), "{doctor}");
    assert!(list.contains(&format!("changes {reached} to {reached} are lost")) && list.contains(id), "{list}");
    let shown = async || Page::of(port).await.sum("svc_changes_lost");
    eventually(BACKGROUND, "it is shown", async || shown().await > 0.5).await;
    eventually(BACKGROUND, "the operator has a letter", async || {
        mailbox.letters().await.iter().any(|letter| letter.to_string().contains("The database has lost changes"))
    })
    .await;
    world.admin_prints(&["lost-changes", "--acknowledge"]).await;
    eventually(BACKGROUND, "it is over", async || shown().await < 0.5).await;
    for edge in &world.edges {
        assert!(edge.process.log().contains(id), "{}", edge.process.log());
    }
}

#[tokio::test]
async fn a_restart_of_postgres_empties_no_edge() {
    let (mut world, ada, [one, _two]) = three_edges_of(World::builder().own_postgres()).await;
    assert_all(&seen_at(&world.edges, &one.url).await, 200, Some("one"));
    let adopted =
        |world: &World| -> usize { world.edges.iter().map(|edge| edge.process.log().matches(ADOPTED).count()).sum() };
    let before = adopted(&world);
    for _ in 0..2 {
        world.stop_own_postgres();
        world.start_own_postgres().await;
        eventually(BACKGROUND, "admin is back", async || ada.get("/me").await.status == 200).await;
        let other = ada.post("/projects").json(&json!({ "name": "other" })).await;
        assert!([201, 409].contains(&other.status.as_u16()), "{other:?}");
        let text = ada.deploy("other", &Site::page("other")).await;
        assert!(text.propagation.starts_with("3/3"), "{}", text.propagation);
        assert_all(&seen_at(&world.edges, &text.url).await, 200, Some("other"));
    }
    for edge in &world.edges {
        assert!(!edge.process.log().contains(STARTED_OVER), "{}", edge.process.log());
    }
    assert_eq!(adopted(&world) - before, 2 * 3);
    // What they remembered before it they still do: there is nothing to read it from.
    world.stop_own_postgres();
    assert_all(&seen_at(&world.edges, &one.url).await, 200, Some("one"));
}

#[tokio::test]
async fn a_receipt_is_true_after_a_dump_was_restored_into_the_same_server() {
    let (mut world, ada, [one, two]) = three_edges_of(World::builder().own_postgres()).await;
    let newest = "SELECT last_seq FROM route_counter";
    world.dump();
    make(&ada, 3).await;
    propagation(&ada, &one).await;
    assert_all(&seen_at(&world.edges, &one.url).await, 200, Some("one"));
    let before = world.sql_number(newest).await;
    world.restore_dump();
    // As many changes as were lost, and one more.
    let lost = usize::try_from(before - world.sql_number(newest).await).unwrap();
    for round in 0..=lost {
        let deployment = [&one, &two][round % 2];
        let answer = async || ada.activate("engine", &deployment.id).await;
        let receipt = answer().await;
        let receipt = if receipt.status == 200 { receipt } else { answer().await.assert_status(200) };
        assert!(receipt.header("x-svc-propagation").starts_with("3/3"), "{receipt:?}");
        assert_all(&seen_at(&world.edges, &one.url).await, 200, Some(["one", "two"][round % 2]));
    }
    for edge in &world.edges {
        assert!(edge.process.log().contains(STARTED_OVER), "{}", edge.process.log());
    }
}

/// A project with two deployments.
struct Changed {
    name: String,
    deployments: [Uploaded; 2],
}

/// Activates a deployment of some project. A receipt for all edges is compared with what each serves right after it, unless Postgres
/// was lost meanwhile: what it confirmed last may be lost then. Returns whether it was compared.
async fn change(edges: &[Edge], ada: &Actor, project: &Changed, losses: &AtomicU64, which: usize) -> bool {
    let before = losses.load(Ordering::SeqCst);
    let answer = ada.activate(&project.name, &project.deployments[which].id).await;
    let receipt = answer.find_header("x-svc-propagation").unwrap_or_default();
    if answer.status != 200 || !receipt.starts_with("3/3") {
        return false;
    }
    let found = seen_at(edges, &project.deployments[which].url).await;
    // What cannot be read is not served old.
    if losses.load(Ordering::SeqCst) != before || found.iter().any(|(status, _)| *status == 503) {
        return false;
    }
    assert_all(&found, 200, Some(["one", "two"][which]));
    true
}

/// Changes the projects in turn, until enough receipts were compared after the next loss. Returns how many were compared.
async fn keep_changing(edges: &[Edge], ada: &Actor, projects: &[Changed], losses: &AtomicU64) -> usize {
    let former = losses.load(Ordering::SeqCst);
    let deadline = tokio::time::Instant::now() + 2 * BACKGROUND;
    let (mut compared, mut followed) = (0, 0);
    for number in 0.. {
        let is_after = losses.load(Ordering::SeqCst) > former;
        let was_compared = change(edges, ada, &projects[number % projects.len()], losses, number / 3 % 2).await;
        compared += usize::from(was_compared);
        followed += usize::from(was_compared && is_after);
        if followed >= AFTER {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{followed} receipts for all edges after a promotion");
    }
    compared
}

/// `SVC_TEST_PROMOTIONS` has it try more of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "the figures are what a person runs it for")]
async fn a_receipt_is_true_after_promotions_that_lose_commits() {
    let promotions = std::env::var("SVC_TEST_PROMOTIONS").map_or(2, |text| text.parse().unwrap());
    let (mut world, ada, _) = three_edges_of(World::builder().own_postgres()).await;
    let mut projects = Vec::new();
    for number in 0..4 {
        let name = format!("changed{number}");
        let one = ada.publish(&name, &Site::page("one")).await;
        let two = ada.deploy(&name, &Site::page("two")).await;
        projects.push(Changed { name, deployments: [one, two] });
    }
    let edges = std::mem::take(&mut world.edges);
    let losses = AtomicU64::new(0);
    let mut compared = 0;
    for round in 0..promotions {
        if round > 0 {
            world.copy_again().await;
        }
        let (first, second) = projects.split_at(2);
        let moment = || Duration::from_millis(rand::random::<u64>() % 500);
        let promotion = async {
            latency(moment()).await;
            // It hears nothing of the last commits.
            world.cut_copy_off();
            latency(moment()).await;
            losses.fetch_add(1, Ordering::SeqCst);
            world.fail_over().await;
        };
        let (one, two, ()) = tokio::join!(
            keep_changing(&edges, &ada, first, &losses),
            keep_changing(&edges, &ada, second, &losses),
            promotion,
        );
        compared += one + two;
    }
    println!("{promotions} promotions under changes, {compared} receipts compared: none was false");
    for edge in &edges {
        let log = edge.process.log();
        assert!(log.contains(STARTED_OVER), "{log}");
    }
}
