//! What the gateway's completions used: written once each, however often it is tried.

use std::{collections::BTreeSet, time::Duration};

use domain::{
    Account, CompletionId, Timestamp, UserId,
    month::Month,
    usage::{Base, DaySpent, Microcents, Spent, UsageRow},
};
use sqlx::{PgConnection, PgPool};
use time::Date;

use crate::permits::{AtLeast, Member, OrgPermit};

const MINUTE: Duration = Duration::from_mins(1);
/// Completions of the last minute that are looked for; a limit above it is not kept to the last in the minute after Redis
/// has lost its memory.
const LAST_MINUTE: i64 = 10_000;

/// The usage of one model by an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelUsage {
    /// The model's id, `svc/…`.
    pub model: String,
    /// Number of completions.
    pub requests: u64,
    /// Tokens read.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
}

/// Records rows, in a transaction. A row that exists already stays as it is, unless it was an estimate and the new one
/// is not. Returns the usage of every account and day of `rows`.
pub async fn record(conn: &mut PgConnection, rows: &[UsageRow]) -> Result<Vec<DaySpent>, sqlx::Error> {
    let accounts: BTreeSet<&str> = rows.iter().map(|row| row.account.as_str()).collect();
    let accounts: Vec<String> = accounts.into_iter().map(ToOwned::to_owned).collect();
    // First, and in one order: two writers of the same accounts wait for each other, and never in a circle.
    let versions = sqlx::query!(
        "INSERT INTO ai_usage_versions (account_id, version)
           SELECT account_id, 1 FROM UNNEST($1::text[]) AS given (account_id) ORDER BY account_id
           ON CONFLICT (account_id) DO UPDATE SET version = ai_usage_versions.version + 1
           RETURNING account_id, version",
        &accounts,
    )
    .fetch_all(&mut *conn)
    .await?;
    let columns = Columns::of(rows);
    let inserted = insert(conn, &columns).await?;
    if usize::try_from(inserted).is_ok_and(|inserted| inserted < rows.len()) && rows.iter().any(|row| !row.estimated) {
        correct(conn, &columns).await?;
    }
    let version_of = |account: &str| versions.iter().find(|row| row.account_id == account).map_or(0, |row| row.version);
    totals(conn, rows, version_of).await
}

/// The rows, column by column.
struct Columns {
    ids: Vec<String>,
    accounts: Vec<String>,
    tokens: Vec<String>,
    models: Vec<String>,
    providers: Vec<String>,
    prompts: Vec<i64>,
    completions: Vec<i64>,
    costs: Vec<i64>,
    estimated: Vec<bool>,
    times: Vec<time::OffsetDateTime>,
}

impl Columns {
    fn of(rows: &[UsageRow]) -> Self {
        let text = |column: fn(&UsageRow) -> &str| rows.iter().map(|row| column(row).to_owned()).collect();
        let number = |column: fn(&UsageRow) -> u64| rows.iter().map(|row| whole(column(row))).collect();
        Self {
            ids: text(|row| row.id.as_str()),
            accounts: text(|row| row.account.as_str()),
            tokens: text(|row| row.token.as_str()),
            models: text(|row| &row.model),
            providers: text(|row| &row.provider),
            prompts: number(|row| row.prompt),
            completions: number(|row| row.completion),
            costs: number(|row| row.cost.0),
            estimated: rows.iter().map(|row| row.estimated).collect(),
            times: rows.iter().map(|row| row.at.as_datetime()).collect(),
        }
    }
}

