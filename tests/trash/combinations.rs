//! Databases, stores and clocks in every combination: whatever the jobs do, every pack is still there, in its place or in the
//! trash, and all that the right database wants come back by themselves.

use std::{
    fmt::Write as _,
    fs,
    time::{Duration, Instant},
};

use ::app::App;
use acts::trash::{remove, sweep, tend};
use domain::{Clock, DeploymentId, Timestamp};
use sqlx::{AssertSqlSafe, PgPool};

use super::{
    app,
    disk::{Disk, store_in},
};
use crate::world::{Bucket, dump::BareDatabase};

/// Deployments that are live in the right database, each of a project of its own.
const LIVE: usize = 24;
/// The right one's deployments that were deleted: their packs are in the trash.
const DELETED: usize = 3;
const HOUR: Duration = Duration::from_hours(1);

/// What the database is, seen from the store.
#[derive(Debug, Clone, Copy)]
enum Dump {
    /// The right one.
    Right,
    /// One that lacks so many of the newest deployments.
    Older(usize),
    /// One of when a deployment was not deleted yet that is in the trash by now, and which lacks the newest.
    BeforeDeletion,
    /// One that lacks deployments in the middle and has others.
    Diverged,
    /// One that has deployments which the store does not.
    Newer,
    /// One whose queue has packs of deployments that it has.
    Confused,
    /// A new one.
    Empty,
    /// Another service's, which was never at this store.
    Foreign,
    /// Another service's, which was at this store a moment ago.
    ForeignInStep,
}

/// What the store is, seen from the database.
#[derive(Debug, Clone, Copy)]
enum StoreState {
    /// As the right database knows it, written long ago.
    Same,
    /// A copy of before the newest five.
    OlderCopy,
    /// With five more than the right database knows, which were written by a later one.
    NewerCopy,
    /// A copy whose files all were written now.
    FreshTimes,
}

const DUMPS: [Dump; 11] = [
    Dump::Right,
    Dump::Older(1),
    Dump::Older(5),
    Dump::Older(LIVE - 1),
    Dump::BeforeDeletion,
    Dump::Diverged,
    Dump::Newer,
    Dump::Confused,
    Dump::Empty,
    Dump::Foreign,
    Dump::ForeignInStep,
];
const STORES: [StoreState; 4] =
    [StoreState::Same, StoreState::OlderCopy, StoreState::NewerCopy, StoreState::FreshTimes];
/// Hours by which the machine's clock is wrong. The first two are enough for a bucket: it differs in how packs are moved, and not in
/// who decides. Those after the third are only tried with `SVC_TEST_ALL_CLOCKS`.
const CLOCKS: [i64; 5] = [0, 72, -72, 3, 24 * 30];

/// The packs of a service: live ones, the oldest first, and deleted ones.
struct History {
    live: Vec<DeploymentId>,
    deleted: Vec<DeploymentId>,
    /// Made later than all that the right database knows.
    later: Vec<DeploymentId>,
    /// The time of the right dump.
    known_at: Timestamp,
}

impl History {
    fn new(now: Timestamp) -> Self {
        let at = |hours: u32| DeploymentId::new(now - HOUR * hours);
        let count = u32::try_from(LIVE).unwrap();
        Self {
            live: (0..count).map(|n| at(10 + count - n)).collect(),
            deleted: (0..u32::try_from(DELETED).unwrap()).map(|n| at(200 + n)).collect(),
            later: (0..5).map(|n| at(8 - n)).collect(),
            known_at: now - HOUR * 9,
        }
    }
}

