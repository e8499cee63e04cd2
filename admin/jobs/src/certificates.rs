//! Processes due certificate orders. Every admin does; leases of the rows keep them apart, so that a newly attached
//! name does not wait for a job's turn. [`MaintainOrders`] maintains the rows.

use std::time::Duration;

use acts::certificates::{LEASE, process_order, remove_response};
use app::{App, LiveApp, bounds::PAYER_ORDERS, metrics};
use config::{Config, acme::CertificateIssuer};
use db::certificates::{budgets, challenges, orders, renewals};
use domain::certificates::DomainState;
use futures_util::{StreamExt as _, stream};
use tokio::time::Instant;

use super::{BatchOutcome, Job};

/// The interval at which due rows are polled if no wake-up arrives.
const EVERY: Duration = Duration::from_secs(1);
const COUNT_EVERY: Duration = Duration::from_secs(15);
/// The shortest pause after counting, as a multiple of its duration: it scans all rows.
const COUNT_SHARE: u32 = 100;
const BATCH: i64 = 500;
const AT_A_TIME: usize = 8;
const TAKE_DOWN_WITHIN: Duration = Duration::from_mins(4);

/// Processes due orders until the program stops. Does nothing without an issuer.
pub(super) fn start(live: &LiveApp) {
    let app = live.now();
    if app.certificates.issuer() == CertificateIssuer::None {
        return;
    }
    let (working, stopping, counting) = (live.clone(), app.stopping.clone(), app.clone());
    app.tasks.spawn(async move { stopping.run_until_cancelled(process_orders(&working)).await });
    app.tasks.spawn(async move { counting.stopping.run_until_cancelled(count(&counting)).await });
}

async fn process_orders(live: &LiveApp) {
    let mut failing = false;
    loop {
        let app = live.now();
        match db::in_time(lease_due_orders(&app)).await {
            Ok(is_full) => {
                failing = false;
                // There may be more.
                if is_full {
                    continue;
                }
            }
            // One line per outage.
            Err(error) if !failing => {
                tracing::warn!(%error, "certificates that are due cannot be looked for; it is tried again");
                failing = true;
            }
            Err(_) => {}
        }
        let _ = tokio::time::timeout(EVERY, app.certificates.wait_until_woken()).await;
    }
}

/// Leases one row for each free permit, and processes each in a task of its own. Returns whether every permit was used.
async fn lease_due_orders(app: &App) -> Result<bool, sqlx::Error> {
    let turns = app.bounds.orders();
    if turns.is_empty() {
        return Ok(false);
    }
    let now = app.clock.now();
    let limit = i64::try_from(turns.len()).unwrap_or(BATCH);
    let share = i64::try_from(PAYER_ORDERS).unwrap_or(BATCH);
    let claims = orders::claim(&app.db, now, now + LEASE, limit, share).await?;
    let is_full = claims.len() == turns.len();
    for (claim, turn) in claims.into_iter().zip(turns) {
        let app_of_task = app.clone();
        app.tasks.spawn(async move {
            process_order(&app_of_task, &claim).await;
            drop(turn);
            // Another order may wait for the permit.
            app_of_task.certificates.wake();
        });
    }
    Ok(is_full)
}

async fn count(app: &App) {
    loop {
        let began = Instant::now();
        let counted = async {
            let counts = orders::count_by_state(&app.db).await?;
            metrics::certificates(&counts, renewals::count_overdue(&app.db, app.clock.now()).await?);
            Ok::<_, sqlx::Error>(())
        };
        if let Err(error) = db::in_time(counted).await {
            tracing::debug!(%error, state = DomainState::Live.as_str(), "certificates could not be counted");
        }
        tokio::time::sleep(COUNT_EVERY.max(began.elapsed() * COUNT_SHARE)).await;
    }
}

/// Maintains the rows: adds orders for names without one, and deletes budgets that are full again.
pub(super) struct MaintainOrders;

impl Job for MaintainOrders {
    const NAME: &'static str = "tend certificate orders";
    const EVERY: Duration = Duration::from_secs(30);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let now = app.clock.now();
        budgets::delete_full(&app.db, now, BATCH).await?;
        let watched = match app.certificates.issuer() {
            CertificateIssuer::None => 0,
            CertificateIssuer::Local => orders::watch_missing(&app.db, now, BATCH).await?,
            CertificateIssuer::Acme => {
                let own = own_names(&app.config);
                let own =
                    if app.certificates.writer().is_some() { orders::watch_own(&app.db, &own, now).await? } else { 0 };
                own + orders::watch_missing(&app.db, now, BATCH).await?
            }
        };
        Ok(BatchOutcome::new(usize::try_from(watched)?, BATCH))
    }
}

/// Removes expired challenge responses that are still published. This is a job of its own, because an operator's hook
/// may take minutes for each.
pub(super) struct RemoveResponses;

impl Job for RemoveResponses {
    const NAME: &'static str = "take down answers to challenges";
    const EVERY: Duration = Duration::from_secs(30);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let expired = challenges::list_expired(&app.db, app.clock.now(), BATCH).await?;
        let taking_down = stream::iter(expired).for_each_concurrent(AT_A_TIME, async |kept| {
            if let Err(error) = remove_response(app, &kept).await {
                tracing::warn!(name = kept.name, error = format!("{error:#}"), "an answer to a challenge still stands");
            }
        });
        // The remaining ones are retried. There is no second batch under this lease.
        let _ = tokio::time::timeout(TAKE_DOWN_WITHIN, taking_down).await;
        Ok(BatchOutcome::new(0, BATCH))
    }
}

/// Returns the names whose certificates cover the platform's own hosts. A wildcard certificate also covers its parent
/// name.
fn own_names(config: &Config) -> Vec<String> {
    let names = certs::local_ca::names(&config.site);
    let wildcards: Vec<String> = names.iter().filter_map(|name| name.strip_prefix("*.").map(str::to_owned)).collect();
    let is_own = |name: &String| name != "localhost" && !wildcards.contains(name);
    names.into_iter().filter(is_own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_platform_s_names_are_two_wildcards_and_what_they_do_not_cover() {
        let mut config = Config::default();
        config.site.site_domain = "sites.example".into();
        config.site.share_domain = "shares.example".into();
        config.site.base_url = "https://api.platform.example".parse().unwrap();
        config.site.console_url = "https://app.sites.example".parse().unwrap();
        config.site.ai_url = "https://ai.platform.example".parse().unwrap();
        let names = own_names(&config);
        assert_eq!(names, ["*.shares.example", "*.sites.example", "ai.platform.example", "api.platform.example"]);
    }
}
