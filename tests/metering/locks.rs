//! Locks in Postgres whose holder has stopped: they hold up what they must, and nothing else.

use sqlx::{Connection as _, PgConnection};

use super::{
    served::{completions, numbered, without_limits},
    *,
};
use crate::world::Site;

/// Somebody in the middle of a transaction, of whom nothing more is heard: a machine that lost its power, or a stopped
/// process.
struct SleepingWriter(PgConnection);

impl SleepingWriter {
    /// It has begun to write usage of `account`.
    async fn of(world: &World, account: &str) -> Self {
        let mut connection = PgConnection::connect(world.database.as_str()).await.unwrap();
        sqlx::query("BEGIN").execute(&mut connection).await.unwrap();
        let writes = sqlx::query(
            "INSERT INTO ai_usage_versions (account_id, version) VALUES ($1, 1)
             ON CONFLICT (account_id) DO UPDATE SET version = ai_usage_versions.version + 1",
        );
        writes.bind(account).execute(&mut connection).await.unwrap();
        Self(connection)
    }

    /// It is noticed at last.
    async fn ends(self) {
        self.0.close().await.unwrap();
    }
}

async fn account_of(world: &World, login: &str) -> String {
    world.sql_text(&format!("SELECT id FROM users WHERE vcs_login = '{login}'")).await
}

/// Backends of our programs that wait for a lock.
pub(super) async fn waiting(world: &World) -> i64 {
    let filter = "datname = current_database() AND wait_event_type = 'Lock'";
    world.sql_number(&format!("SELECT count(*) FROM pg_stat_activity WHERE {filter}")).await
}

#[tokio::test]
async fn a_writer_that_sleeps_holds_up_its_own_account_only() {
    // One account is known already, the other's first row is written now.
    let (metered, mut received) = Metered::after_one(without_limits).await;
    let bobs = new_key(&metered.world.user("bob").await).await;
    let site = metered.ada.publish("engine", &Site::page("cold")).await;
    let ada = account_of(&metered.world, "ada").await;
    let sleeper = SleepingWriter::of(&metered.world, &ada).await;

    let count = completions(5);
    received.extend(metered.serve_all(0, (0..count).map(numbered)).await);
    let bobs = Asker { key: bobs, ..metered.asker(0) };
    let of_bob = bobs.serve((count..2 * count).map(numbered)).await;
    assert_eq!(of_bob.len() as u64, count);
    received.extend(of_bob);
    let bob = account_of(&metered.world, "bob").await;
    metered.rows_become(count.try_into().unwrap(), &format!("account_id = '{bob}'")).await;
    assert_eq!(metered.rows(&format!("account_id = '{ada}'")).await, 1, "the sleeper has the lock");
    assert!(waiting(&metered.world).await <= 1);
    metered.world.edge().get(&site.url).await.assert_body(200, "cold");

    sleeper.ends().await;
    metered.assert_ledger(&received, 0).await;
}

#[tokio::test]
async fn the_first_row_of_an_account_waits_for_nobody_for_long() {
    let metered = Metered::start().await;
    let bobs = new_key(&metered.world.user("bob").await).await;
    let sleeper = SleepingWriter::of(&metered.world, &account_of(&metered.world, "ada").await).await;
    metered.ask(&Completion::of(1, 2)).await.assert_status(200);
    metered.ask_at(0, &bobs, &Completion::of(2, 3)).await.assert_status(200);
    metered.rows_become(1, "completion_tokens = 3").await;
    assert_eq!(metered.rows("completion_tokens = 2").await, 0);
    sleeper.ends().await;
    metered.rows_become(1, "completion_tokens = 2").await;
    metered.assert_sums().await;
}

#[tokio::test]
async fn a_row_that_postgres_refuses_holds_up_no_other() {
    let metered = Metered::start().await;
    let refuse = "ALTER TABLE ai_usage ADD CONSTRAINT refused CHECK (prompt_tokens <> 13)";
    metered.world.sql(refuse).await;
    let asks = (10..20).map(async |number| {
        metered.ask(&Completion::of(number, 2)).await.assert_status(200);
    });
    futures_util::future::join_all(asks).await;
    metered.rows_become(9, "completion_tokens = 2").await;
    metered.world.sql("ALTER TABLE ai_usage DROP CONSTRAINT refused").await;
    metered.rows_become(1, "prompt_tokens = 13").await;
    metered.assert_sums().await;
}
