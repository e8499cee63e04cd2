//! Single completions of the gateway, as shown to their account: their cost, and never their content.

use domain::{
    CompletionId, Timestamp, TokenId, UserId,
    usage::{AssumedKinds, Ending, Microcents, TokenKinds, UsageDetails},
};
use sqlx::PgPool;

use crate::permits::{AtLeast, Member, OrgPermit};

/// A charged completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedRequest {
    /// The completion.
    pub id: CompletionId,
    /// The time of its admission.
    pub created_at: Timestamp,
    /// The key of the request.
    pub token: TokenId,
    /// The model's id, `svc/…`.
    pub model: String,
    /// The provider that served it.
    pub provider: String,
    /// The number of prompt tokens.
    pub prompt_tokens: u64,
    /// The number of completion tokens.
    pub completion_tokens: u64,
    /// The tokens by kind, and the ending; empty if an older program has recorded it.
    pub details: UsageDetails,
    /// The price.
    pub cost: Microcents,
    /// Whether the token counts are estimates.
    pub is_estimated: bool,
}

/// Returns at most `rows` completions of a person's own keys since `since` and before `before`, the newest first.
pub async fn page_for_user(
    pool: &PgPool,
    user: &UserId,
    since: Timestamp,
    before: Option<&CompletionId>,
    rows: i64,
) -> Result<Vec<RecordedRequest>, sqlx::Error> {
    page(pool, user.as_str(), since, before, rows).await
}

/// Returns at most `rows` completions of an organization's keys since `since` and before `before`, the newest first.
pub async fn page_for_org(
    pool: &PgPool,
    org: &OrgPermit<impl AtLeast<Member>>,
    since: Timestamp,
    before: Option<&CompletionId>,
    rows: i64,
) -> Result<Vec<RecordedRequest>, sqlx::Error> {
    page(pool, org.id.as_str(), since, before, rows).await
}

async fn page(
    pool: &PgPool,
    account: &str,
    since: Timestamp,
    before: Option<&CompletionId>,
    rows: i64,
) -> Result<Vec<RecordedRequest>, sqlx::Error> {
    let first = CompletionId::first_of(since);
    // Ids begin with the time of admission. Completions without usage are left out.
    let recorded = sqlx::query!(
        r#"SELECT id, created_at, token_id, model, provider, prompt_tokens, completion_tokens, cached_tokens,
                  cache_write_tokens, reasoning_tokens, images, assumed, ending, cost_microcents, estimated
           FROM ai_usage
           WHERE account_id = $1 AND id >= $2 AND id < COALESCE($3, 'cmp_~') AND certainty < 3
           ORDER BY id DESC LIMIT $4"#,
        account,
        first.as_str(),
        before.map(CompletionId::as_str),
        rows,
    )
    .fetch_all(pool)
    .await?;
    let recorded = recorded.into_iter().map(|row| RecordedRequest {
        id: row.id,
        created_at: row.created_at,
        token: row.token_id,
        model: row.model,
        provider: row.provider,
        prompt_tokens: count(row.prompt_tokens),
        completion_tokens: count(row.completion_tokens),
        details: UsageDetails {
            kinds: TokenKinds {
                cached: row.cached_tokens.map(count),
                cache_write: row.cache_write_tokens.map(count),
                reasoning: row.reasoning_tokens.map(count),
                images: row.images.map_or(0, count),
            },
            assumed: AssumedKinds::from(row.assumed.unwrap_or(0)),
            ending: row.ending.and_then(Ending::from_number),
        },
        cost: Microcents(count(row.cost_microcents)),
        is_estimated: row.estimated,
    });
    Ok(recorded.collect())
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
