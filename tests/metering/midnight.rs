//! Redis's clock passes midnight, and the end of a month, while completions are under way. The clock of one edge stands weeks
//! behind it, of another a day, and that of a third is a day ahead.

use std::collections::BTreeMap;

use domain::{
    Clock, Timestamp,
    month::{Month, midnight},
};
use futures_util::future::join_all;
use time::Date;

use super::{
    served::{Received, completions, numbered, without_limits},
    *,
};

const EDGES: usize = 3;
const DAY: Duration = Duration::from_hours(24);
/// How long before midnight Redis's clock stands while the world starts.
const AT_START: Duration = Duration::from_hours(1);
/// How long before midnight completions begin to be asked for without a break, and how long after it they end.
const AROUND: Duration = Duration::from_secs(4);
/// Added to [`AROUND`] for each completion that is held, where `SVC_TEST_COMPLETIONS` wants many.
const AROUND_EACH: Duration = Duration::from_millis(5);
/// The number of the first completion that is held. The prompts of all others have fewer tokens.
const FIRST_HELD: u64 = 10_000;

/// The days, by Redis's clock, on which a completion may have been admitted: one, unless midnight was between.
type Days = (Date, Date);

struct Crossing {
    metered: Metered,
    midnight: Timestamp,
    /// By the prompt's tokens, which are those of no other completion.
    served: BTreeMap<u64, Days>,
    received: Received,
}

impl Crossing {
    async fn start(midnight: Timestamp) -> Self {
        let ahead = (midnight - AT_START).since(Clock::system().now());
        let [seconds, day] = [ahead, DAY].map(|span| i64::try_from(span.as_secs()).unwrap());
        let metered = Metered::start_with(|builder| {
            let builder = without_limits(builder).edges(EDGES).redis_ahead(ahead);
            builder.edge_ahead(1, seconds - day).edge_ahead(2, seconds + day)
        })
        .await;
        Self { metered, midnight, served: BTreeMap::new(), received: Received::default() }
    }

    async fn redis_time(&self) -> Timestamp {
        Timestamp::from_unix_millis(self.metered.world.redis_time().await * 1_000)
    }

    async fn today(&self) -> Date {
        self.redis_time().await.as_datetime().date()
    }

    /// Asks at every edge, twice at a time, and notes when.
    async fn ask(&mut self) {
        let first = 1_000 + u64::try_from(self.served.len()).unwrap();
        let prompts = first..first + 2 * EDGES as u64;
        let before = self.today().await;
        let askers: Vec<_> = prompts.clone().enumerate().map(|(n, _)| self.metered.asker(n % EDGES)).collect();
        let served = join_all(prompts.clone().zip(&askers).map(async |(prompt, asker)| {
            let (takes, stream) = (Duration::from_millis(100), prompt % 3 == 0);
            asker.is_served(&Completion { stream, takes, ..Completion::of(prompt, 7) }).await
        }))
        .await;
        assert!(served.iter().all(|is_served| *is_served), "{served:?}");
        let after = self.today().await;
        self.received.extend(prompts.clone().map(|prompt| Completion::of(prompt, 7)));
        self.served.extend(prompts.map(|prompt| (prompt, (before, after))));
    }

    async fn number(&self, sql: &str) -> u64 {
        self.metered.world.sql_number(sql).await.try_into().unwrap()
    }

    /// The tokens and the cost that Redis counts for the account's present day and month; what is reserved counts, too.
    async fn in_redis(&self) -> (u64, u64) {
        let account = self.metered.world.sql_text("SELECT id FROM users WHERE vcs_login = 'ada'").await;
        let key = format!("svc:ai:{{{account}}}:spent");
        let sum = async |of: [&str; 2]| {
            let script = "return redis.call('HGET', KEYS[1], ARGV[1]) + redis.call('HGET', KEYS[1], ARGV[2])";
            let arguments = [script, "1", &key, of[0], of[1]];
            u64::try_from(self.metered.world.redis_number("EVAL", &arguments).await.unwrap()).unwrap()
        };
        (sum(["dt", "dh"]).await, sum(["mc", "mh"]).await)
    }
}

