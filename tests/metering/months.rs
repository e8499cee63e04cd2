//! Usage lies in a partition for each month: by the time in its id, whenever and as often as it is recorded.

use std::{path::Path, slice};

use db::gateway::ai_usage;
use domain::{
    Account, Clock, CompletionId, Timestamp, UserId,
    month::Month,
    usage::{Microcents, UsageCertainty, UsageRow},
};
use sqlx::{Connection as _, PgConnection, PgPool, migrate::Migrator};

use super::*;

/// The last migration before usage was divided.
const BEFORE: i64 = 17;
const MIGRATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../migrations");

/// The usage of a completion under way, admitted at `at`: as much as was reserved for it.
fn reserved(account: &Account, at: Timestamp, prompt: u64) -> UsageRow {
    budgets::reserved(account, at, prompt, 100)
}

/// The usage of the completion of `row` once its provider has said that the answer took `completion` tokens.
fn reported(row: &UsageRow, completion: u64) -> UsageRow {
    UsageRow {
        completion,
        cost: Microcents(row.prompt + completion),
        certainty: UsageCertainty::Reported,
        ..row.clone()
    }
}

/// The month that begins so many months after the present one.
fn month(ahead: usize) -> Month {
    (0..ahead).fold(Month::from_timestamp(Clock::system().now()), |month, _| month.next())
}

fn partition_of(month: Month) -> String {
    format!("ai_usage_{}", month.to_string().replace('-', "_"))
}

/// A connection as the programs have it. The only one, so that its statements are prepared once.
fn pool(world: &World) -> PgPool {
    let settings = config::Postgres { max_connections: 1, ..config::Postgres::default() };
    db::connect(&settings, world.database.as_str()).unwrap()
}

