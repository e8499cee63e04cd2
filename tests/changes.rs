//! How many changes a second a database takes, by how they get their numbers.

use std::{
    collections::{HashMap, HashSet},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use db::edges::route_changes::{self, PendingId};
use domain::{ChangeSubject, Clock, ProjectId, Timestamp, changes::PendingChange};
use futures_util::future::join_all;
use sqlx::PgPool;
use tokio::sync::{mpsc, oneshot};

use crate::world::dump::BareDatabase;

/// Changes that are made at the same time.
const AT_ONCE: i32 = 16;
/// Rounds of each way, in turns.
const ROUNDS: usize = 5;
/// How long a round goes on.
const ROUND: Duration = Duration::from_secs(4);

/// A change that is committed, and who waits for its number.
type Committed = (PendingId, oneshot::Sender<()>);

fn touched() -> PendingChange {
    PendingChange { subject: ChangeSubject::Project(ProjectId::new(now())), hosts: Vec::new() }
}

fn now() -> Timestamp {
    Clock::system().now()
}

/// What a change does before it leaves word for the edges.
async fn act(conn: &mut sqlx::PgConnection, row: i32) -> sqlx::Result<()> {
    sqlx::query("UPDATE changed SET times = times + 1 WHERE id = $1").bind(row).execute(conn).await.map(drop)
}

/// Numbers a change within its transaction, as a counter's row makes it: each waits for the commit of the one before.
async fn change_alone(db: &PgPool, row: i32) -> sqlx::Result<()> {
    let mut transaction = db.begin().await?;
    act(&mut transaction, row).await?;
    let number = "WITH next AS (UPDATE route_counter SET last_seq = last_seq + 1 RETURNING last_seq)
                  INSERT INTO route_changes (seq, subject, hosts, created_at)
                  SELECT last_seq, $1, '{}', now() FROM next RETURNING seq";
    let _: i64 = sqlx::query_scalar(number).bind(touched().subject.as_str()).fetch_one(&mut *transaction).await?;
    transaction.commit().await
}

/// Commits a change, and waits until it has its number.
async fn change_together(db: &PgPool, row: i32, commits: &mpsc::Sender<Committed>) -> sqlx::Result<()> {
    let mut transaction = db.begin().await?;
    act(&mut transaction, row).await?;
    let id = route_changes::record(&mut transaction, touched(), now()).await?;
    transaction.commit().await?;
    let (reply, answer) = oneshot::channel();
    commits.send((id, reply)).await.unwrap();
    answer.await.unwrap();
    Ok(())
}

/// Numbers what is committed, as admin does.
async fn number(db: PgPool, mut commits: mpsc::Receiver<Committed>) {
    let (mut waiting, mut round) = (HashMap::new(), Vec::new());
    // What is committed may get its number before anybody waits for it.
    let mut early = HashSet::new();
    while commits.recv_many(&mut round, 256).await > 0 {
        for (id, reply) in round.drain(..) {
            if early.remove(&id) {
                let _ = reply.send(());
            } else {
                waiting.insert(id, reply);
            }
        }
        for numbered in route_changes::number_pending(&db).await.unwrap() {
            match waiting.remove(&numbered.id) {
                Some(reply) => drop(reply.send(())),
                None => drop(early.insert(numbered.id)),
            }
        }
    }
}

/// Makes changes for [`ROUND`], and returns how many a second there were.
async fn a_second(change: impl AsyncFn(i32) -> sqlx::Result<()>) -> u64 {
    let (start, made) = (Instant::now(), AtomicU64::new(0));
    join_all((0..AT_ONCE).map(async |row| {
        while start.elapsed() < ROUND {
            change(row).await.unwrap();
            made.fetch_add(1, Ordering::Relaxed);
        }
    }))
    .await;
    made.into_inner() / ROUND.as_secs()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only changes`"]
#[expect(clippy::print_stdout, reason = "the rows of a table")]
async fn changes_a_second() {
    let database = BareDatabase::new().await;
    let settings = config::Postgres { max_connections: 20, ..config::Postgres::default() };
    let db = db::connect(&settings, database.url.as_str()).unwrap();
    sqlx::raw_sql("CREATE TABLE changed (id integer PRIMARY KEY, times bigint NOT NULL DEFAULT 0)")
        .execute(&db)
        .await
        .unwrap();
    sqlx::query("INSERT INTO changed SELECT generate_series(0, $1)").bind(AT_ONCE).execute(&db).await.unwrap();
    let (commits, committed) = mpsc::channel(1_024);
    let numbering = tokio::spawn(number(db.clone(), committed));
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        alone.push(a_second(async |row| change_alone(&db, row).await).await);
        together.push(a_second(async |row| change_together(&db, row, &commits).await).await);
    }
    drop(commits);
    numbering.await.unwrap();
    for figures in [&mut alone, &mut together] {
        figures.sort_unstable();
    }
    for (way, figures) in [("within each transaction", &alone), ("after it, together", &together)] {
        let (least, median, most) = (figures[0], figures[ROUNDS / 2], figures[ROUNDS - 1]);
        let tenths = 10 * median / alone[ROUNDS / 2].max(1);
        println!("| {way} | {least} | {median} | {most} | {}.{} |", tenths / 10, tenths % 10);
    }
    database.remove().await;
}