/// Makes the database what `dump` says, and returns the packs that it wants.
async fn load(db: &PgPool, dump: Dump, history: &History, now: Timestamp) -> Vec<DeploymentId> {
    let others = || -> Vec<DeploymentId> { (0..10_u32).map(|n| DeploymentId::new(now - HOUR * (30 + n))).collect() };
    let live = &history.live;
    let (has, in_step): (Vec<DeploymentId>, Option<Timestamp>) = match dump {
        Dump::Right | Dump::Confused => (live.clone(), Some(history.known_at)),
        Dump::Older(lacks) => {
            let has = live[..LIVE - lacks].to_vec();
            let in_step = has.last().unwrap().time();
            (has, Some(in_step + Duration::from_mins(2)))
        }
        Dump::BeforeDeletion => {
            let has: Vec<_> = live[..LIVE - 2].iter().chain(&history.deleted[..1]).cloned().collect();
            (has, Some(live[LIVE - 3].time() + Duration::from_mins(2)))
        }
        Dump::Diverged => {
            let has: Vec<_> = live[..8].iter().cloned().chain(others()).chain(live[14..].iter().cloned()).collect();
            (has, Some(history.known_at))
        }
        Dump::Newer => (live.iter().cloned().chain(others()).collect(), Some(history.known_at)),
        Dump::Empty => (Vec::new(), None),
        Dump::Foreign => (others(), None),
        Dump::ForeignInStep => (others(), Some(now - Duration::from_mins(5))),
    };
    let mut sql = String::from(
        // Without the triggers of a deletion: the rows were never there.
        "SET session_replication_role = replica;
         DELETE FROM deployments; DELETE FROM projects; DELETE FROM pack_removals; DELETE FROM trashed_packs;
         INSERT INTO users (id, vcs_id, vcs_login, created_at)
         VALUES ('usr_00000000000000000000', '1', 'ada', now()) ON CONFLICT DO NOTHING;
         UPDATE store_sweep SET position = NULL, looked = 0, unknown = 0, trash_position = NULL, watched_seconds = 0,
             watched_at = NULL, stopped_for = NULL, stopped_at = NULL, in_step_until = ",
    );
    sql += &in_step.map_or("NULL;".to_owned(), |time| format!("'{time}';"));
    if !has.is_empty() {
        let project = |id: &DeploymentId| id.as_str().replacen("dep_", "prj_", 1);
        let projects = has.iter().map(|id| format!("('{0}', '{0}', 'usr_00000000000000000000', now())", project(id)));
        let deployments = has.iter().map(|id| format!("('{id}', '{}', 'live', '{}')", project(id), id.time()));
        _ = write!(
            sql,
            "INSERT INTO projects (id, name, user_id, created_at) VALUES {};
             INSERT INTO deployments (id, project_id, status, created_at) VALUES {};",
            projects.collect::<Vec<_>>().join(", "),
            deployments.collect::<Vec<_>>().join(", "),
        );
    }
    if matches!(dump, Dump::Confused) {
        for id in &live[..4] {
            _ = write!(
                sql,
                "INSERT INTO pack_removals (deployment_id, queued_at, next_attempt_at)
                 VALUES ('{id}', now(), now() - interval '1 hour');"
            );
        }
    }
    sql += "RESET session_replication_role";
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(db).await.unwrap();
    has
}

/// Makes the store what `state` says, and returns its packs.
fn fill(disk: &Disk, state: StoreState, history: &History) -> Vec<DeploymentId> {
    disk.clear();
    let packs: Vec<DeploymentId> = match state {
        StoreState::Same | StoreState::FreshTimes => history.live.clone(),
        StoreState::OlderCopy => history.live[..LIVE - 5].to_vec(),
        StoreState::NewerCopy => history.live.iter().chain(&history.later).cloned().collect(),
    };
    let age = if matches!(state, StoreState::FreshTimes) { Duration::ZERO } else { HOUR * 2 };
    for id in &packs {
        disk.put("deployments", id, age);
    }
    for id in &history.deleted {
        disk.put("trash", id, HOUR * 24);
    }
    packs.into_iter().chain(history.deleted.iter().cloned()).collect()
}

/// Runs the jobs some times in a row.
async fn run_jobs(app: &App) {
    for _ in 0..2 {
        remove::run(app).await.unwrap();
        let swept = sweep::run(app).await.unwrap();
        assert!(swept.stopped.is_none() || swept.moved == 0);
        tend::run(app).await.unwrap();
    }
}

/// Days pass for the trash and for those who watch it, and an hour for the packs.
async fn days_pass(app: &App, disk: &Disk, days: u32) {
    let sql = format!("UPDATE store_sweep SET watched_seconds = watched_seconds + {days} * 86400");
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&app.db).await.unwrap();
    let Ok(trash) = fs::read_dir(disk.root.join("trash")) else { return };
    for folder in trash.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        for entry in fs::read_dir(folder).unwrap() {
            let file = fs::File::open(entry.unwrap().path()).unwrap();
            let written = file.metadata().unwrap().modified().unwrap();
            file.set_modified(written - HOUR * 24 * days).unwrap();
        }
    }
}

struct Outcome {
    lost: Vec<DeploymentId>,
    moved: usize,
}

/// One combination: the jobs run on it, then the right database comes back.
async fn combine(app: &mut App, disk: &Disk, (dump, state, clock): (Dump, StoreState, i64)) -> Outcome {
    let now = Clock::system().now();
    let history = History::new(now);
    let packs = fill(disk, state, &history);
    let wanted = load(&app.db, dump, &history, now).await;
    let ahead = HOUR * u32::try_from(clock.unsigned_abs()).unwrap();
    app.clock = Clock::from_fn(move || {
        let now = Clock::system().now();
        if clock < 0 { now - ahead } else { now + ahead }
    });
    run_jobs(app).await;
    // Less than a pack stays in the trash.
    days_pass(app, disk, 5).await;
    run_jobs(app).await;
    let is_there = |id: &DeploymentId| disk.is_whole("deployments", id) || disk.is_whole("trash", id);
    let lost = packs.iter().filter(|id| !is_there(id)).cloned().collect();
    let moved = packs.iter().filter(|id| !disk.is_whole("deployments", id)).count();
    for id in wanted.iter().filter(|id| packs.contains(id)) {
        assert!(
            disk.is_whole("deployments", id),
            "{dump:?}, {state:?}, {clock} h: {id} is wanted and not in its place"
        );
    }

    app.clock = Clock::system();
    load(&app.db, Dump::Right, &history, now).await;
    run_jobs(app).await;
    for id in history.live.iter().filter(|id| packs.contains(id)) {
        assert!(disk.is_whole("deployments", id), "{dump:?}, {state:?}, {clock} h: {id} did not come back");
    }
    Outcome { lost, moved }
}

