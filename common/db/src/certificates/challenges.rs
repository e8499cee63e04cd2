//! Responses to the challenges of certificate authorities, which edges look up.

use domain::Timestamp;
use sqlx::PgExecutor;

/// The kind of a challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, sqlx::Type)]
#[sqlx(type_name = "text")]
pub enum ChallengeKind {
    /// A file over plain HTTP (RFC 8555, 8.3).
    #[sqlx(rename = "http-01")]
    Http01,
    /// A certificate for the protocol `acme-tls/1` (RFC 8737).
    #[sqlx(rename = "tls-alpn-01")]
    TlsAlpn01,
    /// A TXT record (RFC 8555, 8.4). It is stored so that it is removed from the zone even after a crash.
    #[sqlx(rename = "dns-01")]
    Dns01,
}

impl ChallengeKind {
    /// Returns the kind's name in ACME.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http01 => "http-01",
            Self::TlsAlpn01 => "tls-alpn-01",
            Self::Dns01 => "dns-01",
        }
    }
}

/// A challenge with its response.
#[derive(Debug, Clone, Copy)]
pub struct AcmeChallenge<'a> {
    /// The kind.
    pub kind: ChallengeKind,
    /// The hostname to be validated; for `dns-01` the name of the record.
    pub name: &'a str,
    /// The authority's token.
    pub token: &'a str,
    /// The response: the key authorization; for `dns-01` the record's value.
    pub answer: &'a str,
    /// The time from which the response may be deleted.
    pub expires_at: Timestamp,
}

/// Stores a challenge, which every edge answers from the commit on.
pub async fn put(db: impl PgExecutor<'_>, challenge: &AcmeChallenge<'_>) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO acme_challenges (kind, name, token, answer, expires_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (kind, name, token) DO UPDATE SET answer = excluded.answer, expires_at = excluded.expires_at",
        challenge.kind.as_str(),
        challenge.name,
        challenge.token,
        challenge.answer,
        challenge.expires_at,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Removes a completed challenge.
pub async fn remove(db: impl PgExecutor<'_>, kind: ChallengeKind, name: &str, token: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "DELETE FROM acme_challenges WHERE kind = $1 AND name = $2 AND token = $3",
        kind.as_str(),
        name,
        token,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns the response to a challenge by its token.
pub async fn find_response(
    db: impl PgExecutor<'_>,
    kind: ChallengeKind,
    name: &str,
    token: &str,
    now: Timestamp,
) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar!(
        "SELECT answer FROM acme_challenges WHERE kind = $1 AND name = $2 AND token = $3 AND expires_at > $4",
        kind.as_str(),
        name,
        token,
        now,
    )
    .fetch_optional(db)
    .await
}

/// Returns the response to the newest challenge of a name, because `tls-alpn-01` carries no token.
pub async fn find_newest_response(
    db: impl PgExecutor<'_>,
    kind: ChallengeKind,
    name: &str,
    now: Timestamp,
) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar!(
        "SELECT answer FROM acme_challenges WHERE kind = $1 AND name = $2 AND expires_at > $3
           ORDER BY expires_at DESC LIMIT 1",
        kind.as_str(),
        name,
        now,
    )
    .fetch_optional(db)
    .await
}

/// A stored response with its key.
#[derive(Debug, Clone)]
pub struct StoredResponse {
    /// The kind.
    pub kind: ChallengeKind,
    /// The hostname to be validated; for `dns-01` the name of the record.
    pub name: String,
    /// The authority's token.
    pub token: String,
    /// The response; for `dns-01` the record's value.
    pub answer: String,
}

/// Returns at most `limit` responses for any of `names`.
pub async fn list_for_names(
    db: impl PgExecutor<'_>,
    names: &[String],
    limit: i64,
) -> Result<Vec<StoredResponse>, sqlx::Error> {
    sqlx::query_as!(
        StoredResponse,
        "SELECT kind, name, token, answer FROM acme_challenges WHERE name = ANY ($1) LIMIT $2",
        names,
        limit,
    )
    .fetch_all(db)
    .await
}

/// Expires the responses for any of `names`, so that the clean-up of expired ones removes them.
pub async fn expire(db: impl PgExecutor<'_>, names: &[String], now: Timestamp) -> Result<(), sqlx::Error> {
    sqlx::query!("UPDATE acme_challenges SET expires_at = $2 WHERE name = ANY ($1) AND expires_at > $2", names, now)
        .execute(db)
        .await
        .map(drop)
}

/// Returns at most `limit` expired responses, the oldest first.
pub async fn list_expired(
    db: impl PgExecutor<'_>,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<StoredResponse>, sqlx::Error> {
    sqlx::query_as!(
        StoredResponse,
        "SELECT kind, name, token, answer FROM acme_challenges WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2",
        now,
        limit,
    )
    .fetch_all(db)
    .await
}
