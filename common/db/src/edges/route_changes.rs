//! Changes that the edges must learn of, in the order of their commits. See [`domain::changes`].

use domain::{
    Epoch, Position, Timestamp,
    addresses::HostKey,
    changes::{RouteChange, Subject, Touched},
};
use sqlx::{PgConnection, PgExecutor};

/// Records, in the transaction that makes it true, that edges must forget what they know of the touched subject.
///
/// Belongs last in the transaction: the counter's row stays locked until the commit, which makes `seq` follow the order of
/// commits, and makes every other change wait. Admin's `Change` calls it, and nothing else there does.
///
/// A trigger of the counter begins another epoch when the database's history is another than at the last change.
pub async fn record(conn: &mut PgConnection, touched: Touched, now: Timestamp) -> Result<RouteChange, sqlx::Error> {
    let Touched { subject, hosts } = touched;
    let hosts: Vec<String> = hosts.iter().map(HostKey::label).collect();
    record_names(conn, subject, hosts, now).await
}

/// Does what [`record`] does of a subject whose hosts are names: those that a certificate covers.
pub(crate) async fn record_names(
    conn: &mut PgConnection,
    subject: Subject,
    hosts: Vec<String>,
    now: Timestamp,
) -> Result<RouteChange, sqlx::Error> {
    let row = sqlx::query!(
        r#"WITH next AS (UPDATE route_counter SET last_seq = last_seq + 1 RETURNING last_seq, epoch)
         INSERT INTO route_changes (seq, subject, hosts, created_at)
         SELECT last_seq, $1, $2, $3 FROM next
         RETURNING seq, nonce, (SELECT epoch FROM next) AS "epoch!: Epoch""#,
        subject.as_str(),
        &hosts,
        now,
    )
    .fetch_one(conn)
    .await?;
    Ok(RouteChange { seq: row.seq, subject, hosts, epoch: Some(row.epoch), nonce: row.nonce })
}

/// The changes that the database has, from one on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The position of the newest change.
    pub newest: Position,
    /// The changes asked for, oldest first. Older ones were pruned when the first is not the one asked for.
    pub changes: Vec<RouteChange>,
}

/// Returns the newest position and, of the same snapshot, at most `limit` changes from `seq` on, that one included. Without
/// a `seq` it is the newest change alone.
pub async fn from(db: impl PgExecutor<'_>, seq: Option<i64>, limit: i64) -> Result<Found, sqlx::Error> {
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
    let newest = Position { epoch: first.epoch.clone(), seq: first.last_seq };
    let changes = rows.into_iter().filter_map(|row| {
        let (seq, subject, hosts) = (row.seq?, row.subject?, row.hosts?);
        Some(RouteChange { seq, subject, hosts, epoch: Some(row.epoch), nonce: row.nonce })
    });
    Ok(Found { newest, changes: changes.collect() })
}

/// Returns at most `limit` changes committed before `before` that are not marked as sent, oldest first.
pub async fn unsent(db: impl PgExecutor<'_>, before: Timestamp, limit: i64) -> Result<Vec<RouteChange>, sqlx::Error> {
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

/// Deletes at most `limit` sent changes made before `before`, and returns how many there were. Keeps the newest: by it the edges
/// tell that nothing was lost when the epoch has changed.
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
