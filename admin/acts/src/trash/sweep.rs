//! Scans the store page by page for packs without a record, and moves them to the trash, unless something is wrong.
//!
//! A pack without a record was left behind by a program that died at the wrong moment, so there are few of them. If
//! there are many, or if they were written after this database last knew all packs, the database lacks their records.

use std::time::Duration;

use anyhow::Context as _;
use app::App;
use db::upkeep::store_sweep::{self, PackRecord, SweepState};
use domain::{DeploymentId, Timestamp};
use identity::StoreRuler;
use packs::StoredPack;

use super::{
    SweepStopReason, find_records,
    guard::{self, CLOCKS_APART, ClockReadings},
};

/// The age from which a pack without a record counts as orphaned. A pack that is being published may have no record
/// yet.
const ORPHANED_AFTER: Duration = Duration::from_hours(1);
const RUN: usize = 10_000;
/// The packs newer than the last run that are checked before any pack is moved.
const NEWEST: usize = 1_000;
const NAMED: usize = 20;

/// The outcome of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepReport {
    /// The packs moved to the trash.
    pub moved: usize,
    /// Whether this round has more packs to check.
    pub is_partial: bool,
    /// The reason why nothing was moved; `None` if nothing was wrong.
    pub stopped: Option<SweepStopReason>,
}

/// The result of a scan of the whole store.
#[derive(Debug, Clone)]
pub struct SweepPreview {
    /// The number of packs in the store.
    pub packs: usize,
    /// The packs without a record that are old enough to be moved.
    pub unknown: usize,
    /// The packs of failed uploads and deleted deployments.
    pub unwanted: usize,
    /// The first packs without a record.
    pub named: Vec<DeploymentId>,
    /// The reason why the job does not move them.
    pub stopped: Option<SweepStopReason>,
}

struct SweepPage {
    last: Option<DeploymentId>,
    packs: usize,
    /// Packs without a record that are old enough to be moved.
    unknown: Vec<StoredPack>,
    /// Packs without a record that may be in publication.
    young: Vec<StoredPack>,
    /// Packs of failed uploads and deleted deployments that are old enough to be moved.
    unwanted: Vec<DeploymentId>,
}

impl SweepPage {
    async fn after(app: &App, after: Option<&DeploymentId>, most: usize, now: Timestamp) -> anyhow::Result<Self> {
        let packs = app.store.page(after, most).await?;
        let ids: Vec<DeploymentId> = packs.iter().map(|pack| pack.id.clone()).collect();
        let records: std::collections::HashMap<_, _> = find_records(app, &ids).await?.into_iter().collect();
        let mut page = Self {
            last: ids.last().cloned(),
            packs: packs.len(),
            unknown: Vec::new(),
            young: Vec::new(),
            unwanted: Vec::new(),
        };
        for pack in packs {
            let is_old = now.since(pack.written_at) > ORPHANED_AFTER;
            match records.get(&pack.id) {
                Some(PackRecord::Unknown) | None if is_old => page.unknown.push(pack),
                Some(PackRecord::Unknown) | None => page.young.push(pack),
                Some(PackRecord::Failed | PackRecord::Deleted) if is_old => page.unwanted.push(pack.id),
                Some(PackRecord::Failed | PackRecord::Deleted | PackRecord::Wanted | PackRecord::Queued) => {}
            }
        }
        Ok(page)
    }

    fn is_last(&self, most: usize) -> bool {
        self.packs < most
    }
}

/// Checks the next packs, and moves those without a record to the trash.
pub async fn run(app: &App) -> anyhow::Result<SweepReport> {
    let clocks = ClockReadings::read(app).await?;
    if !clocks.are_in_step() {
        return stopped(app, SweepStopReason::Clocks, &format!("{clocks:?}")).await;
    }
    let state = store_sweep::state(&app.db).await?;
    let newest = NewestPacks::load(app, &state, clocks).await?;
    if newest.unknown > 0 {
        let detail = format!("{} packs that are newer than {} are unknown", newest.unknown, newest.since());
        return stopped(app, SweepStopReason::OlderDatabase, &detail).await;
    }
    let page = SweepPage::after(app, state.position.as_ref(), RUN, clocks.store).await?;
    let looked = state.looked + count(page.packs);
    let unknown = state.unknown + count(page.unknown.len());
    if unknown > 0 && guard::is_over_limit(looked, unknown) {
        let detail = format!("{unknown} of {looked} packs are unknown");
        return stopped(app, SweepStopReason::Share, &detail).await;
    }
    if app.store.is_ruled_elsewhere() {
        return stopped(app, SweepStopReason::Copy, app.config.store.url.as_str()).await;
    }
    let moved = move_all(app, &page).await?;
    let is_partial = !page.is_last(RUN);
    let (position, looked, unknown) = if is_partial { (page.last.as_ref(), looked, unknown) } else { (None, 0, 0) };
    store_sweep::advance(&app.db, newest.in_step_until, position, looked, unknown).await?;
    guard::export_stop_reason(None);
    Ok(SweepReport { moved, is_partial, stopped: None })
}

