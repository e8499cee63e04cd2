//! Pushes that wait to be deployed: the newest of each link. A worker leases a push, and its result goes live only if
//! no newer push has arrived meanwhile: see [`finish`].
//!
//! Rows are always locked in the order project, link, push.

use domain::{
    Account, OrgId, PayingAccount, ProjectId, Timestamp, UserId,
    repo::{Branch, CommitSha, Directory, RepoName},
};
use sqlx::{PgConnection, PgExecutor};

use crate::permits::{self, Deploy, ProjectPermit};

/// A push, as the code host reports it.
#[derive(Debug)]
pub struct Push<'a> {
    /// The installation that reported the push; `None` for a plain webhook.
    pub installation: Option<i64>,
    /// The code host's id of the repository.
    pub repo_id: i64,
    /// The branch.
    pub branch: &'a str,
    /// The commit that the branch points at now.
    pub sha: &'a CommitSha,
    /// The login of the pusher.
    pub pusher: &'a str,
}

/// Queues a push for every live link to its branch, replacing earlier queued pushes. Returns the number of links.
pub async fn queue(conn: &mut PgConnection, push: &Push<'_>, now: Timestamp) -> Result<u64, sqlx::Error> {
    // Select from locked links, so that a concurrently ended link yields no row instead of a foreign key violation.
    let queued = sqlx::query!(
        "WITH linked AS (
             SELECT l.project_id
             FROM repo_links l
             JOIN projects p ON p.id = l.project_id AND p.org_id IS NOT DISTINCT FROM l.org_id
             JOIN installations i ON i.id = l.installation_id AND i.suspended_at IS NULL
             WHERE l.repo_id = $2 AND l.branch = $3 AND ($1::bigint IS NULL OR l.installation_id = $1)
             ORDER BY l.project_id FOR NO KEY UPDATE OF l),
         heard AS (UPDATE repo_links SET head_sha = $4 WHERE project_id IN (SELECT project_id FROM linked))
         INSERT INTO repo_deploys AS d (project_id, sha, pusher, queued_at, next_attempt_at)
         SELECT project_id, $4, $5, $6, $6 FROM linked ORDER BY project_id
         ON CONFLICT (project_id) DO UPDATE
             SET sha = excluded.sha, pusher = excluded.pusher, queued_at = excluded.queued_at,
                 next_attempt_at = excluded.next_attempt_at, attempts = 0, last_error = NULL,
                 waits_for = NULL, version = d.version + 1",
        push.installation,
        push.repo_id,
        push.branch,
        push.sha.as_str(),
        push.pusher,
        now,
    )
    .execute(conn)
    .await?;
    Ok(queued.rows_affected())
}

/// A leased push.
#[derive(Debug, Clone)]
pub struct PushClaim {
    /// The project that is deployed.
    pub project: ProjectId,
    /// The commit.
    pub sha: CommitSha,
    /// The login of the pusher.
    pub pusher: String,
    /// The number of attempts.
    pub attempts: i32,
    /// Whether it has already waited for quota.
    pub has_waited: bool,
    version: i64,
    leased_until: Timestamp,
}

/// Returns at most `limit` accounts with due pushes, the longest waiting first.
pub async fn due_accounts(
    db: impl PgExecutor<'_>,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<PayingAccount>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"SELECT account AS "account!: Account",
                  (SELECT o.created_by FROM orgs o WHERE o.id = account) AS "creator?: UserId"
           FROM (SELECT COALESCE(p.org_id, p.user_id) AS account, min(d.next_attempt_at) AS since
                 FROM repo_deploys d JOIN projects p ON p.id = d.project_id
                 WHERE d.next_attempt_at <= $1 AND (d.leased_until IS NULL OR d.leased_until <= $1)
                 GROUP BY 1 ORDER BY 2, 1 LIMIT $2) due
           ORDER BY since, account"#,
        now,
        limit,
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(|row| PayingAccount::new(row.account, row.creator)).collect())
}