#[tokio::test]
#[expect(clippy::print_stdout, reason = "the figure is what the test is for")]
async fn no_combination_of_dump_store_and_clock_destroys_a_pack() {
    let began = Instant::now();
    let database = BareDatabase::new().await;
    let folder = tempfile::tempdir().unwrap();
    let bucket = Bucket::start(&folder.path().join("bucket"));
    let in_folder = config::Store {
        url: url::Url::from_directory_path(folder.path().join("store")).unwrap(),
        ..config::Store::default()
    };
    let places = [
        (app(&database.url, in_folder).await, Disk { root: folder.path().join("store"), is_bucket: false }),
        (
            app(&database.url, store_in(&bucket)).await,
            Disk { root: folder.path().join("bucket/packs/a/prefix"), is_bucket: true },
        ),
    ];
    let clocks = if std::env::var_os("SVC_TEST_ALL_CLOCKS").is_some() { CLOCKS.len() } else { 3 };
    let (mut combinations, mut packs, mut lost, mut moved) = (0, 0, Vec::new(), 0);
    for (place, (mut app, disk)) in places.into_iter().enumerate() {
        for dump in DUMPS {
            for state in STORES {
                for clock in CLOCKS.into_iter().take(if place == 1 { 2 } else { clocks }) {
                    let outcome = combine(&mut app, &disk, (dump, state, clock)).await;
                    combinations += 1;
                    packs += LIVE + DELETED;
                    moved += outcome.moved;
                    lost.extend(outcome.lost.into_iter().map(|id| (dump, state, clock, id)));
                }
            }
        }
    }
    println!(
        "{combinations} combinations, {packs} packs and more: {moved} in the trash, {} lost, {:?}",
        lost.len(),
        began.elapsed()
    );
    assert!(lost.is_empty(), "{} packs were destroyed: {lost:#?}", lost.len());
    assert!(combinations >= 200);
    database.remove().await;
}

/// The other side of it: what is really of no use goes away in the end, so that the test above can fail.
#[tokio::test]
async fn what_was_deleted_is_gone_after_its_days_and_not_before() {
    let database = BareDatabase::new().await;
    let folder = tempfile::tempdir().unwrap();
    let url = url::Url::from_directory_path(folder.path().join("store")).unwrap();
    let app = app(&database.url, config::Store { url, ..config::Store::default() }).await;
    let disk = Disk { root: folder.path().join("store"), is_bucket: false };
    let now = Clock::system().now();
    let history = History::new(now);
    fill(&disk, StoreState::Same, &history);
    load(&app.db, Dump::Right, &history, now).await;
    // One is deleted, one was left behind by a crash long ago.
    let (gone, orphan) = (&history.live[3], DeploymentId::new(now - HOUR * 50));
    disk.put("deployments", &orphan, HOUR * 50);
    let delete = format!(
        "DELETE FROM deployments WHERE id = '{gone}';
         INSERT INTO pack_removals (deployment_id, project, queued_at, next_attempt_at)
         VALUES ('{gone}', 'project-3', now(), now() - interval '1 second')"
    );
    sqlx::raw_sql(AssertSqlSafe(delete)).execute(&app.db).await.unwrap();
    run_jobs(&app).await;
    for id in [gone, &orphan] {
        assert!(disk.is_whole("trash", id) && !disk.place("deployments", id).exists(), "{id} is in the trash");
    }
    days_pass(&app, &disk, 6).await;
    run_jobs(&app).await;
    assert!(disk.is_whole("trash", gone) && disk.is_whole("trash", &orphan), "not yet");
    // By the store's clock alone it would be time, but nobody has watched it.
    let unwatched = "UPDATE store_sweep SET watched_seconds = watched_seconds - 5 * 86400";
    sqlx::raw_sql(unwatched).execute(&app.db).await.unwrap();
    days_pass(&app, &disk, 2).await;
    run_jobs(&app).await;
    assert!(disk.is_whole("trash", gone) && disk.is_whole("trash", &orphan), "nobody has watched it");
    days_pass(&app, &disk, 5).await;
    run_jobs(&app).await;
    assert!(!disk.place("trash", gone).exists() && !disk.place("trash", &orphan).exists());
    let in_place = history.live.iter().filter(|id| disk.is_whole("deployments", id)).count();
    assert_eq!(in_place, LIVE - 1);
    database.remove().await;
}
