//! Packs that are no longer needed: queued when a deployment was deleted, left behind by a crash, or long in the trash.

use std::time::Duration;

use db::upkeep::backups;

use super::{Batch, Job};
use crate::{
    app::App,
    trash::{remove, sweep, tend},
};

/// Moves queued packs to the trash.
pub(super) struct Remove;

impl Job for Remove {
    // A backup holds this lease meanwhile. Not the name of the version before, which deletes: that one gets no lease any more.
    const NAME: &'static str = backups::TRASH_PACKS;
    const EVERY: Duration = Duration::from_secs(5);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        Ok(Batch::of(remove::run(app).await?, remove::BATCH))
    }
}

/// Looks through the store for packs without a record. One run looks at some of them, and the next one goes on there.
pub(super) struct Sweep;

impl Job for Sweep {
    // Not the name of the version before, which deletes what it finds: that one gets no lease any more.
    const NAME: &'static str = "sweep the store";
    const EVERY: Duration = Duration::from_mins(5);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let swept = sweep::run(app).await?;
        Ok(Batch { done: swept.moved as u64, full: false })
    }
}

/// Brings packs back from the trash that the database wants, and deletes those whose time is over.
pub(super) struct Tend;

impl Job for Tend {
    const NAME: &'static str = "tend the trash";
    const EVERY: Duration = Duration::from_mins(1);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let tended = tend::run(app).await?;
        Ok(Batch { done: (tended.restored + tended.purged) as u64, full: tended.is_partial })
    }
}
