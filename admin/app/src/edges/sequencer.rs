//! Numbers committed changes in batches.
//!
//! A change is committed without a number, so that changes do not wait for one another's commits. While Postgres
//! numbers one batch, further commits join the next. The process that numbers a change also sends it, even if another
//! process committed it.

use std::collections::HashMap;

use db::edges::route_changes::{self, NumberedChange, PendingId};
use domain::changes::{ChangePosition, RouteChange};
use sqlx::PgPool;
use tokio::sync::mpsc;

use super::CommittedChanges;

const ROUND: usize = 256;

/// Numbers committed changes and queues them for sending, for the life of the program.
pub(super) async fn run(mut commits: mpsc::Receiver<CommittedChanges>, outbox: mpsc::Sender<RouteChange>, db: &PgPool) {
    let mut round = Vec::with_capacity(ROUND);
    while commits.recv_many(&mut round, ROUND).await > 0 {
        match number(&round, &outbox, db).await {
            Ok(positions) => {
                for CommittedChanges { ids, reply } in round.drain(..) {
                    let all: Option<Vec<&ChangePosition>> = ids.iter().map(|id| positions.get(id)).collect();
                    let last = all.and_then(|all| all.into_iter().max_by_key(|position| position.seq));
                    // The requester may have stopped waiting.
                    if let (Some(reply), Some(last)) = (reply, last) {
                        let _ = reply.send(last.clone());
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, changes = round.len(), "changes are left without numbers to the job that sends again");
                round.clear();
            }
        }
    }
}

/// Numbers all pending changes, and returns the positions of this round's.
async fn number(
    round: &[CommittedChanges],
    outbox: &mpsc::Sender<RouteChange>,
    db: &PgPool,
) -> Result<HashMap<PendingId, ChangePosition>, sqlx::Error> {
    let mut numbered = Vec::new();
    loop {
        let some = db::in_time(route_changes::number_pending(db)).await?;
        let is_all = some.len() < route_changes::NUMBERED_TOGETHER;
        numbered.extend(some);
        if is_all {
            break;
        }
    }
    for NumberedChange { change, .. } in &numbered {
        if let Err(refused) = outbox.try_send(change.clone()) {
            tracing::warn!(%refused, "a change is left to the job that sends again");
        }
    }
    let place = |NumberedChange { id, change }: NumberedChange| change.position().map(|position| (id, position));
    let mut positions: HashMap<_, _> = numbered.into_iter().filter_map(place).collect();
    let ids = round.iter().flat_map(|commit| &commit.ids);
    let missing: Vec<PendingId> = ids.filter(|id| !positions.contains_key(id)).copied().collect();
    if !missing.is_empty() {
        // Another process numbered these, and sends them.
        positions.extend(db::in_time(route_changes::find_numbered(db, &missing)).await?.into_iter().filter_map(place));
    }
    Ok(positions)
}
