//! The budget scripts in Redis and admin's settling job, called directly for cases that no client can bring about.

use std::collections::BTreeSet;

use domain::{
    Account, Clock, CompletionId, Timestamp, TokenId, UserId,
    usage::{AccountUsage, DayUsage, KeyCost, Microcents, StoredUsage, UsageCertainty, UsageDetails, UsageRow},
};
use futures_util::future::join_all;
use live::{
    Redis,
    budgets::{AccountLimits, AdmissionVerdict, ReleaseOutcome},
};

use super::*;

pub(super) const EDGE: &str = "edge";
pub(super) const BUDGET: AccountLimits =
    AccountLimits { per_minute: 1_000, per_day: 1_000, per_month: 1_000_000, account_limit: None, key_limit: None };

pub(super) fn spent(version: i64, day_tokens: u64) -> AccountUsage {
    AccountUsage { version, day_tokens, month_cost: Microcents(day_tokens) }
}

/// The totals for a Redis that does not have them.
pub(super) fn base(version: i64, day_tokens: u64) -> StoredUsage {
    let day = Clock::system().now().as_datetime().date();
    StoredUsage {
        day,
        version,
        day_tokens,
        month_cost: Microcents(day_tokens),
        key_cost: None,
        last_minute: Vec::new(),
    }
}

/// The reservation of a completion that can use so many tokens, each of which costs one microcent.
pub(super) fn reserved(account: &Account, at: Timestamp, prompt: u64, completion: u64) -> UsageRow {
    UsageRow {
        id: CompletionId::new(at),
        account: account.clone(),
        token: TokenId::new(at),
        model: "svc/a".into(),
        provider: "b".into(),
        prompt,
        completion,
        certainty: UsageCertainty::Reserved,
        cost: Microcents(prompt + completion),
        likely: None,
        details: UsageDetails::default(),
        at,
    }
}

pub(super) struct Budgets {
    pub(super) world: World,
    pub(super) redis: Redis,
    pub(super) account: Account,
    pub(super) now: Timestamp,
}

impl Budgets {
    pub(super) async fn start() -> Self {
        Self::start_with(World::builder()).await
    }

    async fn start_with(builder: Builder) -> Self {
        let world = builder.start().await;
        let redis = Redis::connect(&format!("redis://127.0.0.1:{}", world.redis_port)).unwrap();
        let now = Clock::system().now();
        Self { world, redis, account: UserId::new(now).into(), now }
    }

    pub(super) fn row(&self, at: Timestamp, prompt: u64, completion: u64) -> UsageRow {
        reserved(&self.account, at, prompt, completion)
    }

    pub(super) async fn admit(&self, row: &UsageRow, base: Option<StoredUsage>) -> AdmissionVerdict {
        self.redis.admit(EDGE, row, &[], BUDGET, base).await.unwrap().verdict
    }

    pub(super) async fn release(&self, row: &UsageRow) -> ReleaseOutcome {
        let released = self.redis.release(&row.account, &[row]).await.unwrap();
        assert_eq!(released[0].0, row);
        released[0].1
    }

    pub(super) async fn admit_new(&self, tokens: u64) -> (UsageRow, AdmissionVerdict) {
        let row = self.row(self.now, 0, tokens);
        let verdict = self.admit(&row, None).await;
        (row, verdict)
    }

    async fn confirm(&self, row: &UsageRow, spent: AccountUsage) {
        self.confirm_key(row, spent, 0).await;
    }

    /// Confirms a row, with what its key has cost in the month.
    pub(super) async fn confirm_key(&self, row: &UsageRow, spent: AccountUsage, key_cost: u64) {
        let keys = vec![KeyCost { token: row.token.clone(), month_cost: Microcents(key_cost) }];
        let spent = DayUsage { account: row.account.clone(), day: row.day(), spent, keys };
        self.redis.confirm(&spent, &[&row.id]).await.unwrap();
    }

