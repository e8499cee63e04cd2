//! Settles completions of the AI gateway whose edge died and did not come back.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    time::Duration,
};

use db::gateway::{ai_usage, settled_edges};
use domain::{
    CompletionId, Timestamp,
    usage::{Certainty, UsageRow},
};
use live::budgets::Open;

use super::{Batch, Job};
use crate::app::App;

/// Most completions settled in one statement.
const BATCH: usize = 500;
/// Age at which a completion that is looked at is settled though its edge lives: older than any can be, so its edge has lost
/// track of it.
const FORGOTTEN_AFTER: Duration = Duration::from_hours(1);
/// Age beyond which a reservation is released instead of settled: none stays open for so long, so Redis has brought it back
/// from an old log or snapshot. Of younger ones those are released whose edge is known to be settled.
pub(super) const OUTDATED_AFTER: Duration = Duration::from_hours(30 * 24);

/// Settles open completions of dead edges from their estimates, which are marked as such. It looks for them only when an edge is
/// gone, and once an hour. Rows that the edge has written to Postgres stay, and what it knows better later replaces the
/// estimates: an edge that was only stopped finds its completions claimed, or gone. What a Redis with an old memory has brought back
/// is released.
pub(super) struct Sweep;

impl Job for Sweep {
    const NAME: &'static str = "settle what dead edges left open";
    const EVERY: Duration = Duration::from_secs(2);
    const LEASE: Duration = Duration::from_mins(1);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let epoch = app.redis.epoch().await?;
        let edges = app.redis.gone_edges().await?;
        // To look at every account is much work for Redis.
        if edges.is_empty() && !app.redis.is_sweep_due(&epoch).await? {
            return Ok(Batch { done: 0, full: false });
        }
        let mut left = Vec::new();
        let mut gone: HashMap<String, bool> = edges.iter().map(|edge| (edge.clone(), true)).collect();
        let mut seen = HashSet::new();
        for account in app.redis.accounts_with_open().await? {
            for open in app.redis.open_of(&account).await? {
                if !gone.contains_key(&open.edge) {
                    gone.insert(open.edge.clone(), app.redis.is_gone(&open.edge).await?);
                }
                // By the clock that the completions' own times are of.
                if gone.get(&open.edge) == Some(&true) || epoch.now.since(open.row.at) > FORGOTTEN_AFTER {
                    left.push(open.clone());
                }
                seen.insert(open.edge);
            }
            if left.len() >= BATCH {
                break;
            }
        }
        // Else there may be more, in an account that was not looked at or beyond the batch.
        let is_all = left.len() < BATCH;
        left.truncate(BATCH);
        let (released, left) = release_unused(app, epoch.now, left).await?;
        let done = released + settle(app, left).await?;
        if is_all {
            let settled: Vec<&str> = edges.iter().map(String::as_str).filter(|&edge| !seen.contains(edge)).collect();
            app.redis.finish_sweep(&epoch, &settled).await?;
        }
        Ok(Batch { done: u64::try_from(done).unwrap_or(u64::MAX), full: done >= BATCH })
    }
}

/// Releases reservations that no request has come for, and those that can only be there because Redis has an old memory: what
/// was used is recorded, if anything was. Returns their number, and what is to be settled.
async fn release_unused(app: &App, now: Timestamp, left: Vec<Open>) -> anyhow::Result<(usize, Vec<Open>)> {
    let edges: BTreeSet<String> = left.iter().map(|open| open.edge.clone()).collect();
    let settled = settled_edges::among(&app.db, &Vec::from_iter(edges)).await?;
    let settled: HashSet<String> = settled.into_iter().collect();
    let is_unused = |open: &Open| {
        let row = &open.row;
        // What has a usage was recorded, and can be so again; and so does whoever claims a reservation.
        let is_reservation = row.certainty == Certainty::Reserved && !open.is_claimed();
        is_reservation && (row.is_spare() || now.since(row.at) > OUTDATED_AFTER || settled.contains(&open.edge))
    };
    let (unused, left): (Vec<_>, Vec<_>) = left.into_iter().partition(is_unused);
    for unused in unused.chunk_by(|a, b| a.row.account == b.row.account) {
        let rows: Vec<&UsageRow> = unused.iter().map(|open| &open.row).collect();
        app.redis.release(&unused[0].row.account, &rows).await?;
    }
    if !unused.is_empty() {
        tracing::info!(
            reservations = unused.len(),
            "released reservations of dead edges: spare ones, or brought back by an old memory of Redis"
        );
    }
    Ok((unused.len(), left))
}

async fn settle(app: &App, left: Vec<Open>) -> anyhow::Result<usize> {
    // A journal that comes back may know that no provider was asked.
    let mut reserved: HashMap<&str, Vec<&UsageRow>> = HashMap::new();
    for Open { edge, row } in left.iter().filter(|open| open.row.certainty == Certainty::Reserved) {
        reserved.entry(edge).or_default().push(row);
    }
    for (edge, rows) in reserved {
        app.redis.note_settled(edge, &rows).await?;
    }
    let mut rows = Vec::new();
    for left in left.chunk_by(|a, b| a.row.account == b.row.account) {
        let ids: Vec<&CompletionId> = left.iter().map(|open| &open.row.id).collect();
        rows.extend(app.redis.claim(&left[0].row.account, &ids).await?.into_iter().map(|open| open.row));
    }
    rows.iter_mut().for_each(UsageRow::set_unheard);
    if rows.is_empty() {
        return Ok(0);
    }
    // What an edge writes at this moment is left to the next run.
    for spent in &ai_usage::record(&app.db, &rows).await? {
        let of_it = |row: &&UsageRow| row.account == spent.account && row.day() == spent.day;
        let ids: Vec<&CompletionId> = rows.iter().filter(of_it).map(|row| &row.id).collect();
        app.redis.confirm(spent, &ids).await?;
    }
    let estimated = rows.iter().filter(|row| row.is_estimated()).count();
    tracing::warn!(completions = rows.len(), estimated, "settled what edges that died left open");
    Ok(rows.len())
}
