//! The usage of the gateway's completions. Each is recorded once, however often the write is retried.

use std::{collections::BTreeMap, time::Duration};

use domain::{
    Account, CompletionId, Timestamp, TokenId, UserId,
    month::Month,
    usage::{AccountUsage, DayUsage, Ending, KeyCost, Microcents, StoredUsage, TokenKinds, UsageRow},
};
use sqlx::{PgExecutor, PgPool};
use time::Date;

use crate::permits::{AtLeast, Member, OrgPermit};

const MINUTE: Duration = Duration::from_mins(1);
/// The number of completions of the last minute that are searched. A higher limit per minute is not fully enforced in
/// the minute after Redis has lost its memory.
const LAST_MINUTE: i64 = 10_000;

/// The usage of one model by an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelUsage {
    /// The model's id, `svc/…`.
    pub model: String,
    /// The number of completions.
    pub requests: u64,
    /// The number of prompt tokens.
    pub prompt_tokens: u64,
    /// The number of completion tokens.
    pub completion_tokens: u64,
    /// The prompt tokens that providers read from their caches.
    pub cached_tokens: u64,
    /// The prompt tokens that providers wrote to their caches.
    pub cache_write_tokens: u64,
    /// The completion tokens that models used for reasoning.
    pub reasoning_tokens: u64,
    /// The number of input images.
    pub images: u64,
    /// The total cost.
    pub cost: Microcents,
}

/// Records each row once; a recorded row is replaced only by more certain figures. Returns the usage of the accounts
/// and days of `rows`, except for accounts that another writer has locked, whose rows are skipped.
///
/// It is a single statement with its own commit, so a client that vanishes in the middle leaves no lock behind.
pub async fn record(pool: &PgPool, rows: &[UsageRow]) -> Result<Vec<DayUsage>, sqlx::Error> {
    let text = |column: fn(&UsageRow) -> &str| rows.iter().map(|row| column(row).to_owned()).collect::<Vec<_>>();
    let number = |column: fn(&UsageRow) -> u64| rows.iter().map(|row| whole(column(row))).collect::<Vec<_>>();
    let kind = |count: fn(&TokenKinds) -> Option<u64>| {
        rows.iter().map(|row| count(&row.details.kinds).map(whole)).collect::<Vec<Option<i64>>>()
    };
    let images: Vec<Option<i64>> = rows.iter().map(|row| Some(whole(row.details.kinds.images))).collect();
    let assumed: Vec<i16> = rows.iter().map(|row| row.details.assumed.number()).collect();
    let endings: Vec<Option<i16>> = rows.iter().map(|row| row.details.ending.map(Ending::number)).collect();
    let certainties: Vec<i16> = rows.iter().map(|row| row.certainty.number()).collect();
    let times: Vec<time::OffsetDateTime> = rows.iter().map(|row| row.at.as_datetime()).collect();
    let recorded = sqlx::query!(
        r#"SELECT account_id AS "account_id!", day AS "day!", version AS "version!", day_tokens AS "day_tokens!",
                  month_cost AS "month_cost!", key_tokens AS "key_tokens!", key_costs AS "key_costs!"
           FROM record_ai_usage_by_kind($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)"#,
        &text(|row| row.id.as_str()),
        &text(|row| row.account.as_str()),
        &text(|row| row.token.as_str()),
        &text(|row| &row.model),
        &text(|row| &row.provider),
        &number(|row| row.prompt),
        &number(|row| row.completion),
        &number(|row| row.cost.0),
        &certainties,
        &times,
        &kind(|kinds| kinds.cached) as &[Option<i64>],
        &kind(|kinds| kinds.cache_write) as &[Option<i64>],
        &kind(|kinds| kinds.reasoning) as &[Option<i64>],
        &images as &[Option<i64>],
        &assumed,
        &endings as &[Option<i16>],
    )
    .fetch_all(pool)
    .await?;
    let spent = recorded.into_iter().filter_map(|sum| {
        let (day_tokens, month_cost) = (count(sum.day_tokens), Microcents(count(sum.month_cost)));
        let spent = AccountUsage { version: sum.version, day_tokens, month_cost };
        let keys = sum.key_tokens.iter().zip(sum.key_costs).filter_map(|(token, cost)| {
            Some(KeyCost { token: token.parse().ok()?, month_cost: Microcents(count(cost)) })
        });
        Some(DayUsage { account: sum.account_id.parse().ok()?, day: sum.day, spent, keys: keys.collect() })
    });
    Ok(spent.collect())
}