    /// Waits until admin has looked for what dead edges left so many times more.
    async fn sweeps(&self, times: usize, meanwhile: impl AsyncFn()) {
        let runs = "SELECT extract(epoch FROM last_run_at)::bigint FROM job_leases \
                    WHERE job = 'settle what dead edges left open' AND last_run_at IS NOT NULL";
        let mut seen = BTreeSet::new();
        eventually(BACKGROUND, "the job has run", async || {
            meanwhile().await;
            seen.insert(self.world.sql_number(runs).await);
            seen.len() > times
        })
        .await;
    }

    /// The tokens of the day, as the next admission sees them.
    async fn tokens(&self) -> u64 {
        let (row, verdict) = self.admit_new(0).await;
        self.release(&row).await;
        let AdmissionVerdict::Admitted(used) = verdict else { panic!("{verdict:?}") };
        used.tokens
    }
}

#[tokio::test]
async fn racing_reservations_never_overrun_and_totals_replace_them() {
    let budgets = Budgets::start().await;
    let row = budgets.row(budgets.now, 0, 1);
    assert_eq!(budgets.admit(&row, None).await, AdmissionVerdict::Unknown);
    assert!(matches!(budgets.admit(&row, Some(base(3, 100))).await, AdmissionVerdict::Admitted(_)));
    assert!(matches!(budgets.admit(&row, None).await, AdmissionVerdict::Admitted(_)), "the script is repeatable");
    assert_eq!(budgets.tokens().await, 101, "and counts once");
    budgets.release(&row).await;

    let verdicts = join_all((0..100).map(|_| budgets.admit_new(90))).await;
    let admitted: Vec<_> =
        verdicts.iter().filter(|(_, verdict)| matches!(verdict, AdmissionVerdict::Admitted(_))).collect();
    assert_eq!(admitted.len(), 10, "900 were left");
    assert_eq!(budgets.tokens().await, 1_000);

    // One has used 10 of its 90, and Postgres has it: 110 in all, as of version 4.
    let used = UsageRow { completion: 10, certainty: UsageCertainty::Reported, ..admitted[0].0.clone() };
    budgets.redis.revalue(EDGE, &budgets.account, &[&used]).await.unwrap();
    budgets.redis.revalue(EDGE, &budgets.account, &[&used]).await.unwrap();
    assert_eq!(budgets.tokens().await, 920);
    for _ in 0..2 {
        budgets.confirm(&used, spent(4, 110)).await;
        assert_eq!(budgets.tokens().await, 920);
    }
    // An outdated total is ignored.
    budgets.confirm(&used, spent(3, 100)).await;
    assert_eq!(budgets.tokens().await, 920);
    // A report that was on its way for longer than its sender waited opens nothing again.
    budgets.redis.revalue(EDGE, &budgets.account, &[&used]).await.unwrap();
    assert_eq!(budgets.tokens().await, 920);
    assert_eq!(budgets.redis.open_completions(&budgets.account).await.unwrap().len(), 9);
}

#[tokio::test]
async fn lost_totals_are_rebuilt_and_never_from_outdated_reads() {
    let budgets = Budgets::start().await;
    let row = budgets.row(budgets.now, 0, 50);
    budgets.admit(&row, Some(base(1, 100))).await;
    budgets.world.redis_command("FLUSHALL").await;

    // The edge reports its open completion before the next admission, which counts it.
    budgets.redis.restore(EDGE, &budgets.account, &[&row]).await.unwrap();
    let (other, verdict) = budgets.admit_new(1).await;
    assert_eq!(verdict, AdmissionVerdict::Unknown);
    assert!(
        matches!(budgets.admit(&other, Some(base(1, 100))).await, AdmissionVerdict::Admitted(used) if used.tokens == 151)
    );

    // Totals that were read before a row was written arrive after the row was confirmed.
    budgets.world.redis_command("FLUSHALL").await;
    budgets.redis.restore(EDGE, &budgets.account, &[&row]).await.unwrap();
    budgets.confirm(&row, spent(2, 150)).await;
    let (late, _) = budgets.admit_new(1).await;
    assert_eq!(budgets.admit(&late, Some(base(1, 100))).await, AdmissionVerdict::Unknown);
    assert!(
        matches!(budgets.admit(&late, Some(base(2, 150))).await, AdmissionVerdict::Admitted(used) if used.tokens == 151)
    );
}

