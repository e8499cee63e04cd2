//! The scripts in Redis and the job that settles, spoken to directly: what no client can bring about at will.

use domain::{
    Account, Clock, CompletionId, Timestamp, TokenId, UserId,
    usage::{Base, DaySpent, Microcents, Spent, UsageRow},
};
use futures_util::future::join_all;
use live::{
    Redis,
    budgets::{Budget, Verdict},
};

use super::*;

const EDGE: &str = "edge";
const BUDGET: Budget = Budget { per_minute: 1_000, per_day: 1_000, per_month: 1_000_000 };

fn spent(version: i64, day_tokens: u64) -> Spent {
    Spent { version, day_tokens, month_cost: Microcents(day_tokens) }
}

/// The same, as it is given to a Redis that does not know.
fn base(version: i64, day_tokens: u64) -> Base {
    Base { version, day_tokens, month_cost: Microcents(day_tokens), last_minute: Vec::new() }
}

struct Accountant {
    world: World,
    redis: Redis,
    account: Account,
    now: Timestamp,
}

impl Accountant {
    async fn start() -> Self {
        Self::start_with(World::builder()).await
    }

    async fn start_with(builder: Builder) -> Self {
        let world = builder.start().await;
        let redis = Redis::connect(&format!("redis://127.0.0.1:{}", world.redis_port)).unwrap();
        let now = Clock::system().now();
        Self { world, redis, account: UserId::new(now).into(), now }
    }

    fn row(&self, at: Timestamp, prompt: u64, completion: u64) -> UsageRow {
        UsageRow {
            id: CompletionId::new(at),
            account: self.account.clone(),
            token: TokenId::new(at),
            model: "svc/a".into(),
            provider: "b".into(),
            prompt,
            completion,
            estimated: true,
            cost: Microcents(prompt + completion),
            at,
        }
    }

    async fn admit(&self, row: &UsageRow, base: Option<Base>) -> Verdict {
        self.redis.admit(EDGE, row, BUDGET, base).await.unwrap()
    }

    async fn admit_new(&self, tokens: u64) -> (UsageRow, Verdict) {
        let row = self.row(self.now, 0, tokens);
        let verdict = self.admit(&row, None).await;
        (row, verdict)
    }

    async fn confirm(&self, row: &UsageRow, spent: Spent) {
        let spent = DaySpent { account: row.account.clone(), day: row.day(), spent };
        self.redis.confirm(&spent, &[&row.id]).await.unwrap();
    }

    /// Tokens of the day, as the next admission sees them.
    async fn tokens(&self) -> u64 {
        let (row, verdict) = self.admit_new(0).await;
        self.redis.release(&row.account, &[&row.id]).await.unwrap();
        let Verdict::Admitted(used) = verdict else { panic!("{verdict:?}") };
        used.tokens
    }
}

#[tokio::test]
async fn racing_reservations_never_overrun_and_totals_replace_them() {
    let books = Accountant::start().await;
    let row = books.row(books.now, 0, 1);
    assert_eq!(books.admit(&row, None).await, Verdict::Unknown);
    assert!(matches!(books.admit(&row, Some(base(3, 100))).await, Verdict::Admitted(_)));
    assert!(matches!(books.admit(&row, None).await, Verdict::Admitted(_)), "asked twice");
    assert_eq!(books.tokens().await, 101, "and counted once");
    books.redis.release(&books.account, &[&row.id]).await.unwrap();

    let verdicts = join_all((0..100).map(|_| books.admit_new(90))).await;
    let admitted: Vec<_> = verdicts.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Admitted(_))).collect();
    assert_eq!(admitted.len(), 10, "900 were left");
    assert_eq!(books.tokens().await, 1_000);

    // One used 10 of its 90, and Postgres has it: 110 in all, as of version 4.
    let used = UsageRow { completion: 10, estimated: false, ..admitted[0].0.clone() };
    books.redis.revalue(EDGE, &books.account, &[&used]).await.unwrap();
    books.redis.revalue(EDGE, &books.account, &[&used]).await.unwrap();
    assert_eq!(books.tokens().await, 920);
    for _ in 0..2 {
        books.confirm(&used, spent(4, 110)).await;
        assert_eq!(books.tokens().await, 920);
    }
    // A total that is late is older than what is there.
    books.confirm(&used, spent(3, 100)).await;
    assert_eq!(books.tokens().await, 920);
}

#[tokio::test]
async fn what_redis_forgot_is_built_again_and_never_from_what_is_too_old() {
    let books = Accountant::start().await;
    let row = books.row(books.now, 0, 50);
    books.admit(&row, Some(base(1, 100))).await;
    books.world.redis_command("FLUSHALL").await;

    // The edge tells of it before anybody asks; whoever asks then counts it.
    books.redis.revalue(EDGE, &books.account, &[&row]).await.unwrap();
    let (other, verdict) = books.admit_new(1).await;
    assert_eq!(verdict, Verdict::Unknown);
    assert!(matches!(books.admit(&other, Some(base(1, 100))).await, Verdict::Admitted(used) if used.tokens == 151));

    // Sums that were read before a row was written arrive after it was confirmed.
    books.world.redis_command("FLUSHALL").await;
    books.redis.revalue(EDGE, &books.account, &[&row]).await.unwrap();
    books.confirm(&row, spent(2, 150)).await;
    let (late, _) = books.admit_new(1).await;
    assert_eq!(books.admit(&late, Some(base(1, 100))).await, Verdict::Unknown);
    assert!(matches!(books.admit(&late, Some(base(2, 150))).await, Verdict::Admitted(used) if used.tokens == 151));
}

