//! Data that operators publish about their agents: the networks that they send requests from, and their signing keys.

use domain::Timestamp;
use sqlx::PgPool;

/// The networks of one source.
#[derive(Debug, Clone)]
pub struct AgentNetworks {
    /// The name of the source, as in the table of agents.
    pub source: String,
    /// The networks, as addresses or `address/prefix`.
    pub networks: Vec<String>,
    /// The time they were read.
    pub read_at: Timestamp,
}

/// A key of an agent.
#[derive(Debug, Clone)]
pub struct AgentKey {
    /// The thumbprint (RFC 7638), in base64url.
    pub key_id: String,
    /// The agent's name in the table of agents.
    pub agent: String,
    /// The Ed25519 key.
    pub public_key: Vec<u8>,
    /// The expiry.
    pub expires_at: Option<Timestamp>,
}

/// Returns the networks of at most `limit` sources.
pub async fn networks(pool: &PgPool, limit: i64) -> Result<Vec<AgentNetworks>, sqlx::Error> {
    sqlx::query_as!(
        AgentNetworks,
        "SELECT source, networks, read_at FROM agent_networks ORDER BY source LIMIT $1",
        limit
    )
    .fetch_all(pool)
    .await
}

/// Returns the networks of one source; `None` if they were never read.
pub async fn find_networks(pool: &PgPool, source: &str) -> Result<Option<AgentNetworks>, sqlx::Error> {
    sqlx::query_as!(AgentNetworks, "SELECT source, networks, read_at FROM agent_networks WHERE source = $1", source)
        .fetch_optional(pool)
        .await
}

/// Replaces the networks of a source.
pub async fn replace_networks(pool: &PgPool, read: &AgentNetworks) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO agent_networks (source, networks, read_at) VALUES ($1, $2, $3)
         ON CONFLICT (source) DO UPDATE SET networks = excluded.networks, read_at = excluded.read_at",
        read.source,
        &read.networks,
        read.read_at as Timestamp,
    )
    .execute(pool)
    .await
    .map(drop)
}

/// Returns at most `limit` keys that are valid at `now`.
pub async fn keys(pool: &PgPool, now: Timestamp, limit: i64) -> Result<Vec<AgentKey>, sqlx::Error> {
    sqlx::query_as!(
        AgentKey,
        "SELECT key_id, agent, public_key, expires_at FROM agent_keys
         WHERE expires_at IS NULL OR expires_at > $1 ORDER BY key_id LIMIT $2",
        now as Timestamp,
        limit,
    )
    .fetch_all(pool)
    .await
}

/// Replaces the keys of an agent. A key that another agent already has stays with that agent.
pub async fn replace_keys(pool: &PgPool, agent: &str, keys: &[AgentKey]) -> Result<(), sqlx::Error> {
    let ids: Vec<String> = keys.iter().map(|key| key.key_id.clone()).collect();
    let public_keys: Vec<Vec<u8>> = keys.iter().map(|key| key.public_key.clone()).collect();
    let ends: Vec<Option<Timestamp>> = keys.iter().map(|key| key.expires_at).collect();
    let mut tx = pool.begin().await?;
    sqlx::query!("DELETE FROM agent_keys WHERE agent = $1 AND key_id <> ALL ($2)", agent, &ids)
        .execute(&mut *tx)
        .await?;
    sqlx::query!(
        "INSERT INTO agent_keys AS known (key_id, agent, public_key, expires_at)
         SELECT key_id, $1, public_key, expires_at FROM unnest($2::text[], $3::bytea[], $4::timestamptz[])
             AS given (key_id, public_key, expires_at)
         ON CONFLICT (key_id) DO UPDATE SET expires_at = excluded.expires_at WHERE known.agent = excluded.agent",
        agent,
        &ids,
        &public_keys,
        &ends as &[Option<Timestamp>],
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await
}

/// Returns those of `urls` that are due to be read, each with its number of consecutive failures.
pub async fn filter_due(pool: &PgPool, urls: &[String], now: Timestamp) -> Result<Vec<(String, i32)>, sqlx::Error> {
    let due = sqlx::query!(
        r#"SELECT given.url AS "url!", coalesce(source.failures, 0) AS "failures!"
           FROM unnest($1::text[]) AS given (url) LEFT JOIN agent_sources AS source ON source.url = given.url
           WHERE source.read_again IS NULL OR source.read_again <= $2"#,
        urls,
        now as Timestamp,
    )
    .fetch_all(pool)
    .await?;
    Ok(due.into_iter().map(|row| (row.url, row.failures)).collect())
}

/// Records the next time to read a URL, and its number of consecutive failures.
pub async fn record_attempt(pool: &PgPool, url: &str, read_again: Timestamp, failures: i32) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO agent_sources (url, read_again, failures) VALUES ($1, $2, $3)
         ON CONFLICT (url) DO UPDATE SET read_again = excluded.read_again, failures = excluded.failures",
        url,
        read_again as Timestamp,
        failures,
    )
    .execute(pool)
    .await
    .map(drop)
}
