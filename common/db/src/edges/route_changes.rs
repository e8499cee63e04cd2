//! Changes that the edges must apply, in the order of their commits. See [`domain::changes`].

use domain::{
    ChangePosition, Epoch, Timestamp,
    addresses::HostKey,
    changes::{ChangeSubject, PendingChange, RouteChange},
};
use sqlx::{PgConnection, PgExecutor};

/// The maximum number of changes that one call of [`number_pending`] numbers.
pub const NUMBERED_TOGETHER: usize = 1_000;
/// The number of newest changes that [`find_numbered`] searches.
const LOOKED_THROUGH: i64 = 100_000;

/// The id of a recorded change without a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PendingId(i64);

/// A numbered change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedChange {
    /// The id that it was recorded under.
    pub id: PendingId,
    /// The change.
    pub change: RouteChange,
}

/// Records, in the transaction of the change, that edges must forget the touched subject. After the commit, [`number_pending`]
/// turns it into a [`RouteChange`].
///
/// In admin, only `Change` calls it.
pub async fn record(conn: &mut PgConnection, touched: PendingChange, now: Timestamp) -> Result<PendingId, sqlx::Error> {
    let PendingChange { subject, hosts } = touched;
    let hosts: Vec<String> = hosts.iter().map(HostKey::label).collect();
    record_names(conn, subject, hosts, now).await
}

/// Records a change like [`record`], for a subject whose hosts are names: those that a certificate covers.
pub(crate) async fn record_names(
    conn: &mut PgConnection,
    subject: ChangeSubject,
    hosts: Vec<String>,
    now: Timestamp,
) -> Result<PendingId, sqlx::Error> {
    let id = sqlx::query_scalar!(
        "INSERT INTO pending_route_changes (subject, hosts, created_at) VALUES ($1, $2, $3) RETURNING id",
        subject.as_str(),
        &hosts,
        now,
    )
    .fetch_one(conn)
    .await?;
    Ok(PendingId(id))
}

/// Numbers at most [`NUMBERED_TOGETHER`] committed changes, and returns them in that order. The caller must send them
/// to the edges, even those that other programs recorded.
///
/// A trigger on the counter begins a new epoch when the database's history has changed since the last number.
pub async fn number_pending(db: impl PgExecutor<'_>) -> Result<Vec<NumberedChange>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"SELECT pending_id AS "pending_id!", seq AS "seq!", subject AS "subject!: ChangeSubject", hosts AS "hosts!",
                  epoch AS "epoch!: Epoch", nonce AS "nonce!"
           FROM number_route_changes($1) ORDER BY seq"#,
        i32::try_from(NUMBERED_TOGETHER).unwrap_or(i32::MAX),
    )
    .fetch_all(db)
    .await?;
    let numbered = rows.into_iter().map(|row| NumberedChange {
        id: PendingId(row.pending_id),
        change: RouteChange {
            seq: row.seq,
            subject: row.subject,
            hosts: row.hosts,
            epoch: Some(row.epoch),
            nonce: Some(row.nonce),
        },
    });
    Ok(numbered.collect())
}

/// Returns those of the given changes that any program has numbered recently.
pub async fn find_numbered(db: impl PgExecutor<'_>, ids: &[PendingId]) -> Result<Vec<NumberedChange>, sqlx::Error> {
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let rows = sqlx::query!(
        r#"SELECT pending_id AS "pending_id!", seq, subject, hosts, epoch, nonce
           FROM route_changes, route_counter
           WHERE seq > (SELECT last_seq FROM route_counter) - $2 AND pending_id = ANY ($1) ORDER BY seq"#,
        &ids,
        LOOKED_THROUGH,
    )
    .fetch_all(db)
    .await?;
    let numbered = rows.into_iter().map(|row| {
        let (id, epoch) = (PendingId(row.pending_id), Some(row.epoch));
        NumberedChange {
            id,
            change: RouteChange { seq: row.seq, subject: row.subject, hosts: row.hosts, epoch, nonce: row.nonce },
        }
    });
    Ok(numbered.collect())
}

/// Returns whether a change recorded before `before` has no number, because its program ended after the commit.
pub async fn is_any_pending(db: impl PgExecutor<'_>, before: Timestamp) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM pending_route_changes WHERE created_at < $1) AS "is_any!""#,
        before,
    )
    .fetch_one(db)
    .await
}

/// The changes of the database from some number on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundChanges {
    /// The position of the newest change.
    pub newest: ChangePosition,
    /// The requested changes, oldest first. If the first one has another number than requested, older ones were pruned.
    pub changes: Vec<RouteChange>,
}

/// Returns the newest position and, from the same snapshot, at most `limit` changes starting with `seq`, or only the
/// newest change without a `seq`.
pub async fn list_from(db: impl PgExecutor<'_>, seq: Option<i64>, limit: i64) -> Result<FoundChanges, sqlx::Error> {
    let rows = sqlx::query!(
        r#"SELECT c.last_seq, c.epoch, r.seq AS "seq?", r.subject AS "subject?", r.hosts AS "hosts?", r.nonce AS "nonce?"
           FROM route_counter c LEFT JOIN route_changes r ON r.seq >= COALESCE($1, c.last_seq)
           ORDER BY r.seq LIMIT $2"#,
        seq,
        limit,
    )
    .fetch_all(db)
    .await?;
    let first = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    let newest = ChangePosition { epoch: first.epoch.clone(), seq: first.last_seq };
    let changes = rows.into_iter().filter_map(|row| {
        let (seq, subject, hosts) = (row.seq?, row.subject?, row.hosts?);
        Some(RouteChange { seq, subject, hosts, epoch: Some(row.epoch), nonce: row.nonce })
    });
    Ok(FoundChanges { newest, changes: changes.collect() })
}

/// Returns at most `limit` changes committed before `before` that are not marked as sent, oldest first.
pub async fn list_unsent(
    db: impl PgExecutor<'_>,
    before: Timestamp,
    limit: i64,
) -> Result<Vec<RouteChange>, sqlx::Error> {
    sqlx::query_as!(
        RouteChange,
        "SELECT seq, subject, hosts, epoch, nonce FROM route_changes, route_counter
           WHERE published_at IS NULL AND created_at < $1 ORDER BY seq LIMIT $2",
        before,
        limit,
    )
    .fetch_all(db)
    .await
}

/// Marks the changes with these numbers as sent to the edges.
pub async fn mark_sent(db: impl PgExecutor<'_>, seqs: &[i64], now: Timestamp) -> Result<(), sqlx::Error> {
    sqlx::query!("UPDATE route_changes SET published_at = $2 WHERE seq = ANY($1) AND published_at IS NULL", seqs, now,)
        .execute(db)
        .await
        .map(drop)
}

/// Deletes at most `limit` sent changes made before `before`, and returns their number. Keeps the newest change, by
/// which edges detect after an epoch change that nothing was lost.
pub async fn prune(db: impl PgExecutor<'_>, before: Timestamp, limit: i64) -> Result<u64, sqlx::Error> {
    let pruned = sqlx::query!(
        "DELETE FROM route_changes WHERE seq IN (
             SELECT seq FROM route_changes
             WHERE created_at < $1 AND published_at IS NOT NULL AND seq < (SELECT last_seq FROM route_counter)
             ORDER BY seq LIMIT $2)",
        before,
        limit,
    )
    .execute(db)
    .await?;
    Ok(pruned.rows_affected())
}
