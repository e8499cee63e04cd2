//! Programs are killed and restarted again and again while completions are asked for without a break.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use futures_util::future::join_all;
use sqlx::{Connection as _, PgConnection};

use super::{
    served::{Received, UNLIMITED_TOKENS, completions, numbered, without_limits},
    *,
};

/// Every answer that was delivered completely is counted exactly, once; every other one is counted at most once.
#[tokio::test]
async fn edge_redis_and_admin_are_killed_in_turn_under_load() {
    let metered = Metered::start_with(without_limits).await;
    under_load(metered, async |world, load, kills| match kills % 3 {
        0 => {
            world.edges[0].process.kill();
            world.restart_edge(0).await;
        }
        1 => {
            world.redis.kill();
            load.is_refused().await;
            world.restart_redis();
        }
        _ => world.restart_admin_later().await,
    })
    .await;
}

/// Redis as `make up` starts it. It restarts from what it had saved; after a kill that includes completions whose end it
/// has lost.
#[tokio::test]
async fn a_persistent_redis_is_stopped_and_killed_under_load() {
    let metered = Metered::start_with(|builder| without_limits(builder).lasting_redis()).await;
    let metered = under_load(metered, async |world, load, kills| {
        if kills % 2 == 0 {
            assert!(world.redis.stop().success());
        } else {
            world.redis.kill();
        }
        load.is_refused().await;
        world.restart_redis();
    })
    .await;
    assert_budget(&metered).await;
}

#[tokio::test]
async fn redis_is_flushed_under_load() {
    let metered = Metered::start_with(without_limits).await;
    under_load(metered, async |world, _, _| world.redis_command("FLUSHALL").await).await;
}