/// Returns whether [`record`] failed because of the given rows, so that others may still be recorded.
pub fn is_refusal(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    // Invalid data (22), a constraint (23), a deadlock or conflict (40); then a lock or statement timeout.
    code.is_some_and(|code| matches!(code.get(..2), Some("22" | "23" | "40")) || matches!(&*code, "55P03" | "57014"))
}

/// Returns the usage of an account on the day of `now`, in its month, and in the minute before, for which at most
/// `per_minute` completions are returned; and the cost of `key` in the month.
pub async fn find_baseline(
    pool: &PgPool,
    account: &Account,
    key: Option<&TokenId>,
    now: Timestamp,
    per_minute: u64,
) -> Result<StoredUsage, sqlx::Error> {
    let day = now.as_datetime().date();
    let month = Month::from_date(day);
    let first = CompletionId::first_of(now - MINUTE);
    if key.is_some() {
        sum_keys(pool, account, month).await?;
    }
    // A single statement, so that sums and ids are from one snapshot. Ids begin with the time of admission.
    let row = sqlx::query!(
        r#"SELECT COALESCE((SELECT version FROM ai_usage_versions WHERE account_id = $1), 0) AS "version!",
                  COALESCE(sum(prompt_tokens + completion_tokens) FILTER (WHERE day = $2), 0)::bigint AS "day_tokens!",
                  COALESCE(sum(cost_microcents), 0)::bigint AS "month_cost!",
                  ARRAY(SELECT id FROM ai_usage WHERE account_id = $1 AND id >= $5 ORDER BY id DESC LIMIT $6)
                    AS "last_minute!: Vec<CompletionId>",
                  COALESCE((SELECT cost_microcents FROM ai_usage_keys
                            WHERE account_id = $1 AND token_id = $7 AND month = $3), 0) AS "key_cost!"
           FROM ai_usage_days WHERE account_id = $1 AND day >= $3 AND day < $4"#,
        account.as_str(),
        day,
        month.first_day(),
        month.next().first_day(),
        first.as_str(),
        i64::try_from(per_minute).map_or(LAST_MINUTE, |limit| limit.min(LAST_MINUTE)),
        key.map(TokenId::as_str),
    )
    .fetch_one(pool)
    .await?;
    Ok(StoredUsage {
        day,
        version: row.version,
        day_tokens: count(row.day_tokens),
        month_cost: Microcents(count(row.month_cost)),
        key_cost: key.map(|_| Microcents(count(row.key_cost))),
        last_minute: row.last_minute,
    })
}

/// Returns at most `rows` accounts after `after` that have completions admitted since `since`, in order, each with the
/// cost of its completions of the month.
pub async fn list_recent_spenders(
    pool: &PgPool,
    month: Month,
    since: Timestamp,
    after: Option<&Account>,
    rows: i64,
) -> Result<Vec<(Account, Microcents)>, sqlx::Error> {
    let first = CompletionId::first_of(since);
    let rows = sqlx::query!(
        r#"SELECT busy.account_id AS "account!: Account", (
               SELECT COALESCE(sum(days.cost_microcents), 0)::bigint FROM ai_usage_days AS days
               WHERE days.account_id = busy.account_id AND days.day >= $1 AND days.day < $2) AS "cost!"
           FROM (SELECT DISTINCT account_id FROM ai_usage
                 WHERE id >= $3 AND ($4::text IS NULL OR account_id > $4) ORDER BY account_id LIMIT $5) AS busy
           ORDER BY busy.account_id"#,
        month.first_day(),
        month.next().first_day(),
        first.as_str(),
        after.map(Account::as_str),
        rows,
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(|row| (row.account, Microcents(count(row.cost)))).collect())
}

/// Completes the monthly sums of an account's keys, which lack usage recorded before these sums existed.
pub async fn sum_keys(pool: &PgPool, account: &Account, month: Month) -> Result<(), sqlx::Error> {
    let summed =
        sqlx::query_scalar!("SELECT keys_summed FROM ai_usage_versions WHERE account_id = $1", account.as_str())
            .fetch_optional(pool)
            .await?;
    if summed == Some(false) {
        sqlx::query!("SELECT sum_ai_usage_keys($1, $2)", account.as_str(), month.first_day()).execute(pool).await?;
    }
    Ok(())
}

