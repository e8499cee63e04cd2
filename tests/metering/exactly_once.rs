//! Each completion is counted exactly once, while edges, Redis, admin and Postgres are killed and stopped.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use futures_util::future::join_all;

use super::*;

#[tokio::test]
async fn a_delivered_answer_is_counted_although_its_edge_is_killed() {
    let mut metered = Metered::start().await;
    // Postgres is away, so that only the journal has them.
    metered.ask(&Completion::of(1, 1)).await.assert_status(200);
    metered.rows_become(1, "NOT estimated").await;
    metered.world.stop_postgres().await;
    for (number, stream) in [(2, false), (3, true)] {
        metered.ask(&Completion { stream, ..Completion::of(number, 10) }).await.assert_status(200);
    }
    metered.world.edges[0].process.kill();
    assert!(files(&spool(&metered)) > 0);
    metered.world.start_postgres().await;
    metered.world.restart_edge(0).await;
    metered.rows_become(3, "NOT estimated AND completion_tokens IN (1, 10)").await;
    metered.assert_sums().await;
    // Redis has it too: nothing is reserved any more, and the dead edge's journal is deleted.
    let wanted = Completion::of(4, 1).at_most(10);
    let answer = metered.ask(&wanted).await.assert_status(200);
    let left: u64 = answer.header("x-ratelimit-remaining-tokens").parse().unwrap();
    assert_eq!(left, 1_000_000 - 27 - wanted.reserves());
    eventually(BACKGROUND, "one journal is left", async || files(&spool(&metered)) == 1).await;
}

#[tokio::test]
async fn a_stream_cut_by_its_edges_death_is_estimated_by_the_next_edge() {
    let mut metered = Metered::start().await;
    let wanted = Completion::of(10, 20).at_most(300).streamed().held();
    let under_way = begin(&metered, 0, &wanted).await;
    metered.world.edges[0].process.kill();
    assert!(!under_way.await.unwrap());
    metered.world.restart_edge(0).await;
    metered.rows_become(1, "estimated AND completion_tokens = 300 AND prompt_tokens > 0").await;
    assert_eq!(metered.rows("true").await, 1);
    metered.assert_sums().await;
    metered.ask(&Completion::of(1, 1)).await.assert_status(200);
    metered.rows_become(1, "NOT estimated").await;
}

#[tokio::test]
async fn admin_settles_for_a_lost_edge_and_a_later_journal_replaces_its_estimates() {
    let mut metered = Metered::start_with(|builder| builder.edges(2)).await;
    // One completion has ended but is not in Postgres, and one is open.
    metered.ask(&Completion::of(1, 1)).await.assert_status(200);
    metered.rows_become(1, "NOT estimated").await;
    let under_way = begin(&metered, 0, &Completion::of(10, 20).at_most(300).held()).await;
    metered.world.stop_postgres().await;
    metered.ask(&Completion::of(2, 7).at_most(200)).await.assert_status(200);
    eventually(BACKGROUND, "Redis is told", async || open_in_redis(&metered, "\"completion\":7,").await == Some(1))
        .await;
    metered.world.edges[0].process.kill();
    assert!(!under_way.await.unwrap());
    // The machine is lost, and its journal with it.
    let (here, away) = (spool(&metered), metered.world.folder().join("away"));
    std::fs::create_dir(&away).unwrap();
    let own = |path: &Path| std::fs::read_to_string(path).unwrap().contains("\"open\"");
    let journals: Vec<PathBuf> = files_in(&here).into_iter().filter(|path| own(path)).collect();
    assert_eq!(journals.len(), 1);
    let moved = away.join(journals[0].file_name().unwrap());
    std::fs::rename(&journals[0], &moved).unwrap();
    metered.world.start_postgres().await;

    metered.rows_become(1, "estimated AND completion_tokens = 300").await;
    // The usage of the other one had been reported to Redis.
    metered.rows_become(1, "NOT estimated AND prompt_tokens = 2 AND completion_tokens = 7").await;
    metered.assert_sums().await;
    // The machine is back: its journal is not counted again.
    std::fs::rename(&moved, &journals[0]).unwrap();
    eventually(BACKGROUND, "the journal is taken over", async || !journals[0].exists()).await;
    metered.ask_at(1, &metered.key, &Completion::of(4, 4)).await.assert_status(200);
    metered.rows_become(1, "prompt_tokens = 4").await;
    assert_eq!(metered.rows("true").await, 4);
    metered.assert_sums().await;
}