async fn insert(conn: &mut PgConnection, rows: &Columns) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"WITH inserted AS (
             INSERT INTO ai_usage (id, account_id, token_id, model, provider, prompt_tokens, completion_tokens,
                                   cost_microcents, estimated, created_at)
             SELECT * FROM UNNEST($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[],
                                  $8::bigint[], $9::boolean[], $10::timestamptz[])
             ON CONFLICT (id) DO NOTHING
             RETURNING account_id, (created_at AT TIME ZONE 'UTC')::date AS day, model, prompt_tokens,
                       completion_tokens, cost_microcents),
           summed AS (
             INSERT INTO ai_usage_days AS days
                    (account_id, day, model, requests, prompt_tokens, completion_tokens, cost_microcents)
             SELECT account_id, day, model, count(*), sum(prompt_tokens), sum(completion_tokens), sum(cost_microcents)
             FROM inserted GROUP BY account_id, day, model ORDER BY account_id, day, model
             ON CONFLICT (account_id, day, model) DO UPDATE SET
               requests = days.requests + excluded.requests,
               prompt_tokens = days.prompt_tokens + excluded.prompt_tokens,
               completion_tokens = days.completion_tokens + excluded.completion_tokens,
               cost_microcents = days.cost_microcents + excluded.cost_microcents)
           SELECT count(*) AS "count!" FROM inserted"#,
        &rows.ids,
        &rows.accounts,
        &rows.tokens,
        &rows.models,
        &rows.providers,
        &rows.prompts,
        &rows.completions,
        &rows.costs,
        &rows.estimated,
        &rows.times,
    )
    .fetch_one(conn)
    .await
}

/// What was estimated and is known now takes the estimate's place, in the sums too. A statement of its own, so that it
/// sees rows that another writer's transaction has brought in meanwhile.
async fn correct(conn: &mut PgConnection, rows: &Columns) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "WITH given AS (
             SELECT * FROM UNNEST($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::boolean[])
                    AS given (id, prompt_tokens, completion_tokens, cost_microcents, estimated)
             WHERE NOT estimated),
           old AS (
             SELECT u.* FROM ai_usage u JOIN given USING (id) WHERE u.estimated ORDER BY u.id FOR UPDATE OF u),
           corrected AS (
             UPDATE ai_usage u SET prompt_tokens = given.prompt_tokens, completion_tokens = given.completion_tokens,
                                   cost_microcents = given.cost_microcents, estimated = false
             FROM given JOIN old USING (id) WHERE u.id = given.id
             RETURNING u.account_id, (u.created_at AT TIME ZONE 'UTC')::date AS day, u.model,
                       u.prompt_tokens - old.prompt_tokens AS prompt_tokens,
                       u.completion_tokens - old.completion_tokens AS completion_tokens,
                       u.cost_microcents - old.cost_microcents AS cost_microcents),
           sums AS (
             SELECT account_id, day, model, sum(prompt_tokens)::bigint AS prompt_tokens,
                    sum(completion_tokens)::bigint AS completion_tokens, sum(cost_microcents)::bigint AS cost_microcents
             FROM corrected GROUP BY account_id, day, model)
           UPDATE ai_usage_days days SET
             prompt_tokens = days.prompt_tokens + sums.prompt_tokens,
             completion_tokens = days.completion_tokens + sums.completion_tokens,
             cost_microcents = days.cost_microcents + sums.cost_microcents
           FROM sums
           WHERE days.account_id = sums.account_id AND days.day = sums.day AND days.model = sums.model",
        &rows.ids,
        &rows.prompts,
        &rows.completions,
        &rows.costs,
        &rows.estimated,
    )
    .execute(conn)
    .await
    .map(drop)
}

