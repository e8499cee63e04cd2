//! Reservations in Redis whose completions no edge will settle.

use domain::{CompletionId, usage::UsageRow};
use live::{
    Redis, RedisError,
    budgets::{OpenCompletion, ReleaseOutcome},
};

/// Releases the reservations for which `is_orphan` holds, except those being settled. Returns their number.
pub(super) async fn release(redis: &Redis, is_orphan: impl Fn(&OpenCompletion) -> bool) -> Result<usize, RedisError> {
    let mut released = 0;
    for account in redis.accounts_with_open().await? {
        let open = redis.open_completions(&account).await?;
        let rows: Vec<&UsageRow> = open.iter().filter(|open| is_orphan(open)).map(|open| &open.row).collect();
        for rows in rows.chunks(limits::REDIS_BATCH) {
            let outcomes = redis.release(&account, rows).await?;
            released += outcomes.iter().filter(|(_, outcome)| *outcome == ReleaseOutcome::Released).count();
        }
    }
    Ok(released)
}

/// Reservations of a dead edge whose completions were never sent to a provider.
#[derive(Default)]
pub(super) struct UnsentReservations {
    pub(super) released: usize,
    /// The rows that others have settled or are settling.
    pub(super) settled: Vec<UsageRow>,
}

/// Releases reservations of a dead edge whose completions were never sent to a provider.
///
/// An edge journals a completion before it sends it, so all reservations without a record are released. If the edge had
/// to continue without its journal, as noted in Redis, this releases nothing and returns `None`: they count as
/// estimates.
pub(super) async fn release_unsent(
    redis: &Redis,
    edge: &str,
    is_journaled: impl Fn(&CompletionId) -> bool,
) -> Result<Option<UnsentReservations>, RedisError> {
    if redis.has_gaps(edge).await? {
        return Ok(None);
    }
    let released = release(redis, |open| open.edge == edge && !is_journaled(&open.row.id)).await?;
    // Read last: reservations skipped above because they are claimed are noted by then.
    let mut settled = redis.settled_completions(edge).await?;
    settled.retain(|row| !is_journaled(&row.id));
    Ok(Some(UnsentReservations { released, settled }))
}