/// The node of a cluster that has the account's keys, whose copy lacks the last moment when it takes its place.
#[tokio::test]
async fn nodes_of_redis_give_way_to_their_copies_under_load() {
    let metered = Metered::start_with(|builder| without_limits(builder).redis_cluster_with_copies()).await;
    let account = metered.world.sql_text("SELECT id FROM users WHERE vcs_login = 'ada'").await;
    under_load(metered, async |world, _, _| {
        let node = world.redis_node_of(&account).await;
        world.restart_redis_node(node).await;
        let is_followed = async || {
            let follower = world.redis_node_of(&account).await;
            follower != node && world.is_redis_node_copied(follower).await
        };
        eventually(BACKGROUND, "its copy has taken its place, and has one", is_followed).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edge_is_restarted_as_planned_under_load() {
    let metered = Metered::start_with(without_limits).await;
    under_load(metered, async |world, _, _| {
        let status = tokio::task::block_in_place(|| world.edges[0].process.stop());
        assert!(status.success(), "{status}");
        world.restart_edge(0).await;
    })
    .await;
}

#[tokio::test]
async fn postgres_is_away_and_back_under_load() {
    let metered = Metered::start_with(without_limits).await;
    under_load(metered, async |world, load, _| {
        world.stop_postgres().await;
        load.is_under_way().await;
        world.start_postgres().await;
    })
    .await;
}

/// More completions end while Postgres takes some: there is always one to be written.
#[tokio::test]
async fn completions_are_confirmed_to_redis_while_others_end() {
    let metered = Metered::start_with(without_limits).await;
    let mut connection = PgConnection::connect(metered.world.database.as_str()).await.unwrap();
    let slow = "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN PERFORM pg_sleep(0.3); RETURN NULL; END $$;
                CREATE TRIGGER wait AFTER INSERT ON ai_usage_days FOR EACH STATEMENT EXECUTE FUNCTION wait()";
    sqlx::raw_sql(slow).execute(&mut connection).await.unwrap();
    let redis = Redis::connect(&format!("redis://127.0.0.1:{}", metered.world.redis_port)).unwrap();
    let mut confirmed = 0;
    under_load(metered, async |_, load, _| {
        let ended = load.served();
        let left = open_at(&redis).await.len();
        if !load.is_done() {
            confirmed = confirmed.max(ended.saturating_sub(left));
        }
    })
    .await;
    assert!(confirmed > 50, "only {confirmed} before the last had ended");
}

/// How far the requests of [`under_load`] have come.
pub(super) struct Load {
    wanted: usize,
    /// The number of the next request.
    next: AtomicU64,
    /// Numbers of the requests that were served.
    served: Mutex<Vec<u64>>,
    refused: AtomicU64,
}

impl Load {
    fn served(&self) -> usize {
        self.served.lock().unwrap().len()
    }

    pub(super) fn is_done(&self) -> bool {
        self.served() >= self.wanted
    }

    /// Asks once, for what nobody has asked before: prompt tokens say which completion a row is of.
    async fn ask(&self, asker: &Asker) -> bool {
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        let is_served = asker.is_served(&wanted(number)).await;
        if is_served {
            self.served.lock().unwrap().push(number);
        } else {
            self.refused.fetch_add(1, Ordering::SeqCst);
        }
        is_served
    }

    /// Waits until some more were served.
    pub(super) async fn is_under_way(&self) {
        let before = self.served();
        let goes_on = async || self.is_done() || self.served() >= before + 30;
        eventually(2 * BACKGROUND, "completions are served", goes_on).await;
    }

    /// Waits until some more were asked for, whether they are served or not.
    pub(super) async fn goes_on(&self) {
        let asked = || self.next.load(Ordering::SeqCst);
        let before = asked();
        eventually(BACKGROUND, "completions are asked for", async || self.is_done() || asked() >= before + 4).await;
    }

    /// Waits until some more were refused.
    pub(super) async fn is_refused(&self) {
        let before = self.refused.load(Ordering::SeqCst);
        let is_felt = async || self.is_done() || self.refused.load(Ordering::SeqCst) >= before + 30;
        eventually(BACKGROUND, "completions are refused", is_felt).await;
    }
}

/// What the request of this number asks for.
fn wanted(number: u64) -> Completion {
    Completion { takes: Duration::from_millis(number % 5 * 40), ..numbered(number) }
}

/// Asks without a break while `disturb` is called again and again, with the number of the call; then all that was served
/// is counted, once.
pub(super) async fn under_load(mut metered: Metered, mut disturb: impl AsyncFnMut(&mut World, &Load, u32)) -> Metered {
    let load = Load {
        wanted: usize::try_from(completions(300)).unwrap(),
        next: AtomicU64::new(0),
        served: Mutex::default(),
        refused: AtomicU64::new(0),
    };
    let askers: Vec<_> = (0..8).map(|_| metered.asker(0)).collect();
    let asking = join_all(askers.iter().map(async |asker| {
        while !load.is_done() {
            let is_served = async || load.is_done() || load.ask(asker).await;
            eventually(2 * BACKGROUND, "an asker is served", is_served).await;
        }
    }));
    let killing = async {
        let mut kills = 0;
        while !load.is_done() {
            load.is_under_way().await;
            disturb(&mut metered.world, &load, kills).await;
            kills += 1;
        }
        assert!(kills >= 3, "only {kills} kills");
    };
    tokio::join!(asking, killing);

    let mut received = Received::default();
    received.extend(load.served.lock().unwrap().iter().copied().map(wanted));
    metered.assert_ledger(&received, 0).await;
    metered
}

/// Waits until what is left of the budget is exact to the token.
pub(super) async fn assert_budget(metered: &Metered) {
    let limit = UNLIMITED_TOKENS;
    let used = "SELECT sum(prompt_tokens + completion_tokens)::bigint FROM ai_usage";
    eventually(BACKGROUND, "the budget is right", async || {
        let used = u64::try_from(metered.world.sql_number(used).await).unwrap();
        let wanted = Completion::of(1, 1).at_most(10);
        let answer = metered.ask(&wanted).await.assert_status(200);
        let left: u64 = answer.header("x-ratelimit-remaining-tokens").parse().unwrap();
        let reserved = wanted.reserves();
        // Those that were asked just before may not be in Postgres yet.
        (limit - used - reserved - 40..=limit - used - reserved).contains(&left)
    })
    .await;
}
