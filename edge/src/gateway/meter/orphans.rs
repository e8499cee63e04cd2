//! Reservations in Redis whose completions nobody is going to settle.

use domain::{CompletionId, usage::UsageRow};
use live::{
    Redis, RedisError,
    budgets::{Open, Release},
};

use super::journal::Completions;
use crate::limits;

/// Releases the reservations for which `is_orphan` holds, except those that somebody is settling. Returns their number.
pub(super) async fn release(redis: &Redis, is_orphan: impl Fn(&Open) -> bool) -> Result<usize, RedisError> {
    let mut released = 0;
    for account in redis.accounts_with_open().await? {
        let open = redis.open_of(&account).await?;
        let ids: Vec<&CompletionId> = open.iter().filter(|open| is_orphan(open)).map(|open| &open.row.id).collect();
        for ids in ids.chunks(limits::REDIS_BATCH) {
            let outcomes = redis.release(&account, ids).await?;
            released += outcomes.iter().filter(|outcome| **outcome == Release::Released).count();
        }
    }
    Ok(released)
}

/// Releases what a dead edge reserved and did not come to ask a provider for. Returns the number of those reservations, and
/// what others have settled of such, or are settling.
///
/// An edge asks only for what is in its journal, so `journal` must have all of it. Where the edge had to go on without, it has
/// said so in Redis; then nothing is released, and the reservations count as estimates.
pub(super) async fn release_unasked(
    redis: &Redis,
    edge: &str,
    journal: &Completions,
) -> Result<(usize, Vec<UsageRow>), RedisError> {
    if redis.has_gaps(edge).await? {
        return Ok((0, Vec::new()));
    }
    let released = release(redis, |open| open.edge == edge && !journal.contains(&open.row.id)).await?;
    // Not before: what was left above because it is claimed had been noted then.
    let mut settled = redis.settled_of(edge).await?;
    settled.retain(|row| !journal.contains(&row.id));
    Ok((released, settled))
}