#[tokio::test]
async fn an_estimate_is_replaced_by_the_real_usage() {
    let mut metered = Metered::start_with(|builder| builder.edges(2)).await;
    metered.ask(&Completion::of(1, 1)).await.assert_status(200);
    metered.rows_become(1, "NOT estimated").await;
    metered.world.stop_postgres().await;
    metered.ask(&Completion::of(2, 7).at_most(200)).await.assert_status(200);
    metered.world.edges[0].process.kill();
    metered.world.start_postgres().await;
    metered.rows_become(1, "prompt_tokens = 2").await;
    // As if admin had settled it before the journal was taken over.
    metered
        .world
        .sql(
            "UPDATE ai_usage SET estimated = true, certainty = 0, completion_tokens = 200 WHERE prompt_tokens = 2;
             UPDATE ai_usage_days SET completion_tokens = completion_tokens + 193",
        )
        .await;
    let row =
        metered.world.sql_text("SELECT id || ' ' || account_id || ' ' || token_id FROM ai_usage WHERE estimated").await;
    let [id, account, token] = row.split(' ').collect::<Vec<_>>()[..] else { panic!("{row}") };
    let ended = json!({ "ended": {
        "id": id, "account": account, "token": token, "model": "svc/gpt-oss-20b", "provider": "ovhcloud",
        "prompt": 2, "completion": 7, "estimated": false, "cost": 2 * 10 + 7 * 40,
        "at": domain::Clock::system().now(),
    }});
    std::fs::write(spool(&metered).join("deadedge-00000000.usage"), format!("{ended}\n{ended}\n")).unwrap();
    metered.rows_become(0, "estimated").await;
    metered.rows_become(1, "prompt_tokens = 2 AND completion_tokens = 7").await;
    let days = metered.world.sql_number("SELECT sum(completion_tokens)::bigint FROM ai_usage_days").await;
    assert_eq!(days, 8);
}

#[tokio::test]
async fn a_clean_stop_writes_everything_to_postgres() {
    let mut metered = Metered::start().await;
    for number in 1..=20 {
        metered.ask(&Completion::of(number, 1)).await.assert_status(200);
    }
    metered.world.edges[0].process.stop();
    assert_eq!(metered.rows("NOT estimated").await, 20);
    assert_eq!(files(&spool(&metered)), 0, "a journal is left");
    metered.assert_sums().await;
}

#[tokio::test]
async fn postgres_away_for_a_while_loses_nothing() {
    let metered = Metered::start_with(|builder| builder.set("LIMITS__GATEWAY_PER_MIN", 10_000)).await;
    metered.ask(&Completion::of(1, 1)).await.assert_status(200);
    metered.world.stop_postgres().await;
    for number in 2..=60 {
        metered.ask(&Completion { stream: number % 2 == 0, ..Completion::of(number, number) }).await.assert_status(200);
    }
    metered.world.start_postgres().await;
    metered.rows_become(60, "NOT estimated AND prompt_tokens = greatest(1, completion_tokens)").await;
    metered.assert_sums().await;
}

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
    // What is left of the budget is exact to the token.
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

