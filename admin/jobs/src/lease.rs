//! Runs a job under its lease until the program stops.

use app::{App, LiveApp, metrics};
use db::upkeep::job_leases;

use super::{BatchOutcome, Job};

const BATCHES: usize = 20;

/// Acquires the lease whenever the job is due, until the program stops. A run keeps the configuration with which it
/// began.
pub(super) async fn run_job<J: Job>(live: &LiveApp, job: &J) {
    let (mut failing, stopping) = (false, live.now().stopping.clone());
    let mut is_registered = false;
    while !stopping.is_cancelled() {
        let turned = run_if_due(&live.now(), job, &mut is_registered).await;
        if turned.is_err() {
            metrics::job_failed(J::NAME);
        }
        match turned {
            Ok(done) => {
                if done > 0 {
                    tracing::info!(job = J::NAME, done, "a job has run");
                }
                failing = false;
            }
            // One line per outage: while Redis is away for an hour, this must not log every second.
            Err(error) if !failing => {
                tracing::warn!(job = J::NAME, error = format!("{error:#}"), "a job failed; it is tried again");
                failing = true;
            }
            Err(error) => tracing::debug!(job = J::NAME, error = format!("{error:#}"), "a job still fails"),
        }
        let every = J::every(&live.now().config);
        stopping.run_until_cancelled(tokio::time::sleep(every)).await;
    }
}

/// Runs the job once, unless another admin holds its lease or ran it within the interval. The row of the lease is
/// created in the first turn, and after a failed one, because the database may have been replaced.
async fn run_if_due<J: Job>(app: &App, job: &J, is_registered: &mut bool) -> anyhow::Result<u64> {
    let now = app.clock.now();
    // The sleep may end just before the interval does, so a slightly early run counts as due.
    let not_since = now - J::every(&app.config).mul_f32(0.9);
    if !std::mem::take(is_registered) {
        with_fallback(job_leases::register(&app.leases, J::NAME), job_leases::register(&app.db, J::NAME)).await?;
    }
    let [taking, again] = [&app.leases, &app.db].map(|db| job_leases::acquire(db, J::NAME, now, not_since, J::LEASE));
    let taken = with_fallback(taking, again).await?;
    *is_registered = true;
    let Some(lease) = taken else { return Ok(0) };
    // A stop interrupts the run and releases the lease, so that the next program need not wait for it to expire.
    let working = app.stopping.run_until_cancelled(run_batches(app, job));
    let ran = match tokio::time::timeout(J::LEASE, working).await {
        Ok(ran) => ran.unwrap_or(Ok(0)),
        Err(_) => Err(anyhow::anyhow!("it did not end within its lease")),
    };
    metrics::job_ran(J::NAME, app.clock.now(), ran.as_ref().ok().copied());
    let error = ran.as_ref().err().map(|error| format!("{error:#}"));
    *is_registered = ran.is_ok();
    let [giving, again] = [&app.leases, &app.db].map(|db| job_leases::release(db, &lease, error.as_deref()));
    with_fallback(giving, again).await?;
    ran
}

/// Runs a statement on the connection for leases, which is used without a liveness check. If it is broken, `again` runs
/// on a connection that responds: a lease that is not released keeps every admin from the job until it expires.
async fn with_fallback<T>(
    statement: impl Future<Output = Result<T, sqlx::Error>>,
    again: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    match db::in_time(statement).await {
        Err(error) if db::is_unavailable(&error) => db::in_time(again).await,
        done => done,
    }
}

async fn run_batches<J: Job>(app: &App, job: &J) -> anyhow::Result<u64> {
    let mut total = 0;
    for _ in 0..BATCHES {
        let BatchOutcome { done, full } = job.run(app).await?;
        total += done;
        if !full {
            break;
        }
    }
    Ok(total)
}