/// Returns at most `limit` accounts whose keys are not summed yet.
pub async fn list_unsummed(pool: &PgPool, limit: i64) -> Result<Vec<Account>, sqlx::Error> {
    sqlx::query_scalar!("SELECT account_id FROM ai_usage_versions WHERE NOT keys_summed LIMIT $1", limit)
        .fetch_all(pool)
        .await
}

/// Returns the cost of all an organization's keys in a month.
pub async fn sum_org_cost(
    db: impl PgExecutor<'_>,
    org: &OrgPermit<impl AtLeast<Member>>,
    month: Month,
) -> Result<Microcents, sqlx::Error> {
    let cost = sqlx::query_scalar!(
        r#"SELECT COALESCE(sum(cost_microcents), 0)::bigint AS "cost!"
           FROM ai_usage_days WHERE account_id = $1 AND day >= $2 AND day < $3"#,
        org.id.as_str(),
        month.first_day(),
        month.next().first_day(),
    )
    .fetch_one(db)
    .await?;
    Ok(Microcents(count(cost)))
}

/// Returns the usage of a person's own keys in a month, by model.
pub async fn list_for_user(pool: &PgPool, user: &UserId, month: Month) -> Result<Vec<ModelUsage>, sqlx::Error> {
    list_for_account(pool, user.as_str(), month).await
}

/// Returns the usage of an organization's keys in a month, by model.
pub async fn list_for_org<L: AtLeast<Member>>(
    pool: &PgPool,
    org: &OrgPermit<L>,
    month: Month,
) -> Result<Vec<ModelUsage>, sqlx::Error> {
    list_for_account(pool, org.id.as_str(), month).await
}

/// Returns the usage of a person's own keys on each day of a month, by day and model.
pub async fn list_days_for_user(
    pool: &PgPool,
    user: &UserId,
    month: Month,
) -> Result<BTreeMap<Date, Vec<ModelUsage>>, sqlx::Error> {
    list_days_for_account(pool, user.as_str(), month).await
}

/// Returns the usage of an organization's keys on each day of a month, by day and model.
pub async fn list_days_for_org<L: AtLeast<Member>>(
    pool: &PgPool,
    org: &OrgPermit<L>,
    month: Month,
) -> Result<BTreeMap<Date, Vec<ModelUsage>>, sqlx::Error> {
    list_days_for_account(pool, org.id.as_str(), month).await
}

async fn list_days_for_account(
    pool: &PgPool,
    account: &str,
    month: Month,
) -> Result<BTreeMap<Date, Vec<ModelUsage>>, sqlx::Error> {
    let rows = sqlx::query!(
        "SELECT day, model, requests, prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens, reasoning_tokens, images,
                cost_microcents
         FROM ai_usage_days WHERE account_id = $1 AND day >= $2 AND day < $3 ORDER BY day, model",
        account,
        month.first_day(),
        month.next().first_day(),
    )
    .fetch_all(pool)
    .await?;
    let mut days: BTreeMap<Date, Vec<ModelUsage>> = BTreeMap::new();
    for row in rows {
        days.entry(row.day).or_default().push(ModelUsage {
            model: row.model,
            requests: count(row.requests),
            prompt_tokens: count(row.prompt_tokens),
            completion_tokens: count(row.completion_tokens),
            cached_tokens: count(row.cached_tokens),
            cache_write_tokens: count(row.cache_write_tokens),
            reasoning_tokens: count(row.reasoning_tokens),
            images: count(row.images),
            cost: Microcents(count(row.cost_microcents)),
        });
    }
    Ok(days)
}

async fn list_for_account(pool: &PgPool, account: &str, month: Month) -> Result<Vec<ModelUsage>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"SELECT model, sum(requests)::bigint AS "requests!", sum(prompt_tokens)::bigint AS "prompt_tokens!",
                  sum(completion_tokens)::bigint AS "completion_tokens!", sum(cached_tokens)::bigint AS "cached_tokens!",
                  sum(cache_write_tokens)::bigint AS "cache_write_tokens!", sum(reasoning_tokens)::bigint AS "reasoning_tokens!",
                  sum(images)::bigint AS "images!", sum(cost_microcents)::bigint AS "cost_microcents!"
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
        cached_tokens: count(row.cached_tokens),
        cache_write_tokens: count(row.cache_write_tokens),
        reasoning_tokens: count(row.reasoning_tokens),
        images: count(row.images),
        cost: Microcents(count(row.cost_microcents)),
    });
    Ok(usage.collect())
}

fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