/// Serves completions before `midnight`, across it and after it. Returns how many were served on each day.
async fn cross(midnight: Timestamp) -> (Crossing, BTreeMap<Date, u64>) {
    let mut crossing = Crossing::start(midnight).await;
    crossing.ask().await;
    let around = AROUND + AROUND_EACH * u32::try_from(completions(0)).unwrap();
    crossing.metered.world.set_redis_ahead((midnight - around).since(Clock::system().now()));
    let Metered { provider, key, .. } = &crossing.metered;
    for (prompt, edge) in (1..).zip(0..EDGES) {
        let failing = Completion::of(prompt, 1).failing();
        eventually(BACKGROUND, "a lease that ran out is taken anew", async || {
            crossing.metered.ask_at(edge, key, &failing).await.status != 503 || provider.asked().last() == Some(&prompt)
        })
        .await;
    }
    // These end on the day after they were admitted.
    let before = crossing.today().await;
    let mut under_way = Vec::new();
    for edge in [1, 2] {
        let first = FIRST_HELD + edge as u64 * completions(2);
        let held = (first..first + completions(2)).map(|number| numbered(number).held());
        under_way.push(crossing.metered.hold(edge, held.clone()).await);
        let after = crossing.today().await;
        crossing.served.extend(held.map(|held| (held.prompt, (before, after))));
    }
    while crossing.redis_time().await < midnight + around {
        crossing.ask().await;
    }
    crossing.metered.provider.release();
    for under_way in under_way {
        crossing.received.extend(under_way.end().await);
    }
    crossing.ask().await;

    assert_eq!(crossing.received.len(), crossing.served.len() as u64);
    // Those that failed are in no row.
    let figures = crossing.metered.assert_ledger(&crossing.received, EDGES).await;
    assert_eq!(figures.estimated, 0);
    let mut days = BTreeMap::new();
    for (prompt, (earliest, latest)) in &crossing.served {
        let row = format!("FROM ai_usage WHERE NOT estimated AND prompt_tokens = {prompt}");
        let day =
            crossing.metered.world.sql_text(&format!("SELECT (created_at AT TIME ZONE 'UTC')::date::text {row}")).await;
        assert!([earliest, latest].iter().any(|possible| possible.to_string() == day), "{prompt}: {day}");
        *days.entry(if day == earliest.to_string() { *earliest } else { *latest }).or_default() += 1;
    }
    assert_eq!(days.len(), 2, "{days:?}");
    // Each day's totals are those of the completions that were admitted on it, and Redis goes by Postgres's.
    for (day, requests) in &days {
        let of_day = format!("FROM ai_usage_days WHERE day = '{day}'");
        assert_eq!(crossing.number(&format!("SELECT sum(requests)::bigint {of_day}")).await, *requests, "{day}");
        let rows = format!("FROM ai_usage WHERE (created_at AT TIME ZONE 'UTC')::date = '{day}'");
        for column in ["prompt_tokens", "completion_tokens", "cost_microcents"] {
            let sums = [&of_day, &rows].map(|from| format!("SELECT sum({column})::bigint {from}"));
            assert_eq!(crossing.number(&sums[0]).await, crossing.number(&sums[1]).await, "{column} of {day}");
        }
    }
    (crossing, days)
}

/// The sum of a column over the days from `first` on.
async fn since(crossing: &Crossing, column: &str, first: Date) -> u64 {
    crossing.number(&format!("SELECT sum({column})::bigint FROM ai_usage_days WHERE day >= '{first}'")).await
}

async fn assert_redis_agrees(crossing: &Crossing, month: Date) {
    let today = crossing.midnight.as_datetime().date();
    let expected = (
        since(crossing, "prompt_tokens + completion_tokens", today).await,
        since(crossing, "cost_microcents", month).await,
    );
    eventually(BACKGROUND, "Redis has Postgres's totals", async || crossing.in_redis().await == expected).await;
}

#[tokio::test]
async fn completions_across_midnight_are_charged_to_the_day_of_their_admission() {
    let tenth = Month::from_timestamp(Clock::system().now()).next().start() + 9 * DAY;
    let (crossing, _) = cross(tenth).await;
    // The new day began with nothing, and the month went on.
    assert_redis_agrees(&crossing, Month::from_timestamp(tenth).first_day()).await;
}

#[tokio::test]
async fn completions_across_the_end_of_a_month_are_charged_to_the_month_of_their_admission() {
    let last = Month::from_timestamp(Clock::system().now()).next();
    let (crossing, days) = cross(last.next().start()).await;
    assert_redis_agrees(&crossing, last.next().first_day()).await;
    for ((_, requests), month) in days.iter().zip([last, last.next()]) {
        let usage = crossing.metered.ada.get(&format!("/usage/ai?month={month}")).await.ok();
        assert_eq!(usage["totals"]["requests"], *requests, "{month}");
    }
    assert_eq!(crossing.midnight, midnight(last.next().first_day()));
}