/// A Redis that saves once a second loses up to a second in a crash, and with it the ends of completions.
#[tokio::test]
async fn reservations_restored_by_redis_are_released() {
    let mut metered = Metered::start_with(|builder| without_limits(builder).lasting_redis()).await;
    metered.ask(&Completion::of(1, 1)).await.assert_status(200);
    metered.rows_become(1, "NOT estimated").await;
    // As the log was while this one was under way.
    let under_way = begin(&metered, 0, &Completion::of(10, 20).at_most(4_000).held()).await;
    let (log, earlier) = (metered.world.redis_folder().join("appendonlydir"), metered.world.folder().join("earlier"));
    let copy = |from: &Path, to: &Path| {
        let _ = std::fs::remove_dir_all(to);
        std::fs::create_dir(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    };
    let admissions = |file: std::fs::DirEntry| {
        String::from_utf8_lossy(&std::fs::read(file.path()).unwrap()).matches("HSETNX").count()
    };
    let logged = || std::fs::read_dir(&log).unwrap().map(|file| admissions(file.unwrap())).sum::<usize>();
    eventually(BACKGROUND, "the log has both admissions", async || logged() == 2).await;
    copy(&log, &earlier);
    metered.provider.release();
    assert!(under_way.await.unwrap());
    metered.rows_become(2, "NOT estimated").await;
    eventually(BACKGROUND, "nothing is open", async || open_in_redis(&metered, "").await == Some(0)).await;
    metered.world.redis.kill();
    copy(&earlier, &log);
    metered.world.restart_redis();
    eventually(BACKGROUND, "Redis is back", async || open_in_redis(&metered, "").await.is_some()).await;
    assert_eq!(open_in_redis(&metered, "").await, Some(1), "the ended completion is open again");
    eventually(BACKGROUND, "its reservation is released", async || open_in_redis(&metered, "").await == Some(0)).await;
    let wanted = Completion::of(1, 1).at_most(10);
    let answer = metered.ask(&wanted).await.assert_status(200);
    let left: u64 = answer.header("x-ratelimit-remaining-tokens").parse().unwrap();
    assert_eq!(left, UNLIMITED_TOKENS - 32 - wanted.reserves());
    metered.rows_become(3, "NOT estimated").await;
    metered.assert_sums().await;
}

const UNLIMITED_TOKENS: u64 = 1_000_000_000;

fn without_limits(builder: Builder) -> Builder {
    builder.set("LIMITS__GATEWAY_PER_MIN", 1_000_000).set("LIMITS__GATEWAY_TOKENS_PER_DAY", UNLIMITED_TOKENS)
}

/// How far the requests of [`under_load`] have come.
struct Load {
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

    fn is_done(&self) -> bool {
        self.served() >= self.wanted
    }

    /// Asks once, for what nobody has asked before: prompt tokens say which completion a row is of.
    async fn ask(&self, asker: &Asker) -> bool {
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        let wanted = Completion {
            stream: number.is_multiple_of(2),
            takes: Duration::from_millis(number % 5 * 40),
            ..Completion::of(number, number % 90)
        };
        let is_served = asker.is_served(&wanted).await;
        if is_served {
            self.served.lock().unwrap().push(number);
        } else {
            self.refused.fetch_add(1, Ordering::SeqCst);
        }
        is_served
    }

    /// Waits until some more were served.
    async fn is_under_way(&self) {
        let before = self.served();
        let goes_on = async || self.is_done() || self.served() >= before + 30;
        eventually(2 * BACKGROUND, "completions are served", goes_on).await;
    }

    /// Waits until some more were refused.
    async fn is_refused(&self) {
        let before = self.refused.load(Ordering::SeqCst);
        let is_felt = async || self.is_done() || self.refused.load(Ordering::SeqCst) >= before + 30;
        eventually(BACKGROUND, "completions are refused", is_felt).await;
    }
}

/// Asks without a break while `disturb` is called again and again, with the number of the call; then all that was served
/// is counted, once.
async fn under_load(mut metered: Metered, mut disturb: impl AsyncFnMut(&mut World, &Load, u32)) -> Metered {
    const FIRST: u64 = 1_000;
    let load = Load {
        wanted: std::env::var("SVC_TEST_KILLED_REQUESTS").map_or(300, |text| text.parse().unwrap()),
        next: AtomicU64::new(FIRST),
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

    let served = load.served.lock().unwrap().clone();
    let numbers = |served: &[u64]| served.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let exact =
        format!("NOT estimated AND completion_tokens = prompt_tokens % 90 AND prompt_tokens IN ({})", numbers(&served));
    metered.rows_become(served.len().try_into().unwrap(), &exact).await;
    // Completions that were open at a kill are settled soon.
    eventually(BACKGROUND, "nothing is open", async || {
        files(&spool(&metered)) <= 1 && open_in_redis(&metered, "").await == Some(0)
    })
    .await;
    let twice =
        "prompt_tokens IN (SELECT prompt_tokens FROM ai_usage WHERE NOT estimated GROUP BY 1 HAVING count(*) > 1)";
    assert_eq!(metered.rows(twice).await, 0, "a completion was counted twice");
    let rows = u64::try_from(metered.rows("true").await).unwrap();
    let (at_least, at_most) = (served.len() as u64, load.next.load(Ordering::SeqCst) - FIRST);
    assert!((at_least..=at_most).contains(&rows), "{rows} rows of {at_most} requests, {at_least} of them served");
    metered.assert_sums().await;
    metered
}
