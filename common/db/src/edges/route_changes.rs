//! Changes that the edges must learn of, in the order of their commits. See [`domain::changes`].

use domain::{
    Timestamp,
    addresses::HostKey,
    changes::{RouteChange, Subject, Touched},
};
use sqlx::{PgConnection, PgExecutor};

/// Records, in the transaction that makes it true, that edges must forget what they know of the touched subject.
///
/// Belongs last in the transaction: the counter's row stays locked until the commit, which makes `seq` follow the order of
/// commits, and makes every other change wait. Admin's `Change` calls it, and nothing else there does.
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
    let seq = sqlx::query_scalar!(
        "WITH next AS (UPDATE route_counter SET last_seq = last_seq + 1 RETURNING last_seq)
         INSERT INTO route_changes (seq, subject, hosts, created_at)
         SELECT last_seq, $1, $2, $3 FROM next RETURNING seq",
        subject.as_str(),
        &hosts,
        now,
    )
    .fetch_one(conn)
    .await?;
    Ok(RouteChange { seq, subject, hosts })
}

/// Returns at most `limit` changes after `seq`, oldest first. When the first is not `seq + 1`, older ones were pruned.
pub async fn since(db: impl PgExecutor<'_>, seq: i64, limit: i64) -> Result<Vec<RouteChange>, sqlx::Error> {
    sqlx::query_as!(
        RouteChange,
        "SELECT seq, subject, hosts FROM route_changes
           WHERE seq > $1 ORDER BY seq LIMIT $2",
        seq,
        limit,
    )
    .fetch_all(db)
    .await
}

/// Returns at most `limit` changes committed before `before` that are not marked as sent, oldest first.
pub async fn unsent(db: impl PgExecutor<'_>, before: Timestamp, limit: i64) -> Result<Vec<RouteChange>, sqlx::Error> {
    sqlx::query_as!(
        RouteChange,
        "SELECT seq, subject, hosts FROM route_changes
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

/// Deletes at most `limit` sent changes made before `before`, and returns how many there were.
pub async fn prune(db: impl PgExecutor<'_>, before: Timestamp, limit: i64) -> Result<u64, sqlx::Error> {
    let pruned = sqlx::query!(
        "DELETE FROM route_changes WHERE seq IN (
             SELECT seq FROM route_changes WHERE created_at < $1 AND published_at IS NOT NULL ORDER BY seq LIMIT $2)",
        before,
        limit,
    )
    .execute(db)
    .await?;
    Ok(pruned.rows_affected())
}