#[tokio::test]
async fn a_new_day_begins_with_nothing_and_a_late_end_counts_for_the_day_before() {
    let books = Accountant::start().await;
    let today = books.row(books.now, 0, 900);
    books.admit(&today, Some(base(1, 50))).await;
    let tomorrow = books.row(books.now + Duration::from_hours(24), 0, 600);
    assert!(matches!(books.admit(&tomorrow, None).await, Verdict::Admitted(used) if used.tokens == 600));
    books.confirm(&today, spent(2, 950)).await;
    let another = books.row(books.now + Duration::from_hours(24), 0, 300);
    assert!(matches!(books.admit(&another, None).await, Verdict::Admitted(used) if used.tokens == 900));
    let too_much = books.row(books.now + Duration::from_hours(24), 0, 101);
    assert!(matches!(books.admit(&too_much, None).await, Verdict::Day(_)));
}

#[tokio::test]
async fn what_a_dead_edge_left_is_settled_once_and_marked() {
    let books = Accountant::start().await;
    let row = books.row(books.now, 3, 400);
    books.redis.renew_lease(EDGE).await.unwrap();
    books.admit(&row, Some(base(0, 0))).await;
    let filter = format!("id = '{}'", row.id);
    let rows = async || books.world.sql_number(&format!("SELECT count(*) FROM ai_usage WHERE {filter}")).await;
    for _ in 0..8 {
        books.redis.renew_lease(EDGE).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(rows().await, 0, "its edge lives");
    eventually(BACKGROUND, "it is settled", async || rows().await == 1).await;
    let marked = format!("SELECT count(*) FROM ai_usage WHERE {filter} AND estimated AND prompt_tokens = 3");
    assert_eq!(books.world.sql_number(&marked).await, 1);
    eventually(BACKGROUND, "Redis knows", async || books.redis.open_of(&books.account).await.unwrap().is_empty()).await;
    assert_eq!(books.tokens().await, 403);
}

#[tokio::test]
async fn the_last_minute_is_rebuilt_and_each_completion_counts_once() {
    let books = Accountant::start().await;
    let ago = |seconds| books.row(books.now - Duration::from_secs(seconds), 0, 1);
    // Postgres has two of the last minute, and Redis is told of one of them again; one is under way, and so is one that is
    // older than a minute.
    let (written, both, under_way, old) = (ago(20), ago(10), ago(30), ago(61));
    for row in [&both, &under_way, &old] {
        books.redis.revalue(EDGE, &books.account, &[row]).await.unwrap();
    }
    // Redis remembers as many, but they are no longer of this minute.
    let (minute, old) = (format!("svc:ai:{{{}}}:minute", books.account), books.now - Duration::from_secs(62));
    let old = old.unix_millis().to_string();
    assert_eq!(books.world.redis_number("RPUSH", &[&minute, &old, &old, &old, &old]).await, Some(4));
    let last_minute = vec![written.id.clone(), both.id.clone()];
    let (new, verdict) = books.admit_new(1).await;
    assert_eq!(verdict, Verdict::Unknown);
    let Verdict::Admitted(used) = books.admit(&new, Some(Base { last_minute, ..base(1, 2) })).await else { panic!() };
    assert_eq!(used.requests, 4, "three, and the new one");
    let frees = used.frees_in.as_secs();
    assert!((25..=30).contains(&frees), "the oldest of them came 30 s ago: {frees} s");
}

#[tokio::test]
async fn a_redis_that_is_back_with_what_it_had_saved_is_not_believed() {
    let mut books = Accountant::start_with(World::builder().lasting_redis()).await;
    let (kept, lost) = (books.row(books.now, 0, 100), books.row(books.now, 0, 50));
    books.admit(&kept, Some(base(1, 100))).await;
    assert_eq!(books.tokens().await, 200);
    books.world.redis.stop();
    books.world.restart_redis();
    eventually(BACKGROUND, "Redis is back", async || books.redis.ping().await.is_ok()).await;
    let entries = books.redis.open_of(&books.account).await.unwrap();
    assert_eq!(entries.len(), 1, "it has saved what was open");
    // Its sums may be older than what it had said before.
    let (new, verdict) = books.admit_new(1).await;
    assert_eq!(verdict, Verdict::Unknown);
    books.redis.revalue(EDGE, &books.account, &[&lost]).await.unwrap();
    assert!(matches!(books.admit(&new, Some(base(2, 300))).await, Verdict::Admitted(used) if used.tokens == 451));
}
