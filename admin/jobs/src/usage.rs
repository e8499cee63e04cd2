//! Settles completions of the AI gateway whose edge died and did not come back.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    time::Duration,
};

use app::App;
use db::gateway::{ai_usage, settled_edges};
use domain::{
    CompletionId, Timestamp,
    usage::{UsageCertainty, UsageRow},
};
use live::budgets::OpenCompletion;

use super::{BatchOutcome, Job};

const BATCH: usize = 500;
/// The age at which an open completion is settled although its edge lives: no completion lasts this long, so the edge
/// has lost track of it.
const FORGOTTEN_AFTER: Duration = Duration::from_hours(1);
/// The age beyond which a reservation is released instead of settled: no reservation stays open for so long, so Redis
/// has restored it from an old log or snapshot. Younger ones are released if their edge is known to be settled.
pub(super) const OUTDATED_AFTER: Duration = Duration::from_hours(30 * 24);

/// Settles open completions of dead edges from their estimates, and marks them as estimated. It searches only when an
/// edge has disappeared, and once an hour. An edge that was merely stopped finds its completions claimed or removed;
/// what it has written to Postgres, or reports later, replaces the estimates. Reservations that Redis restored from an
/// old log or snapshot are released.
pub(super) struct SettleDeadEdges;

impl Job for SettleDeadEdges {
    const NAME: &'static str = "settle what dead edges left open";
    const EVERY: Duration = Duration::from_secs(2);
    const LEASE: Duration = Duration::from_mins(1);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let epoch = app.redis.epoch().await?;
        let edges = app.redis.gone_edges().await?;
        // Checking every account is expensive for Redis.
        if edges.is_empty() && !app.redis.is_sweep_due(&epoch).await? {
            return Ok(BatchOutcome { done: 0, full: false });
        }
        let mut left = Vec::new();
        let mut gone: HashMap<String, bool> = edges.iter().map(|edge| (edge.clone(), true)).collect();
        let mut seen = HashSet::new();
        for account in app.redis.accounts_with_open().await? {
            for open in app.redis.open_completions(&account).await? {
                if !gone.contains_key(&open.edge) {
                    gone.insert(open.edge.clone(), app.redis.is_gone(&open.edge).await?);
                }
                // Use Redis's clock, which set the times of the completions.
                if gone.get(&open.edge) == Some(&true) || epoch.now.since(open.row.at) > FORGOTTEN_AFTER {
                    left.push(open.clone());
                }
                seen.insert(open.edge);
            }
            if left.len() >= BATCH {
                break;
            }
        }
        // Otherwise there may be more, in accounts not checked yet or beyond the batch.
        let is_all = left.len() < BATCH;
        left.truncate(BATCH);
        let (released, left) = release_unused(app, epoch.now, left).await?;
        let done = released + settle(app, left).await?;
        if is_all {
            let settled: Vec<&str> = edges.iter().map(String::as_str).filter(|&edge| !seen.contains(edge)).collect();
            app.redis.finish_sweep(&epoch, &settled).await?;
        }
        Ok(BatchOutcome { done: u64::try_from(done).unwrap_or(u64::MAX), full: done >= BATCH })
    }
}

/// Releases reservations that no request used, and those that exist only because Redis restored an old state: any usage
/// is recorded already. Returns their number, and what remains to be settled.
async fn release_unused(
    app: &App,
    now: Timestamp,
    left: Vec<OpenCompletion>,
) -> anyhow::Result<(usize, Vec<OpenCompletion>)> {
    let edges: BTreeSet<String> = left.iter().map(|open| open.edge.clone()).collect();
    let settled = settled_edges::filter_settled(&app.db, &Vec::from_iter(edges)).await?;
    let settled: HashSet<String> = settled.into_iter().collect();
    let is_unused = |open: &OpenCompletion| {
        let row = &open.row;
        // A row with usage was recorded, and can be recorded again; so can a claimed reservation, by its claimant.
        let is_reservation = row.certainty == UsageCertainty::Reserved && !open.is_claimed();
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

async fn settle(app: &App, left: Vec<OpenCompletion>) -> anyhow::Result<usize> {
    // A journal that comes back may show that no provider was contacted.
    let mut reserved: HashMap<&str, Vec<&UsageRow>> = HashMap::new();
    for OpenCompletion { edge, row } in left.iter().filter(|open| open.row.certainty == UsageCertainty::Reserved) {
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
    rows.iter_mut().for_each(UsageRow::charge_lost);
    if rows.is_empty() {
        return Ok(0);
    }
    // Rows that an edge is writing at this moment are left to the next run.
    for spent in &ai_usage::record(&app.db, &rows).await? {
        let of_it = |row: &&UsageRow| row.account == spent.account && row.day() == spent.day;
        let ids: Vec<&CompletionId> = rows.iter().filter(of_it).map(|row| &row.id).collect();
        app.redis.confirm(spent, &ids).await?;
    }
    let estimated = rows.iter().filter(|row| row.is_estimated()).count();
    tracing::warn!(completions = rows.len(), estimated, "settled what edges that died left open");
    Ok(rows.len())
}
