//! Reservations in Redis whose completions nobody is going to settle.

use domain::{CompletionId, usage::UsageRow};
use live::{
    Redis, RedisError,
    budgets::{Open, Release},
};

use crate::limits;

/// Releases the reservations for which `is_orphan` holds, except those that somebody is settling. Returns their number.
pub(super) async fn release(redis: &Redis, is_orphan: impl Fn(&Open) -> bool) -> Result<usize, RedisError> {
    let mut released = 0;
    for account in redis.accounts_with_open().await? {
        let open = redis.open_of(&account).await?;
        let rows: Vec<&UsageRow> = open.iter().filter(|open| is_orphan(open)).map(|open| &open.row).collect();
        for rows in rows.chunks(limits::REDIS_BATCH) {
            let outcomes = redis.release(&account, rows).await?;
            released += outcomes.iter().filter(|(_, outcome)| *outcome == Release::Released).count();
        }
    }
    Ok(released)
}

/// What a dead edge reserved and did not come to ask a provider for.
#[derive(Default)]
pub(super) struct Unasked {
    /// The number of reservations that were released.
    pub(super) released: usize,
    /// What others have settled of it, or are settling.
    pub(super) settled: Vec<UsageRow>,
}

/// Releases what a dead edge reserved and did not come to ask a provider for.
///
/// An edge asks only for what is in its journal, so `is_journaled` must hold for all of it. Where the edge had to go on without, it has
/// said so in Redis; then nothing is released, the reservations count as estimates, and there is nothing to return.
pub(super) async fn release_unasked(
    redis: &Redis,
    edge: &str,
    is_journaled: impl Fn(&CompletionId) -> bool,
) -> Result<Option<Unasked>, RedisError> {
    if redis.has_gaps(edge).await? {
        return Ok(None);
    }
    let released = release(redis, |open| open.edge == edge && !is_journaled(&open.row.id)).await?;
    // Not before: what was left above because it is claimed had been noted then.
    let mut settled = redis.settled_of(edge).await?;
    settled.retain(|row| !is_journaled(&row.id));
    Ok(Some(Unasked { released, settled }))
}
