//! What becomes of packs that are no longer needed: they go to the store's trash, and are deleted for good days later.
//!
//! The database may be wrong about what is needed: an older dump was restored, or this is another service's database. So
//! nothing is deleted on its word alone. [`remove`] moves what deletions queued, [`sweep`] what has no record, within bounds;
//! [`tend`] brings back what the database wants after all, and deletes what was in the trash for long enough by the store's
//! clock. Both have `relieve` delete the oldest packs of accounts that have deleted more than their plan allows to store. Jobs run them,
//! and the commands of `admin store`.

mod guard;
mod relieve;
pub mod remove;
pub mod sweep;
pub mod tend;

use db::upkeep::store_sweep::{self, PackRecord};
use domain::DeploymentId;

pub use self::guard::Reason;
use crate::app::App;

/// Most packs looked up in one statement.
const LOOK_UP: usize = 1_000;

/// Says of each pack what the database says of it.
async fn records(app: &App, ids: &[DeploymentId]) -> anyhow::Result<Vec<(DeploymentId, PackRecord)>> {
    let mut records = Vec::with_capacity(ids.len());
    for chunk in ids.chunks(LOOK_UP) {
        records.extend(db::in_time(store_sweep::records(&app.db, chunk)).await?);
    }
    Ok(records)
}