#[tokio::test]
async fn a_new_day_starts_at_zero_and_a_late_end_counts_for_the_day_before() {
    let budgets = Budgets::start().await;
    let row = budgets.row(budgets.now, 0, 900);
    budgets.admit(&row, Some(base(1, 50))).await;
    // As if that had been yesterday.
    let row = UsageRow { at: budgets.now - Duration::from_hours(24), ..row };
    let (spent_key, yesterday) = (format!("svc:ai:{{{}}}:spent", budgets.account), row.day());
    let month = yesterday.year() * 100 + i32::from(u8::from(yesterday.month()));
    let (day, month) = ((month * 100 + i32::from(yesterday.day())).to_string(), month.to_string());
    budgets.world.redis_number("HSET", &[&spent_key, "d", &day, "m", &month]).await.unwrap();
    budgets.redis.revalue(EDGE, &budgets.account, &[&row]).await.unwrap();

    assert!(matches!(budgets.admit_new(600).await.1, AdmissionVerdict::Admitted(used) if used.tokens == 600));
    budgets.confirm(&row, spent(2, 950)).await;
    assert!(matches!(budgets.admit_new(300).await.1, AdmissionVerdict::Admitted(used) if used.tokens == 900));
    assert!(matches!(budgets.admit_new(101).await.1, AdmissionVerdict::Day(_)));
}

#[tokio::test]
async fn the_clocks_of_the_edges_decide_neither_day_nor_month() {
    let budgets = Budgets::start().await;
    let today = budgets.row(budgets.now, 0, 0).day();
    // An edge that is a month ahead ends nobody's day, and begins none of its own.
    let ahead = budgets.row(budgets.now + Duration::from_hours(24 * 31), 0, 1);
    assert!(
        matches!(budgets.admit(&ahead, Some(base(1, 100))).await, AdmissionVerdict::Admitted(used) if used.tokens == 101)
    );
    for (at, tokens, sum) in [(budgets.now, 600, 701), (budgets.now - Duration::from_hours(24 * 31), 200, 901)] {
        let row = budgets.row(at, 0, tokens);
        assert!(matches!(budgets.admit(&row, None).await, AdmissionVerdict::Admitted(used) if used.tokens == sum));
    }
    for at in [budgets.now, ahead.at, budgets.now - Duration::from_hours(24)] {
        assert!(matches!(budgets.admit(&budgets.row(at, 0, 100), None).await, AdmissionVerdict::Day(_)));
    }
    let open = budgets.redis.open_completions(&budgets.account).await.unwrap();
    assert_eq!(open.iter().map(|open| open.row.day()).collect::<Vec<_>>(), [today; 3], "they are charged to today");
    // Nor does Postgres's word of another day.
    budgets.world.redis_command("FLUSHALL").await;
    let of_tomorrow = StoredUsage { day: today.next_day().unwrap(), ..base(2, 0) };
    assert_eq!(budgets.admit(&ahead, Some(of_tomorrow)).await, AdmissionVerdict::Unknown);
}

