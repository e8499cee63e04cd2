//! The trash of the store: packs that are no longer needed are moved there, and deleted permanently days later.
//!
//! The database may be wrong about which packs are needed: an older dump was restored, or the database belongs to
//! another service. So nothing is deleted on its word alone. [`remove`] moves packs that deletions queued, [`sweep`]
//! moves packs without a record, within bounds; [`tend`] restores packs that the database references after all, and
//! deletes those that have been in the trash for long enough by the store's clock. `remove` and `tend` call `relieve`,
//! which deletes the oldest packs of accounts that have deleted more than their plan allows to store. Jobs and the
//! commands of `admin store` run them.

mod guard;
mod relieve;
pub mod remove;
pub mod sweep;
pub mod tend;

use app::App;
use db::upkeep::store_sweep::{self, PackRecord};
use domain::DeploymentId;

pub use self::guard::SweepStopReason;

const LOOK_UP: usize = 1_000;

async fn find_records(app: &App, ids: &[DeploymentId]) -> anyhow::Result<Vec<(DeploymentId, PackRecord)>> {
    let mut records = Vec::with_capacity(ids.len());
    for chunk in ids.chunks(LOOK_UP) {
        records.extend(db::in_time(store_sweep::find_records(&app.db, chunk)).await?);
    }
    Ok(records)
}