/// Leases a due push of `account`.
pub async fn claim(
    db: impl PgExecutor<'_>,
    account: &Account,
    now: Timestamp,
    until: Timestamp,
) -> Result<Option<PushClaim>, sqlx::Error> {
    sqlx::query_as!(
        PushClaim,
        r#"UPDATE repo_deploys SET leased_until = $2 WHERE project_id = (
               SELECT d.project_id FROM repo_deploys d JOIN projects p ON p.id = d.project_id
               WHERE d.next_attempt_at <= $1 AND (d.leased_until IS NULL OR d.leased_until <= $1)
                 AND (p.user_id = $3 OR p.org_id = $4)
               ORDER BY d.next_attempt_at LIMIT 1 FOR UPDATE OF d SKIP LOCKED)
           RETURNING project_id AS project, sha, pusher, attempts, waits_for IS NOT NULL AS "has_waited!", version,
                     leased_until AS "leased_until!""#,
        now,
        until,
        account.as_user().map(UserId::as_str),
        account.as_org().map(OrgId::as_str),
    )
    .fetch_optional(db)
    .await
}

/// A commit to deploy, and the people with whose access it may be read.
#[derive(Debug)]
pub struct DeployTarget {
    /// The permit to deploy to the project.
    pub permit: ProjectPermit<Deploy>,
    /// The installation through which the repository is read.
    pub installation: i64,
    /// The code host's id of the repository.
    pub repo_id: i64,
    /// `owner/name`.
    pub repo: RepoName,
    /// The branch that deploys.
    pub branch: Branch,
    /// The folder that is published.
    pub directory: Directory,
    /// The commit of the last deployment, successful or not.
    pub last_sha: Option<CommitSha>,
    /// The people with whose access to read it, in order of preference.
    pub readers: Vec<RepoReader>,
}

/// A person with whose access a repository may be read.
#[derive(Debug, Clone)]
pub struct RepoReader {
    /// Our id.
    pub user: UserId,
    /// The code host's id of the account.
    pub vcs_id: String,
    /// The login at the last sign-in.
    pub login: String,
}

/// Returns the deploy target of a project's push; `None` when its link has ended.
pub async fn find_target(conn: &mut PgConnection, project: &ProjectId) -> Result<Option<DeployTarget>, sqlx::Error> {
    // A person reads for an org only while they are a member.
    let link = sqlx::query!(
        r#"SELECT p.name, l.installation_id, l.repo_id, l.repo, l.branch,
                  l.directory, l.last_sha,
                  reader.id AS reader, reader.vcs_id, reader.vcs_login,
                  other.id AS "other?", other.vcs_id AS "other_vcs_id?", other.vcs_login AS "other_login?"
           FROM repo_links l
           JOIN projects p ON p.id = l.project_id AND p.org_id IS NOT DISTINCT FROM l.org_id
           JOIN installations i ON i.id = l.installation_id AND i.suspended_at IS NULL
           LEFT JOIN installation_shares s ON s.installation_id = l.installation_id AND s.org_id = l.org_id
           JOIN users reader ON reader.id = coalesce(s.shared_by, p.user_id)
           LEFT JOIN org_members m ON m.org_id = l.org_id AND m.user_id = l.linked_by
           LEFT JOIN users other ON other.id = m.user_id
           WHERE l.project_id = $1"#,
        project.as_str(),
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(link) = link else { return Ok(None) };
    let Some(permit) = permits::linked_project(conn, project).await? else { return Ok(None) };
    let mut readers = vec![RepoReader { user: link.reader, vcs_id: link.vcs_id, login: link.vcs_login }];
    if let (Some(user), Some(vcs_id), Some(login)) = (link.other, link.other_vcs_id, link.other_login)
        && user != readers[0].user
    {
        readers.push(RepoReader { user, vcs_id, login });
    }
    Ok(Some(DeployTarget {
        permit,
        installation: link.installation_id,
        repo_id: link.repo_id,
        repo: link.repo,
        branch: link.branch,
        directory: link.directory,
        last_sha: link.last_sha,
        readers,
    }))
}

/// Ends the work on a push, in the transaction that publishes its outcome; `sha` was deployed or failed permanently.
/// Returns false when a newer push has arrived, or the link or the lease has ended: the outcome must then be discarded.
pub async fn finish(conn: &mut PgConnection, claim: &PushClaim, sha: &CommitSha) -> Result<bool, sqlx::Error> {
    let project = claim.project.as_str();
    sqlx::query_scalar!("SELECT true FROM projects WHERE id = $1 FOR UPDATE", project)
        .fetch_optional(&mut *conn)
        .await?;
    sqlx::query_scalar!("SELECT true FROM repo_links WHERE project_id = $1 FOR NO KEY UPDATE", project)
        .fetch_optional(&mut *conn)
        .await?;
    if !remove(&mut *conn, claim).await? {
        return Ok(false);
    }
    sqlx::query!("UPDATE repo_links SET last_sha = $2 WHERE project_id = $1", project, sha.as_str())
        .execute(conn)
        .await?;
    Ok(true)
}

/// Ends the work on a push without recording its commit, so that it can be pushed again. Returns false like [`finish`].
pub async fn give_up(conn: &mut PgConnection, claim: &PushClaim) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!("SELECT true FROM projects WHERE id = $1 FOR UPDATE", claim.project.as_str())
        .fetch_optional(&mut *conn)
        .await?;
    remove(conn, claim).await
}