#[tokio::test]
async fn a_redis_whose_clock_went_back_reads_its_sums_again() {
    let budgets = Budgets::start().await;
    let row = budgets.row(budgets.now, 0, 100);
    budgets.admit(&row, Some(base(1, 100))).await;
    let key = |name: &str| format!("svc:ai:{{{}}}:{name}", budgets.account);
    // As if it had been two days ahead until now.
    let ahead = (budgets.now + Duration::from_hours(48)).as_datetime();
    let month = ahead.year() * 100 + i32::from(u8::from(ahead.month()));
    let (day, month) = ((month * 100 + i32::from(ahead.day())).to_string(), month.to_string());
    budgets.world.redis_number("HSET", &[&key("spent"), "d", &day, "m", &month]).await.unwrap();
    let later = (budgets.now + Duration::from_hours(48)).unix_millis().to_string();
    budgets.world.redis_number("LPUSH", &[&key("minute"), &later]).await.unwrap();
    let (new, verdict) = budgets.admit_new(1).await;
    assert_eq!(verdict, AdmissionVerdict::Unknown);
    let AdmissionVerdict::Admitted(used) = budgets.admit(&new, Some(base(1, 100))).await else { panic!() };
    assert_eq!((used.tokens, used.requests), (201, 2));
}

#[tokio::test]
async fn what_a_clock_that_went_back_admitted_counts_for_a_minute_from_now() {
    let budgets = Budgets::start().await;
    budgets.admit(&budgets.row(budgets.now, 0, 1), Some(base(1, 0))).await;
    let minute = format!("svc:ai:{{{}}}:minute", budgets.account);
    let newest = async || budgets.world.redis_number("LINDEX", &[&minute, "0"]).await.unwrap();
    let admitted = newest().await;
    // As if Redis's clock had been half a minute ahead then.
    let ahead = (admitted + 30_000).to_string();
    budgets
        .world
        .redis_number("EVAL", &["redis.call('LSET', KEYS[1], 0, ARGV[1]) return 1", "1", &minute, &ahead])
        .await;
    let refused = budgets.row(budgets.now, 0, 100_000);
    assert!(matches!(budgets.admit(&refused, None).await, AdmissionVerdict::Day(used) if used.requests == 1));
    let counted = newest().await;
    assert!(counted >= admitted, "{counted} is before {admitted}");
    let now = i64::try_from(budgets.redis.epoch().await.unwrap().now.unix_millis()).unwrap();
    assert!(counted <= now, "{counted} is after {now}");
}

#[tokio::test]
async fn all_of_redis_is_looked_at_only_when_an_edge_is_gone() {
    let mut budgets = Budgets::start().await;
    budgets.sweeps(2, async || {}).await;
    let before = budgets.world.redis_calls("scan").await;
    budgets.sweeps(3, async || {}).await;
    assert_eq!(budgets.world.redis_calls("scan").await, before, "every edge lives");
    budgets.world.edges[0].process.kill();
    eventually(BACKGROUND, "it is looked at", async || budgets.world.redis_calls("scan").await > before).await;
    let known = async || budgets.world.redis_number("SCARD", &["svc:ai:edges"]).await;
    eventually(BACKGROUND, "the edge had nothing open, and is forgotten", async || known().await == Some(0)).await;
}

#[tokio::test]
async fn a_claimed_reservation_is_not_released_before_it_is_settled() {
    let budgets = Budgets::start().await;
    let (row, other) = (budgets.row(budgets.now, 0, 100), budgets.row(budgets.now, 0, 50));
    budgets.admit(&row, Some(base(1, 100))).await;
    budgets.admit(&other, None).await;
    let claimed = budgets.redis.claim(&budgets.account, &[&row.id, &CompletionId::new(budgets.now)]).await.unwrap();
    assert_eq!(claimed.iter().map(|open| &open.row.id).collect::<Vec<_>>(), [&row.id]);
    assert_eq!(budgets.release(&row).await, ReleaseOutcome::Claimed);
    assert_eq!(budgets.release(&other).await, ReleaseOutcome::Released);
    assert_eq!(budgets.release(&other).await, ReleaseOutcome::Missing);
    assert_eq!(budgets.tokens().await, 200);
    budgets.confirm(&row, spent(2, 200)).await;
    assert_eq!(budgets.release(&row).await, ReleaseOutcome::Missing);
    assert_eq!(budgets.tokens().await, 200);
}

