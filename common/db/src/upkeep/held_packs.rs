//! The packs of deleted deployments that are still in the store, by paying account ([`payer`]). They do not count
//! against the plan, but are bounded by it: an account may have as many bytes in the trash and in restorable projects
//! as its plan allows it to store. Beyond that, its oldest packs in the trash are deleted early.

use domain::{Account, DeploymentId, Timestamp};
use sqlx::PgExecutor;

/// Returns the payer of deleted packs: `owner`, or the creator of an organization without a subscription.
pub async fn payer(db: impl PgExecutor<'_>, owner: &Account) -> Result<Account, sqlx::Error> {
    sqlx::query_scalar!(r#"SELECT payer_of($1) AS "payer!: Account""#, owner.as_str()).fetch_one(db).await
}

/// The bytes of an account's deleted deployments in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldBytes {
    /// The bytes of packs in the trash.
    pub trashed: u64,
    /// The bytes of packs that are due to be moved to the trash.
    pub due: u64,
    /// The bytes of packs whose project can be restored.
    pub restorable: u64,
}

impl HeldBytes {
    /// Returns the total.
    pub fn total(self) -> u64 {
        self.trashed.saturating_add(self.due).saturating_add(self.restorable)
    }
}

/// Returns the bytes of an account's deleted deployments in the store at `now`.
pub async fn find_for_payer(
    db: impl PgExecutor<'_>,
    payer: &Account,
    now: Timestamp,
) -> Result<HeldBytes, sqlx::Error> {
    let held = sqlx::query!(
        r#"SELECT (SELECT COALESCE(sum(bytes), 0)::bigint FROM trashed_packs WHERE payer = $1) AS "trashed!",
                  COALESCE(sum(bytes) FILTER (WHERE next_attempt_at <= $2), 0)::bigint AS "due!",
                  COALESCE(sum(bytes) FILTER (WHERE next_attempt_at > $2), 0)::bigint AS "restorable!"
           FROM pack_removals WHERE payer = $1"#,
        payer.as_str(),
        now,
    )
    .fetch_one(db)
    .await?;
    let bytes = |bytes: i64| u64::try_from(bytes).unwrap_or_default();
    Ok(HeldBytes { trashed: bytes(held.trashed), due: bytes(held.due), restorable: bytes(held.restorable) })
}

/// Returns the accounts that pay for any of the packs `ids` in the trash.
pub async fn payers(db: impl PgExecutor<'_>, ids: &[DeploymentId]) -> Result<Vec<Account>, sqlx::Error> {
    let texts: Vec<String> = ids.iter().map(DeploymentId::to_string).collect();
    sqlx::query_scalar!(
        r#"SELECT DISTINCT payer AS "payer!: Account" FROM trashed_packs
           WHERE deployment_id = ANY($1) AND payer IS NOT NULL"#,
        &texts,
    )
    .fetch_all(db)
    .await
}

/// Returns at most `limit` of the account's packs that have been in the trash longest, each with its bytes.
pub async fn oldest_trashed(
    db: impl PgExecutor<'_>,
    payer: &Account,
    limit: i64,
) -> Result<Vec<(DeploymentId, u64)>, sqlx::Error> {
    let oldest = sqlx::query!(
        r#"SELECT deployment_id, COALESCE(bytes, 0) AS "bytes!" FROM trashed_packs WHERE payer = $1 AND is_deletion
           ORDER BY seen_at_second, deployment_id LIMIT $2"#,
        payer.as_str(),
        limit,
    )
    .fetch_all(db)
    .await?;
    Ok(oldest.into_iter().map(|pack| (pack.deployment_id, u64::try_from(pack.bytes).unwrap_or_default())).collect())
}