/// Drops a push that must not be deployed; if a newer one has arrived, only releases the lease.
pub async fn drop_claim(conn: &mut PgConnection, claim: &PushClaim) -> Result<(), sqlx::Error> {
    if remove(&mut *conn, claim).await? { Ok(()) } else { release_lease(conn, claim).await }
}

async fn remove(db: impl PgExecutor<'_>, claim: &PushClaim) -> Result<bool, sqlx::Error> {
    let removed = sqlx::query!(
        "DELETE FROM repo_deploys WHERE project_id = $1 AND version = $2 AND leased_until = $3",
        claim.project.as_str(),
        claim.version,
        claim.leased_until,
    )
    .execute(db)
    .await?;
    Ok(removed.rows_affected() == 1)
}

/// Releases the lease, and retries the push at `at`, with `error` recorded. A newer push is due immediately.
pub async fn retry_later(
    db: impl PgExecutor<'_>,
    claim: &PushClaim,
    at: Timestamp,
    error: Option<&str>,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE repo_deploys
         SET leased_until = NULL,
             next_attempt_at = CASE WHEN version = $2 THEN $4 ELSE next_attempt_at END,
             attempts = CASE WHEN version = $2 THEN attempts + 1 ELSE attempts END,
             last_error = CASE WHEN version = $2 THEN $5 ELSE last_error END,
             waits_for = CASE WHEN version = $2 THEN NULL ELSE waits_for END
         WHERE project_id = $1 AND leased_until = $3",
        claim.project.as_str(),
        claim.version,
        claim.leased_until,
        at,
        error,
    )
    .execute(db)
    .await
    .map(drop)
}

/// Releases the lease, and retries the push at `at` without counting an attempt. `reason` tells the project's people
/// what it waits for. A newer push is due immediately. Returns false when the lease was lost.
pub async fn wait_until(
    db: impl PgExecutor<'_>,
    claim: &PushClaim,
    at: Timestamp,
    reason: &str,
) -> Result<bool, sqlx::Error> {
    let waits = sqlx::query!(
        "UPDATE repo_deploys
         SET leased_until = NULL,
             next_attempt_at = CASE WHEN version = $2 THEN $4 ELSE next_attempt_at END,
             waits_for = CASE WHEN version = $2 THEN $5 ELSE waits_for END
         WHERE project_id = $1 AND leased_until = $3",
        claim.project.as_str(),
        claim.version,
        claim.leased_until,
        at,
        reason,
    )
    .execute(db)
    .await?;
    Ok(waits.rows_affected() == 1)
}

/// Releases the lease without recording an attempt, at shutdown or when a newer push has arrived.
pub async fn release_lease(db: impl PgExecutor<'_>, claim: &PushClaim) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE repo_deploys SET leased_until = NULL WHERE project_id = $1 AND leased_until = $2",
        claim.project.as_str(),
        claim.leased_until,
    )
    .execute(db)
    .await
    .map(drop)
}