#[tokio::test]
async fn reservations_of_a_dead_edge_are_settled_once_as_estimates() {
    let budgets = Budgets::start().await;
    let row = budgets.row(budgets.now, 3, 400);
    budgets.redis.renew_lease(EDGE).await.unwrap();
    budgets.admit(&row, Some(base(0, 0))).await;
    let filter = format!("id = '{}'", row.id);
    let rows = async || budgets.world.sql_number(&format!("SELECT count(*) FROM ai_usage WHERE {filter}")).await;
    // The job looks often enough to have settled it, were the lease at its end.
    budgets.sweeps(5, async || drop(budgets.redis.renew_lease(EDGE).await.unwrap())).await;
    assert_eq!(rows().await, 0, "its edge lives");
    eventually(BACKGROUND, "it is settled", async || rows().await == 1).await;
    let marked = format!("SELECT count(*) FROM ai_usage WHERE {filter} AND estimated AND prompt_tokens = 3");
    assert_eq!(budgets.world.sql_number(&marked).await, 1);
    eventually(BACKGROUND, "Redis has confirmed it", async || {
        budgets.redis.open_completions(&budgets.account).await.unwrap().is_empty()
    })
    .await;
    assert_eq!(budgets.tokens().await, 403);
}

#[tokio::test]
async fn the_last_minute_is_rebuilt_and_each_completion_counts_once() {
    let budgets = Budgets::start().await;
    let ago = |seconds| budgets.row(budgets.now - Duration::from_secs(seconds), 0, 1);
    // Postgres has two completions of the last minute, one of which is reported to Redis again. Two are open, one of them
    // older than a minute.
    let (written, both, under_way, old) = (ago(20), ago(10), ago(30), ago(61));
    for row in [&both, &under_way, &old] {
        budgets.redis.restore(EDGE, &budgets.account, &[row]).await.unwrap();
    }
    // Redis has as many entries, but they are older than a minute.
    let (minute, old) = (format!("svc:ai:{{{}}}:minute", budgets.account), budgets.now - Duration::from_secs(62));
    let old = old.unix_millis().to_string();
    assert_eq!(budgets.world.redis_number("RPUSH", &[&minute, &old, &old, &old, &old]).await, Some(4));
    let last_minute = vec![written.id.clone(), both.id.clone()];
    let (new, verdict) = budgets.admit_new(1).await;
    assert_eq!(verdict, AdmissionVerdict::Unknown);
    let AdmissionVerdict::Admitted(used) = budgets.admit(&new, Some(StoredUsage { last_minute, ..base(1, 2) })).await
    else {
        panic!()
    };
    assert_eq!(used.requests, 4, "three, and the new one");
    let frees = used.frees_in.as_secs();
    assert!((25..=30).contains(&frees), "the oldest of them came 30 s ago: {frees} s");
}

#[tokio::test]
async fn totals_of_a_restarted_redis_are_not_trusted() {
    let mut budgets = Budgets::start_with(World::builder().lasting_redis()).await;
    let (kept, lost) = (budgets.row(budgets.now, 0, 100), budgets.row(budgets.now, 0, 50));
    budgets.admit(&kept, Some(base(1, 100))).await;
    assert_eq!(budgets.tokens().await, 200);
    budgets.world.redis.stop();
    budgets.world.restart_redis();
    eventually(BACKGROUND, "Redis is back", async || budgets.redis.ping().await.is_ok()).await;
    let entries = budgets.redis.open_completions(&budgets.account).await.unwrap();
    assert_eq!(entries.len(), 1, "it has saved what was open");
    // Its totals may be older than those that it had answered with.
    let (new, verdict) = budgets.admit_new(1).await;
    assert_eq!(verdict, AdmissionVerdict::Unknown);
    budgets.redis.restore(EDGE, &budgets.account, &[&lost]).await.unwrap();
    assert!(
        matches!(budgets.admit(&new, Some(base(2, 300))).await, AdmissionVerdict::Admitted(used) if used.tokens == 451)
    );
}
