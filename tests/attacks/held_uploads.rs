//! One account that begins uploads and does not end them, or sends many at once: others go on deploying.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use tokio::task::JoinSet;

use crate::world::{Actor, Site, World, eventually, site::noise};

/// What another account's deploy of a megabyte takes at most.
const DEPLOY_WITHIN: Duration = Duration::from_secs(3);
/// Uploads that are held: more than the server received at a time when all accounts shared one number.
pub(super) const HELD: usize = 80;
/// The pause between two bytes of a held upload, within which the server's patience does not end.
const PAUSE: Duration = Duration::from_secs(5);
/// Uploads that are sent at once.
const FLOOD: usize = 12;
/// Bytes of each of them, which compress well: the work is the server's.
const FLOOD_BYTES: usize = 24 * 1024 * 1024;

/// Begins an upload that sends a byte now and then, and counts in `begun` once its body is asked for.
pub(super) async fn hold(actor: Actor, path: &'static str, begun: Arc<AtomicUsize>) {
    let first = stream::once(async move {
        begun.fetch_add(1, Ordering::Relaxed);
        Bytes::from_static(&[0x1f, 0x8b])
    });
    let rest = stream::unfold(tokio::time::interval(PAUSE), async |mut pause| {
        pause.tick().await;
        Some((Bytes::from_static(&[8]), pause))
    });
    let body = reqwest::Body::wrap_stream(first.chain(rest).map(Ok::<_, std::io::Error>));
    // It ends with the test, or is refused.
    let _ = actor.post(path).upload(body).attempt().await;
}

/// The uploads that are sent at once.
pub(super) fn uploads() -> Vec<Bytes> {
    let page = "<p>Much of the same.</p>".repeat(FLOOD_BYTES / 24);
    vec![Bytes::from(Site::page(&page).tarball()); FLOOD]
}

async fn assert_deploys(actor: &Actor, project: &str) {
    let site = Site::page("mine").file("noise.bin", noise(1024 * 1024));
    let start = Instant::now();
    actor.upload(project, &site).await.created();
    let took = start.elapsed();
    assert!(took < DEPLOY_WITHIN, "another account's deploy took {took:?}");
}

#[tokio::test]
async fn uploads_that_are_held_keep_no_other_account_out() {
    let world = World::start().await;
    let (ada, mallory) = (world.user("ada").await, world.user("mallory").await);
    ada.create_project("engine").await;
    mallory.create_project("hole").await;
    for path in ["/shares", "/projects/hole/deployments"] {
        let begun = Arc::new(AtomicUsize::new(0));
        let mut held = JoinSet::new();
        for _ in 0..HELD {
            held.spawn(hold(mallory.clone(), path, begun.clone()));
        }
        eventually(Duration::from_secs(20), "the uploads are held", async || begun.load(Ordering::Relaxed) == HELD)
            .await;
        assert_deploys(&ada, "engine").await;
        held.shutdown().await;
    }
}

#[tokio::test]
async fn a_flood_of_uploads_is_not_worked_off_before_another_accounts_deploy() {
    let world = World::start().await;
    let (ada, mallory) = (world.user("ada").await, world.user("mallory").await);
    ada.create_project("engine").await;
    let done = Arc::new(AtomicUsize::new(0));
    let mut flood = JoinSet::new();
    for tarball in uploads() {
        let (mallory, done) = (mallory.clone(), done.clone());
        flood.spawn(async move {
            let answer = mallory.post("/shares").upload(tarball).await;
            done.fetch_add(1, Ordering::Relaxed);
            answer.status.as_u16()
        });
    }
    let stored = async || world.stored_files().len();
    eventually(Duration::from_secs(20), "the flood is being published", async || stored().await > 0).await;
    ada.deploy("engine", &Site::page("mine").file("noise.bin", noise(1024 * 1024))).await;
    // Its turn came after those that were being published already, and not after all that had come before it.
    let done_before = done.load(Ordering::Relaxed);
    assert!(done_before <= FLOOD / 2, "{done_before} of {FLOOD} uploads of another account came first");
    let statuses = flood.join_all().await;
    assert!(statuses.iter().all(|status| matches!(status, 201 | 503)) && statuses.contains(&201), "{statuses:?}");
}

#[tokio::test]
async fn uploads_that_a_member_holds_do_not_keep_the_organizations_creator_out() {
    let world = World::start().await;
    let staff = world.staffed_org("acme").await;
    for project in ["engine", "hole"] {
        staff.owner.create_project_in(&staff.org, project).await;
    }
    let begun = Arc::new(AtomicUsize::new(0));
    let mut held = JoinSet::new();
    for _ in 0..HELD {
        held.spawn(hold(staff.member.clone(), "/projects/hole/deployments", begun.clone()));
    }
    eventually(Duration::from_secs(20), "the uploads are held", async || begun.load(Ordering::Relaxed) == HELD).await;
    staff.owner.upload("engine", &Site::page("ours")).await.created();
    held.shutdown().await;
}

/// Organizations of one person, each with uploads that are held: more than the server receives at a time, a few of each.
const ORGS: usize = 12;
const HELD_OF_ORG: usize = 3;

#[tokio::test]
async fn uploads_of_one_persons_organizations_keep_no_other_account_out() {
    let world = World::builder().plan(&serde_json::json!({})).set("ADMIN__UPLOADS", 16).start().await;
    let (ada, mallory) = (world.user("ada").await, world.user("mallory").await);
    ada.create_project("engine").await;
    let begun = Arc::new(AtomicUsize::new(0));
    let mut held = JoinSet::new();
    for number in 0..ORGS {
        let org = mallory.create_org(&format!("org-{number}")).await;
        let project = format!("hole-{number}");
        mallory.create_project_in(&org, &project).await;
        let path: &'static str = format!("/projects/{project}/deployments").leak();
        let robot = org.robot("deploy").await;
        for _ in 0..HELD_OF_ORG {
            held.spawn(hold(robot.clone(), path, begun.clone()));
        }
    }
    eventually(Duration::from_secs(20), "the uploads are held", async || {
        begun.load(Ordering::Relaxed) == ORGS * HELD_OF_ORG
    })
    .await;
    assert_deploys(&ada, "engine").await;
    held.shutdown().await;
}