async fn totals(
    conn: &mut PgConnection,
    rows: &[UsageRow],
    version_of: impl Fn(&str) -> i64,
) -> Result<Vec<DaySpent>, sqlx::Error> {
    let wanted: BTreeSet<(&Account, Date)> = rows.iter().map(|row| (&row.account, row.day())).collect();
    let accounts: Vec<String> = wanted.iter().map(|(account, _)| account.as_str().to_owned()).collect();
    let days: Vec<Date> = wanted.iter().map(|(_, day)| *day).collect();
    let sums = sqlx::query!(
        r#"SELECT w.account_id AS "account_id!", w.day AS "day!",
                  COALESCE(sum(d.prompt_tokens + d.completion_tokens) FILTER (WHERE d.day = w.day), 0)::bigint
                    AS "day_tokens!",
                  COALESCE(sum(d.cost_microcents), 0)::bigint AS "month_cost!"
           FROM UNNEST($1::text[], $2::date[]) AS w (account_id, day)
           LEFT JOIN ai_usage_days d ON d.account_id = w.account_id
             AND d.day >= date_trunc('month', w.day::timestamp)
             AND d.day < date_trunc('month', w.day::timestamp) + interval '1 month'
           GROUP BY w.account_id, w.day"#,
        &accounts,
        &days,
    )
    .fetch_all(conn)
    .await?;
    let spent = sums.into_iter().filter_map(|sum| {
        let version = version_of(&sum.account_id);
        let spent = Spent { version, day_tokens: count(sum.day_tokens), month_cost: Microcents(count(sum.month_cost)) };
        Some(DaySpent { account: sum.account_id.parse().ok()?, day: sum.day, spent })
    });
    Ok(spent.collect())
}

/// Returns the usage of an account on a day, in its month, and in the minute before `now`, of which at most
/// `per_minute` completions are wanted.
pub async fn base(
    pool: &PgPool,
    account: &Account,
    day: Date,
    now: Timestamp,
    per_minute: u64,
) -> Result<Base, sqlx::Error> {
    let month = Month::containing(day);
    let first = CompletionId::first_of(now - MINUTE);
    // One statement: sums and ids are as of one moment. Ids begin with the time of the admission.
    let row = sqlx::query!(
        r#"SELECT COALESCE((SELECT version FROM ai_usage_versions WHERE account_id = $1), 0) AS "version!",
                  COALESCE(sum(prompt_tokens + completion_tokens) FILTER (WHERE day = $2), 0)::bigint AS "day_tokens!",
                  COALESCE(sum(cost_microcents), 0)::bigint AS "month_cost!",
                  ARRAY(SELECT id FROM ai_usage WHERE account_id = $1 AND id >= $5 ORDER BY id DESC LIMIT $6)
                    AS "last_minute!: Vec<CompletionId>"
           FROM ai_usage_days WHERE account_id = $1 AND day >= $3 AND day < $4"#,
        account.as_str(),
        day,
        month.first_day(),
        month.next().first_day(),
        first.as_str(),
        i64::try_from(per_minute).map_or(LAST_MINUTE, |limit| limit.min(LAST_MINUTE)),
    )
    .fetch_one(pool)
    .await?;
    Ok(Base {
        version: row.version,
        day_tokens: count(row.day_tokens),
        month_cost: Microcents(count(row.month_cost)),
        last_minute: row.last_minute,
    })
}

/// Returns the usage of a person's own keys in a month, by model.
pub async fn of_user(pool: &PgPool, user: &UserId, month: Month) -> Result<Vec<ModelUsage>, sqlx::Error> {
    of_account(pool, user.as_str(), month).await
}

/// Returns the usage of an organization's keys in a month, by model.
pub async fn of_org<L: AtLeast<Member>>(
    pool: &PgPool,
    org: &OrgPermit<L>,
    month: Month,
) -> Result<Vec<ModelUsage>, sqlx::Error> {
    of_account(pool, org.id.as_str(), month).await
}

async fn of_account(pool: &PgPool, account: &str, month: Month) -> Result<Vec<ModelUsage>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"SELECT model, sum(requests)::bigint AS "requests!", sum(prompt_tokens)::bigint AS "prompt_tokens!",
                  sum(completion_tokens)::bigint AS "completion_tokens!"
           FROM ai_usage_days WHERE account_id = $1 AND day >= $2 AND day < $3 GROUP BY model ORDER BY model"#,
        account,
        month.first_day(),
        month.next().first_day(),
    )
    .fetch_all(pool)
    .await?;
    let usage = rows.into_iter().map(|row| ModelUsage {
        model: row.model,
        requests: count(row.requests),
        prompt_tokens: count(row.prompt_tokens),
        completion_tokens: count(row.completion_tokens),
    });
    Ok(usage.collect())
}

fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
