//! Leases of background jobs: one admin runs a job at a time, and a job runs once per interval.

use std::time::Duration;

use domain::Timestamp;
use sqlx::PgExecutor;

/// The right to run a job until the lease expires.
#[derive(Debug)]
pub struct JobLease {
    job: &'static str,
    until: Timestamp,
}

/// Creates the row of a job's lease unless it exists.
pub async fn register(db: impl PgExecutor<'_>, job: &str) -> Result<(), sqlx::Error> {
    sqlx::query!("INSERT INTO job_leases (job) VALUES ($1) ON CONFLICT DO NOTHING", job).execute(db).await.map(drop)
}

/// Acquires the lease for `length`, unless it is held or the job ran after `not_since`.
pub async fn acquire(
    db: impl PgExecutor<'_>,
    job: &'static str,
    now: Timestamp,
    not_since: Timestamp,
    length: Duration,
) -> Result<Option<JobLease>, sqlx::Error> {
    let until = now + length;
    // Skip a locked row, because another admin is acquiring the lease.
    let taken = sqlx::query!(
        "UPDATE job_leases SET leased_until = $4, last_run_at = $2
         WHERE job = (SELECT job FROM job_leases WHERE job = $1 AND (leased_until IS NULL OR leased_until <= $2)
                        AND (last_run_at IS NULL OR last_run_at <= $3) FOR UPDATE SKIP LOCKED)",
        job,
        now,
        not_since,
        until,
    )
    .execute(db)
    .await?;
    Ok((taken.rows_affected() == 1).then_some(JobLease { job, until }))
}

/// Extends the lease to `length` from now. Returns false when it expired and has another holder.
pub async fn extend(
    db: impl PgExecutor<'_>,
    lease: &mut JobLease,
    now: Timestamp,
    length: Duration,
) -> Result<bool, sqlx::Error> {
    let until = now + length;
    let extended = sqlx::query!(
        "UPDATE job_leases SET leased_until = $3 WHERE job = $1 AND leased_until = $2",
        lease.job,
        lease.until,
        until,
    )
    .execute(db)
    .await?;
    lease.until = until;
    Ok(extended.rows_affected() == 1)
}

/// Releases the lease and records the error, unless the lease expired and has another holder.
pub async fn release(db: impl PgExecutor<'_>, lease: &JobLease, error: Option<&str>) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE job_leases SET leased_until = NULL, last_error = $3 WHERE job = $1 AND leased_until = $2",
        lease.job,
        lease.until,
        error,
    )
    .execute(db)
    .await
    .map(drop)
}

/// A job whose last run failed.
#[derive(Debug)]
pub struct FailingJob {
    /// The job's name.
    pub job: String,
    /// The error.
    pub error: String,
    /// The start of the run.
    pub last_run_at: Option<Timestamp>,
}

/// Returns at most `limit` jobs whose last run failed.
pub async fn list_failing(db: impl PgExecutor<'_>, limit: i64) -> Result<Vec<FailingJob>, sqlx::Error> {
    sqlx::query_as!(
        FailingJob,
        r#"SELECT job, last_error AS "error!", last_run_at FROM job_leases
           WHERE last_error IS NOT NULL ORDER BY job LIMIT $1"#,
        limit,
    )
    .fetch_all(db)
    .await
}

/// Returns the job's cursor, as stored by [`move_cursor`].
pub async fn cursor(db: impl PgExecutor<'_>, job: &str) -> Result<Option<String>, sqlx::Error> {
    let cursor = sqlx::query_scalar!("SELECT cursor FROM job_leases WHERE job = $1", job).fetch_optional(db).await?;
    Ok(cursor.flatten())
}

/// Stores the job's cursor, from which the next run resumes; `None` starts again.
pub async fn move_cursor(db: impl PgExecutor<'_>, job: &str, cursor: Option<&str>) -> Result<(), sqlx::Error> {
    sqlx::query!("UPDATE job_leases SET cursor = $2 WHERE job = $1", job, cursor).execute(db).await.map(drop)
}
