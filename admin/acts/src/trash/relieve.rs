//! Deletes packs from the trash early: the oldest packs of accounts that have deleted more than their plan allows to
//! store.
//!
//! The trash counts against no plan, so that an account that deletes a large site can publish another. Without a bound,
//! an account that publishes and deletes all day would fill the store for [`config::Store::trash_days`]. A problem that
//! keeps [`tend`](super::tend) from deleting stops this as well; an account can publish nothing more once it has [twice
//! its limit](domain::limits::DELETED_PER_STORED).

use app::{App, metrics};
use db::{
    billing::plan,
    upkeep::{
        held_packs,
        store_sweep::{self, PackRecord},
    },
};
use domain::{Account, DeploymentId};

use super::{find_records, guard::ClockReadings};

/// The most packs of one account deleted in one run, so that it ends well within its job's lease.
const PURGED: i64 = 200;

/// Deletes packs of the accounts that pay for any of `ids`, until none has more in the store than its plan allows to
/// store. Returns the number of deleted packs.
pub(super) async fn run(app: &App, ids: &[DeploymentId]) -> anyhow::Result<usize> {
    let mut purged = 0;
    let mut is_in_order = None;
    for payer in held_packs::payers(&app.db, ids).await? {
        let allowed = plan::limits(&app.db, app.plans(), &payer).await?.storage_bytes;
        let held = held_packs::find_for_payer(&app.db, &payer, app.clock.now()).await?;
        let over = held.total().saturating_sub(allowed).min(held.trashed);
        if over == 0 {
            continue;
        }
        // Check this only if an account is over its limit: reading the store's clock costs a request.
        let is_in_order = match is_in_order {
            Some(known) => known,
            None => *is_in_order.insert(can_purge(app).await?),
        };
        if !is_in_order {
            break;
        }
        // A fault of one account's packs does not stop others'.
        match purge_account(app, &payer, over).await {
            Ok(its) => purged += its,
            Err(error) => {
                tracing::warn!(error = format!("{error:#}"), account = %payer, "packs could not be deleted from the trash early");
            }
        }
    }
    Ok(purged)
}

async fn can_purge(app: &App) -> anyhow::Result<bool> {
    if app.store.is_ruled_elsewhere() {
        return Ok(false);
    }
    let state = store_sweep::state(&app.db).await?;
    Ok(state.stopped_for.is_none() && state.in_step_until.is_some() && ClockReadings::read(app).await?.are_in_step())
}

/// Deletes the account's oldest packs in the trash until `over` bytes are freed.
async fn purge_account(app: &App, payer: &Account, over: u64) -> anyhow::Result<usize> {
    let (mut purged, mut bytes) = (0, 0_u64);
    for (id, its_bytes) in held_packs::oldest_trashed(&app.db, payer, PURGED).await? {
        if bytes >= over {
            break;
        }
        // Check immediately before deletion: a deployment may have been restored. A pack queued again is already in the
        // trash and is counted twice.
        let record = find_records(app, std::slice::from_ref(&id)).await?;
        if !matches!(record[..], [(_, PackRecord::Deleted)]) {
            continue;
        }
        app.store.purge(&id).await?;
        store_sweep::forget(&app.db, &id).await?;
        metrics::pack_purged_early();
        (purged, bytes) = (purged + 1, bytes.saturating_add(its_bytes));
    }
    if purged > 0 {
        tracing::info!(
            account = %payer, packs = purged, bytes, days = app.config.store.trash_days,
            "an account has deleted more than its plan allows to store; its oldest packs in the trash are deleted before their days are over"
        );
    }
    Ok(purged)
}