async fn stopped(app: &App, reason: SweepStopReason, detail: &str) -> anyhow::Result<SweepReport> {
    guard::stop(app, reason, detail).await?;
    Ok(SweepReport { moved: 0, is_partial: false, stopped: Some(reason) })
}

/// The packs that were written since the database last knew all of them.
struct NewestPacks {
    /// The time until which the database knew all packs; `None` if it is new.
    before: Option<Timestamp>,
    unknown: usize,
    /// The time until which the database knows all packs now.
    in_step_until: Timestamp,
}

impl NewestPacks {
    async fn load(app: &App, state: &SweepState, clocks: ClockReadings) -> anyhow::Result<Self> {
        let before = match state.in_step_until {
            Some(time) => Some(time),
            // In a database older than this column, its newest record gives a lower bound.
            None => store_sweep::newest_deployment(&app.db).await?.map(|id| id.time()),
        };
        let first = before.map(|time| DeploymentId::first_of(time - CLOCKS_APART));
        let page = SweepPage::after(app, first.as_ref(), NEWEST, clocks.store).await?;
        let is_newer = |pack: &StoredPack| before.is_none_or(|before| pack.id.time().max(pack.written_at) > before);
        let unknown = page.unknown.iter().filter(|pack| is_newer(pack)).count();
        // Only an older pack without a record is certainly not in publication.
        let in_doubt = page.young.iter().map(|pack| pack.id.time()).min();
        // Packs after a full page were not checked.
        let seen = page.last.as_ref().filter(|_| !page.is_last(NEWEST)).map(DeploymentId::time);
        let until = [Some(clocks.postgres), in_doubt, seen].into_iter().flatten().min();
        let until = until.unwrap_or(clocks.postgres);
        Ok(Self { before, unknown, in_step_until: before.map_or(until, |before| until.max(before)) })
    }

    fn since(&self) -> String {
        self.before.map_or_else(|| "this new database".to_owned(), |time| time.to_string())
    }
}

async fn move_all(app: &App, page: &SweepPage) -> anyhow::Result<usize> {
    let mut moved = 0;
    for id in page.unknown.iter().map(|pack| &pack.id).chain(&page.unwanted) {
        if app.store.trash(id).await? {
            tracing::info!(deployment = %id, "a pack without a record was moved to the trash");
        }
        moved += 1;
    }
    Ok(moved)
}

/// Scans the whole store without moving anything.
pub async fn preview(app: &App) -> anyhow::Result<SweepPreview> {
    let clocks = ClockReadings::read(app).await?;
    let state = store_sweep::state(&app.db).await?;
    let newest = NewestPacks::load(app, &state, clocks).await?;
    let mut look = SweepPreview { packs: 0, unknown: 0, unwanted: 0, named: Vec::new(), stopped: None };
    let mut after = None;
    loop {
        let page = SweepPage::after(app, after.as_ref(), RUN, clocks.store).await?;
        look.packs += page.packs;
        look.unknown += page.unknown.len();
        look.unwanted += page.unwanted.len();
        let room = NAMED.saturating_sub(look.named.len());
        look.named.extend(page.unknown.iter().take(room).map(|pack| pack.id.clone()));
        if page.is_last(RUN) {
            break;
        }
        after = page.last;
    }
    look.stopped = if !clocks.are_in_step() {
        Some(SweepStopReason::Clocks)
    } else if newest.unknown > 0 {
        Some(SweepStopReason::OlderDatabase)
    } else if look.unknown > 0 && guard::is_over_limit(count(look.packs), count(look.unknown)) {
        Some(SweepStopReason::Share)
    } else if app.store.is_ruled_elsewhere() {
        Some(SweepStopReason::Copy)
    } else {
        None
    };
    Ok(look)
}

/// Moves every pack without a record to the trash, in any number, as requested by the operator. Returns their number.
/// The job continues from there. If another copy of the database ruled the store, this one becomes the ruler.
pub async fn run_whole(app: &App) -> anyhow::Result<usize> {
    let clocks = ClockReadings::read(app).await?;
    anyhow::ensure!(clocks.are_in_step(), "{}", SweepStopReason::Clocks.sentence());
    if app.store.is_ruled_elsewhere() {
        let taken = StoreRuler::new(&app.db, &app.store, &app.clock).take().await;
        taken.map_err(anyhow::Error::msg).context("this database cannot be made the ruler of the store")?;
        app.store.confirm();
        tracing::warn!(
            "this database rules the store now; the admins of the other copy move and delete nothing from now on"
        );
    }
    let (mut after, mut moved) = (None, 0);
    loop {
        let page = SweepPage::after(app, after.as_ref(), RUN, clocks.store).await?;
        moved += move_all(app, &page).await.with_context(|| format!("after {moved} packs"))?;
        if page.is_last(RUN) {
            break;
        }
        after = page.last;
    }
    store_sweep::advance(&app.db, clocks.postgres, None, 0, 0).await?;
    Ok(moved)
}

fn count(packs: usize) -> i64 {
    i64::try_from(packs).unwrap_or(i64::MAX)
}