/// Records rows with the statement of the version before usage was summed by key.
async fn record_as_before(pool: &PgPool, rows: &[UsageRow]) -> Result<usize, sqlx::Error> {
    let text = |column: fn(&UsageRow) -> &str| rows.iter().map(|row| column(row).to_owned()).collect::<Vec<_>>();
    let number =
        |column: fn(&UsageRow) -> u64| rows.iter().map(|row| i64::try_from(column(row)).unwrap()).collect::<Vec<_>>();
    let statement = "SELECT account_id, day, version, day_tokens, month_cost
                     FROM record_ai_usage($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    let totals = sqlx::query(statement)
        .bind(text(|row| row.id.as_str()))
        .bind(text(|row| row.account.as_str()))
        .bind(text(|row| row.token.as_str()))
        .bind(text(|row| &row.model))
        .bind(text(|row| &row.provider))
        .bind(number(|row| row.prompt))
        .bind(number(|row| row.completion))
        .bind(number(|row| row.cost.0))
        .bind(rows.iter().map(|row| row.certainty.number()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.at.as_datetime()).collect::<Vec<_>>())
        .fetch_all(pool)
        .await?;
    Ok(totals.len())
}

async fn record(pool: &PgPool, rows: &[UsageRow]) {
    assert!(!ai_usage::record(pool, rows).await.unwrap().is_empty());
}

impl Metered {
    /// Where the only completion of so many tokens lies.
    async fn place_of(&self, prompt: u64) -> String {
        let place = format!("SELECT tableoid::regclass::text FROM ai_usage WHERE prompt_tokens = {prompt}");
        assert_eq!(self.rows(&format!("prompt_tokens = {prompt}")).await, 1);
        self.world.sql_text(&place).await
    }

    async fn is_there(&self, partition: &str) -> bool {
        let there = format!("SELECT count(*) FROM pg_inherits WHERE inhrelid = to_regclass('{partition}')");
        self.world.sql_number(&there).await == 1
    }

    /// Waits until admin has made the partitions of the months ahead.
    async fn months_are_made(&self) {
        let last = partition_of(month(3));
        eventually(BACKGROUND, "the months are made", async || self.is_there(&last).await).await;
    }
}

fn somebody() -> Account {
    UserId::new(Clock::system().now()).into()
}

#[tokio::test]
async fn usage_lies_in_the_month_of_its_admission() {
    let metered = Metered::start().await;
    metered.months_are_made().await;
    let (pool, account) = (pool(&metered.world), somebody());
    let (present, soon, later) = (Clock::system().now(), month(2), month(3));
    let last_of_soon = later.start() - Duration::from_millis(1);
    let times = [present, soon.start(), last_of_soon, later.start()];
    let rows: Vec<UsageRow> = (10..).zip(times).map(|(prompt, at)| reserved(&account, at, prompt)).collect();
    record(&pool, &rows).await;
    let mut places = Vec::new();
    for prompt in 10..14 {
        places.push(metered.place_of(prompt).await);
    }
    let (soon, later) = (partition_of(soon), partition_of(later));
    assert!(places[0] != soon && places[0] != later && places[0] != "ai_usage_default", "{places:?}");
    assert_eq!(places[1..], [soon.clone(), soon, later]);
    metered.assert_sums().await;

    // The database counts an id's time as the programs do.
    for first in [month(2), "1970-01".parse().unwrap(), "2099-12".parse().unwrap()] {
        let id = format!("SELECT first_completion_id('{first}-01')");
        assert_eq!(metered.world.sql_text(&id).await, CompletionId::first_of(first.start()).as_str());
    }
}

#[tokio::test]
async fn usage_that_is_recorded_again_across_a_months_end_is_counted_once() {
    let metered = Metered::start().await;
    metered.months_are_made().await;
    let (pool, account) = (pool(&metered.world), somebody());
    let begun = month(3).start() - Duration::from_millis(1);
    let row = reserved(&account, begun, 10);
    record(&pool, slice::from_ref(&row)).await;
    // The same completion, said to be of the next month, with less, more and again less certainty.
    let late = UsageRow { at: month(3).start() + Duration::from_secs(1), ..row.clone() };
    for again in [late.clone(), reported(&late, 7), UsageRow { certainty: UsageCertainty::Seen, ..late }] {
        record(&pool, &[again]).await;
    }
    assert_eq!(metered.place_of(10).await, partition_of(month(2)));
    metered.rows_become(1, "completion_tokens = 7 AND NOT estimated").await;
    let days = "SELECT day::text || ' ' || requests || ' ' || completion_tokens FROM ai_usage_days";
    assert_eq!(metered.world.sql_text(days).await, format!("{} 1 7", begun.as_datetime().date()));
    metered.assert_sums().await;
}

#[tokio::test]
async fn usage_whose_month_has_no_partition_is_recorded_and_gets_one() {
    let mut metered = Metered::start().await;
    metered.months_are_made().await;
    let (pool, account) = (pool(&metered.world), somebody());
    // As if admin had not run for months; and once Redis's clock was far ahead.
    let (missing, far) = (month(3), month(200));
    metered.world.sql(&format!("DROP TABLE {}", partition_of(missing))).await;
    let rows = [reserved(&account, missing.start(), 10), reserved(&account, far.start(), 11)];
    record(&pool, &rows).await;
    for prompt in [10, 11] {
        assert_eq!(metered.place_of(prompt).await, "ai_usage_default");
    }
    metered.assert_sums().await;

    metered.world.restart_admin_later().await;
    let outside = "SELECT count(*) FROM ai_usage_default";
    eventually(BACKGROUND, "every row has its month", async || metered.world.sql_number(outside).await == 0).await;
    assert_eq!(metered.place_of(10).await, partition_of(missing));
    assert_eq!(metered.place_of(11).await, partition_of(far));
    assert!(metered.world.admin.log().contains("usage was recorded before its month had a partition"));
    record(&pool, &rows.each_ref().map(|row| reported(row, 7))).await;
    assert_eq!(metered.rows("completion_tokens = 7").await, 2);
    assert_eq!(metered.rows("true").await, 2);
    metered.assert_sums().await;
}

#[tokio::test]
async fn a_table_from_before_is_divided_with_all_its_rows() {
    let mut metered = Metered::start().await;
    metered.world.admin.kill();
    metered.world.edges[0].process.kill();
    metered.world.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public").await;
    let mut connection = PgConnection::connect(metered.world.database.as_str()).await.unwrap();
    let migrations = Migrator::new(Path::new(MIGRATIONS)).await.unwrap();
    migrations.run_to(BEFORE, &mut connection).await.unwrap();
    let (program, accounts) = (pool(&metered.world), [somebody(), somebody()]);

    // Two years of it, and what a clock that was far ahead has left.
    let (now, hour) = (Clock::system().now(), Duration::from_hours(1));
    let turns = accounts.iter().cycle().zip(0..500);
    let mut rows: Vec<UsageRow> =
        turns.map(|(account, n)| reserved(account, now - hour * 35 * n, 10 + u64::from(n))).collect();
    rows.push(reserved(&accounts[0], month(30).start(), 9));
    record_as_before(&program, &rows).await.unwrap();
    let sums = "SELECT count(*) || ' ' || sum(prompt_tokens) || ' ' || sum(cost_microcents)
                FROM ai_usage WHERE model = 'svc/a'";
    let before = metered.world.sql_text(sums).await;
    // An edge of the version before goes on recording meanwhile, and is never told anything that it does not expect.
    let meanwhile: Vec<UsageRow> =
        (1_000..1_100).map(|n| UsageRow { model: "svc/late".into(), ..reserved(&accounts[1], now, n) }).collect();
    let recording = async {
        for row in &meanwhile {
            eventually(BACKGROUND, "it is recorded", async || {
                match record_as_before(&program, slice::from_ref(row)).await {
                    Ok(totals) => totals > 0,
                    Err(error) if ai_usage::is_refusal(&error) => false,
                    Err(error) => panic!("{error}"),
                }
            })
            .await;
        }
    };
    let other = pool(&metered.world);
    let (migrated, ()) = tokio::join!(db::migrate(&other), recording);
    migrated.unwrap();
    assert_eq!(metered.world.sql_text(sums).await, before);
    assert_eq!(metered.rows("model = 'svc/late'").await, 100);
    assert!(metered.is_there("ai_usage_early").await && metered.is_there("ai_usage_default").await);
    assert_eq!(metered.place_of(9).await, "ai_usage_early");
    metered.assert_sums().await;

    // It goes on with the statements that it had prepared.
    let ended: Vec<UsageRow> = rows.iter().map(|row| reported(row, 7)).collect();
    for rows in [&ended, &rows] {
        assert!(record_as_before(&program, rows).await.unwrap() > 0);
    }
    assert_eq!(metered.rows("completion_tokens = 7").await, 501);
    let base = ai_usage::find_baseline(&other, &accounts[0], None, now, 100).await.unwrap();
    assert!(base.last_minute.contains(&rows[0].id));

    // What a key cost this month is summed when it is asked for first, and goes on from there.
    let newest = &rows[0];
    let cost_of = async |row: &UsageRow| {
        ai_usage::find_baseline(&other, &row.account, Some(&row.token), now, 100).await.unwrap().key_cost
    };
    assert_eq!(cost_of(newest).await, Some(Microcents(newest.prompt + 7)));
    let more = UsageRow { token: newest.token.clone(), ..reserved(&newest.account, now, 5) };
    assert!(record_as_before(&program, slice::from_ref(&more)).await.unwrap() > 0);
    assert_eq!(cost_of(newest).await, Some(Microcents(newest.prompt + 7 + 105)));
    record(&other, &[reported(&more, 1)]).await;
    assert_eq!(cost_of(newest).await, Some(Microcents(newest.prompt + 7 + 6)));
    record(&program, &[reserved(&accounts[0], month(31).start(), 8)]).await;
    assert_eq!(metered.place_of(8).await, "ai_usage_default");
    metered.assert_sums().await;
}
