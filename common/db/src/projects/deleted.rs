//! Deleted projects that can be restored for some days.
//!
//! The transaction that deletes a project keeps its rows as JSON and its sealed variables in a separate table; packs
//! and statistics stay in place. Restoring inserts the rows again, column by column. Shares are not kept.

use domain::{
    Account, DeploymentId, Hostname, OrgId, OrgName, ProjectId, ProjectName, Timestamp, UserId,
    addresses::HostKey,
    changes::PendingChange,
    limits::{NAME_RETIREMENT, PACK_LEAST_BYTES, PACK_OVERHEAD_BYTES, PROJECT_RESTORABLE},
    names::NewProjectName,
    plans::{LimitReached, PlanLimits, Plans},
};
use sqlx::{PgConnection, PgExecutor};

use super::{
    project::{self, Project},
    suspension::{self, SuspendedError},
};
use crate::{
    billing::plan,
    names::{self, ReservedName},
    permits::{Admin, AtLeast, DeletedProjectPermit},
    quotas::{self, QuotaError},
    upkeep::pack_removals,
};

/// A project that can be restored.
#[derive(Debug, Clone)]
pub struct DeletedProject {
    /// The id, which a restored project keeps.
    pub id: ProjectId,
    /// The former name.
    pub name: ProjectName,
    /// The account that owned it.
    pub owner: Account,
    /// The org that owned it.
    pub org_id: Option<OrgId>,
    /// That org's name.
    pub org: Option<OrgName>,
    /// The former custom domains.
    pub domains: Vec<Hostname>,
    /// The time of the deletion.
    pub deleted_at: Timestamp,
}

impl DeletedProject {
    /// Returns the time until which it can be restored.
    pub fn restorable_until(&self) -> Timestamp {
        self.deleted_at + PROJECT_RESTORABLE
    }
}

/// Keeps the rows of a project that is being deleted. The caller has locked it.
pub(super) async fn store(conn: &mut PgConnection, id: &ProjectId, now: Timestamp) -> Result<(), sqlx::Error> {
    // A pending upload is not kept: it fails when it finds no record.
    sqlx::query!(
        "INSERT INTO deleted_projects
             (id, name, user_id, org_id, deleted_at, project, deployments, domains, repo_link, public_stats, payer, bytes)
         SELECT p.id, p.name, p.user_id, p.org_id, $2, to_jsonb(p),
                COALESCE((SELECT jsonb_agg(to_jsonb(d) ORDER BY d.id) FROM deployments d
                          WHERE d.project_id = p.id AND d.status <> 'uploading'), '[]'),
                COALESCE((SELECT jsonb_agg(to_jsonb(c) ORDER BY c.domain) FROM custom_domains c
                          WHERE c.project_id = p.id), '[]'),
                (SELECT to_jsonb(l) FROM repo_links l WHERE l.project_id = p.id),
                (SELECT to_jsonb(s) FROM public_stats s WHERE s.project_id = p.id),
                payer_of(COALESCE(p.org_id, p.user_id)),
                (SELECT COALESCE(sum(greatest(COALESCE(d.stored_bytes, d.bytes) + $3::bigint, $4)), 0)::bigint
                 FROM deployments d WHERE d.project_id = p.id AND d.status IN ('live', 'superseded'))
         FROM projects p WHERE p.id = $1",
        id.as_str(),
        now,
        PACK_OVERHEAD_BYTES,
        PACK_LEAST_BYTES,
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!(
        "INSERT INTO deleted_env_vars (project_id, key, sealed_value, scope, value_bytes, created_at, updated_at)
         SELECT project_id, key, sealed_value, scope, value_bytes, created_at, updated_at
         FROM env_vars WHERE project_id = $1",
        id.as_str(),
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Forgets the oldest deleted projects of `owner` beyond its share of the numbers of projects and of stored bytes in
/// `limits`, which are those of the account that pays. Their already queued pack removals become due.
///
/// An organization whose creator pays has a share of its own, of which there are as many as one creator may have
/// organizations. Its members delete nothing that the creator, or another of the creator's organizations, may restore.
/// The newest project is always kept.
pub(super) async fn trim(
    conn: &mut PgConnection,
    owner: &Account,
    payer: &Account,
    limits: &PlanLimits,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    let shares = if owner == payer { 1 } else { limits.orgs.max(1) };
    sqlx::query!(
        "WITH ranked AS (
             SELECT id, row_number() OVER newest_first AS place, sum(bytes) OVER newest_first AS bytes_so_far
             FROM deleted_projects WHERE user_id = $1 OR org_id = $2
             WINDOW newest_first AS (ORDER BY deleted_at DESC, id DESC)),
         forgotten AS (
             DELETE FROM deleted_projects
             WHERE id IN (SELECT id FROM ranked WHERE place > 1 AND (place > $3 OR bytes_so_far > $4::bigint))
             RETURNING deployments)
         UPDATE pack_removals SET next_attempt_at = $5
         WHERE next_attempt_at > $5 AND deployment_id IN (
             SELECT d.id FROM forgotten, jsonb_to_recordset(forgotten.deployments) AS d (id text))",
        owner.as_user().map(UserId::as_str),
        owner.as_org().map(OrgId::as_str),
        i64::from(limits.projects.div_ceil(shares)),
        i64::try_from(limits.storage_bytes / u64::from(shares)).unwrap_or(i64::MAX),
        now,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Forgets the restorable projects of an organization that is being deleted. Their pack removals become due.
pub(crate) async fn forget_for_org(conn: &mut PgConnection, org: &OrgId, now: Timestamp) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "WITH forgotten AS (DELETE FROM deleted_projects WHERE org_id = $1 RETURNING deployments)
         UPDATE pack_removals SET next_attempt_at = $2
         WHERE next_attempt_at > $2 AND deployment_id IN (
             SELECT d.id FROM forgotten, jsonb_to_recordset(forgotten.deployments) AS d (id text))",
        org.as_str(),
        now,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Returns an account's restorable projects, newest deletion first: at most `rows`, older than `before`.
pub async fn page(
    db: impl PgExecutor<'_>,
    owner: &Account,
    before: Option<&ProjectId>,
    rows: i64,
    now: Timestamp,
) -> Result<Vec<DeletedProject>, sqlx::Error> {
    sqlx::query_as!(
        DeletedProject,
        r#"SELECT d.id, d.name, COALESCE(d.org_id, d.user_id) AS "owner!: Account", d.org_id,
                  o.name AS "org?: OrgName", d.deleted_at,
                  ARRAY(SELECT c.domain FROM jsonb_to_recordset(d.domains) AS c (domain text) ORDER BY 1) AS "domains!: Vec<Hostname>"
           FROM deleted_projects d LEFT JOIN orgs o ON o.id = d.org_id
           WHERE (d.user_id = $1 OR d.org_id = $2) AND d.deleted_at > $3 AND ($4::text IS NULL OR d.id < $4)
           ORDER BY d.id DESC LIMIT $5"#,
        owner.as_user().map(UserId::as_str),
        owner.as_org().map(OrgId::as_str),
        now - PROJECT_RESTORABLE,
        before.map(ProjectId::as_str),
        rows,
    )
    .fetch_all(db)
    .await
}

/// The reason a project was not restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The project was restored already, or its time is over.
    #[error("the project cannot be restored any more")]
    Gone,
    /// The name is in use.
    #[error("the name is taken")]
    NameTaken,
    /// The name is reserved for another former owner for a while.
    #[error("the name is kept for its former owner")]
    NameKept,
    /// The operator has suspended the owner.
    #[error(transparent)]
    Suspended(#[from] SuspendedError),
    /// The owner's plan has no room for the project, its files or its domains.
    #[error(transparent)]
    Quota(#[from] LimitReached),
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

impl From<QuotaError> for RestoreError {
    fn from(error: QuotaError) -> Self {
        match error {
            QuotaError::Reached(reached) => Self::Quota(reached),
            QuotaError::Db(error) => Self::Db(error),
        }
    }
}

/// A project that was restored.
#[derive(Debug)]
pub struct RestoredProject {
    /// The project.
    pub project: Project,
    /// The restored custom domains. Others were taken meanwhile.
    pub domains: Vec<Hostname>,
    /// The subject and hosts for which edges must clear their caches.
    pub touched: PendingChange,
}

/// Restores a project for `restorer`, under its former name or `name`, if its owner's plan has room. Domains that
/// another project has taken stay there, and the repository link is restored only if it is still allowed.
pub async fn restore(
    conn: &mut PgConnection,
    deleted: &DeletedProjectPermit<impl AtLeast<Admin>>,
    restorer: &UserId,
    name: Option<NewProjectName>,
    plans: &Plans,
    now: Timestamp,
) -> Result<RestoredProject, RestoreError> {
    let name = name.map_or_else(|| deleted.name.clone(), ProjectName::from);
    let id = deleted.id.as_str();
    sqlx::query_scalar!(
        "SELECT id FROM deleted_projects WHERE id = $1 AND deleted_at > $2 FOR UPDATE",
        id,
        now - PROJECT_RESTORABLE,
    )
    .fetch_optional(&mut *conn)
    .await?
    .ok_or(RestoreError::Gone)?;
    let allowance = plan::lock_allowance(&mut *conn, plans, &deleted.owner).await?;
    if let Some(suspended) = suspension::find_for_account(&mut *conn, &deleted.owner).await? {
        return Err(suspended.into());
    }
    quotas::projects(&mut *conn, &deleted.owner, &allowance).await?;
    insert_project(&mut *conn, id, &name).await?;
    let accounts = [deleted.owner.to_string(), restorer.to_string()];
    if !names::reclaim(&mut *conn, ReservedName::Project(&name), &accounts, now).await? {
        return Err(RestoreError::NameKept);
    }
    let deployments = insert_deployments(&mut *conn, id).await?;
    let domains = insert_domains(&mut *conn, id, &accounts, now - NAME_RETIREMENT).await?;
    for domain in &domains {
        names::end_retirement(&mut *conn, ReservedName::Domain(domain)).await?;
    }
    insert_rest(&mut *conn, id).await?;
    // The checks include the rows just inserted; an error rolls them back.
    quotas::stored_bytes(&mut *conn, &deleted.owner, 0, &allowance).await?;
    if !domains.is_empty() {
        quotas::domains(&mut *conn, &deleted.owner, 0, &allowance).await?;
    }
    let packs: Vec<String> = deployments.iter().map(DeploymentId::to_string).collect();
    pack_removals::dequeue(&mut *conn, &packs).await?;
    sqlx::query!("DELETE FROM traffic_removals WHERE project_id = $1", id).execute(&mut *conn).await?;
    sqlx::query!("DELETE FROM deleted_projects WHERE id = $1", id).execute(&mut *conn).await?;
    let project = project::find(conn, &deleted.id).await?;
    let hosts = domains.iter().cloned().map(HostKey::Domain);
    let permanent: Vec<_> = deployments.iter().filter_map(|deployment| project.deployment_host(deployment)).collect();
    let touched = PendingChange::new(&project.id).with_hosts([project.host()]).with_hosts(hosts).with_hosts(permanent);
    Ok(RestoredProject { project, domains, touched })
}

/// Inserts the project's own row, with a new access version so that visitors must pass its gate again.
async fn insert_project(conn: &mut PgConnection, id: &str, name: &ProjectName) -> Result<(), RestoreError> {
    let inserted = sqlx::query!(
        "INSERT INTO projects (id, name, user_id, org_id, active_deployment_id, access_mode, password_hash, access_version,
                               suspended_at, suspended_for, created_at)
         SELECT k.id, $2, k.user_id, k.org_id, p.active_deployment_id, p.access_mode, p.password_hash,
                p.access_version + 1, p.suspended_at, p.suspended_for, p.created_at
         FROM deleted_projects k,
              jsonb_to_record(k.project) AS p (active_deployment_id text, access_mode text, password_hash text,
                  access_version bigint, suspended_at timestamptz, suspended_for text, created_at timestamptz)
         WHERE k.id = $1
         ON CONFLICT (name) DO NOTHING",
        id,
        name.as_str(),
    )
    .execute(conn)
    .await?;
    if inserted.rows_affected() == 1 { Ok(()) } else { Err(RestoreError::NameTaken) }
}

async fn insert_deployments(conn: &mut PgConnection, id: &str) -> Result<Vec<DeploymentId>, sqlx::Error> {
    sqlx::query_scalar!(
        "INSERT INTO deployments (id, project_id, status, files, bytes, cli_version, git_sha, created_by, failure,
                                  access_version, created_at, superseded_at, stored_bytes)
         SELECT d.id, k.id, d.status, d.files, d.bytes, d.cli_version, d.git_sha, d.created_by, d.failure,
                d.access_version, d.created_at, d.superseded_at, d.stored_bytes
         FROM deleted_projects k,
              jsonb_to_recordset(k.deployments) AS d (id text, status text, files integer, bytes bigint, cli_version text,
                  git_sha text, created_by text, failure text, access_version bigint, created_at timestamptz,
                  superseded_at timestamptz, stored_bytes bigint)
         WHERE k.id = $1
         RETURNING id",
        id,
    )
    .fetch_all(conn)
    .await
}

/// Inserts and returns the custom domains that nobody has taken and that are not reserved for accounts other than
/// `accounts`. Reservations from before `retired_until` have expired.
async fn insert_domains(
    conn: &mut PgConnection,
    id: &str,
    accounts: &[String],
    retired_until: Timestamp,
) -> Result<Vec<Hostname>, sqlx::Error> {
    sqlx::query_scalar!(
        "INSERT INTO custom_domains (domain, project_id, created_at, proven_at)
         SELECT c.domain, k.id, c.created_at, c.proven_at
         FROM deleted_projects k,
              jsonb_to_recordset(k.domains) AS c (domain text, created_at timestamptz, proven_at timestamptz)
         WHERE k.id = $1
           AND NOT EXISTS (SELECT FROM retired_names r WHERE r.kind = 'domain' AND r.name = c.domain
                           AND r.retired_at > $3 AND NOT r.former_owners && $2::text[])
         ON CONFLICT (domain) DO NOTHING
         RETURNING domain",
        id,
        accounts,
        retired_until,
    )
    .fetch_all(conn)
    .await
}

/// Inserts the variables, the public statistics link and, if its requirements still exist, the repository link.
async fn insert_rest(conn: &mut PgConnection, id: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO env_vars (project_id, key, sealed_value, scope, value_bytes, created_at, updated_at)
         SELECT project_id, key, sealed_value, scope, value_bytes, created_at, updated_at
         FROM deleted_env_vars WHERE project_id = $1",
        id,
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!(
        "INSERT INTO public_stats (project_id, token, created_at, created_by)
         SELECT k.id, s.token, s.created_at, s.created_by
         FROM deleted_projects k, jsonb_to_record(k.public_stats) AS s (token text, created_at timestamptz, created_by text)
         WHERE k.id = $1 AND k.public_stats IS NOT NULL
         ON CONFLICT DO NOTHING",
        id,
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!(
        "INSERT INTO repo_links (project_id, installation_id, org_id, repo_id, repo, owner_avatar_url, branch, directory,
                                 linked_by, linked_at, last_sha, head_sha, check_head_at)
         SELECT k.id, l.installation_id, k.org_id, l.repo_id, l.repo, l.owner_avatar_url, l.branch, l.directory,
                l.linked_by, l.linked_at, l.last_sha, l.head_sha, l.check_head_at
         FROM deleted_projects k,
              jsonb_to_record(k.repo_link) AS l (installation_id bigint, org_id text, repo_id bigint, repo text,
                  owner_avatar_url text, branch text, directory text, linked_by text, linked_at timestamptz,
                  last_sha text, head_sha text, check_head_at timestamptz)
         WHERE k.id = $1 AND k.repo_link IS NOT NULL AND l.org_id IS NOT DISTINCT FROM k.org_id
           AND EXISTS (SELECT FROM installations i WHERE i.id = l.installation_id)
           AND EXISTS (SELECT FROM users u WHERE u.id = l.linked_by)
           AND (k.org_id IS NULL OR EXISTS (SELECT FROM installation_shares s
                                            WHERE s.installation_id = l.installation_id AND s.org_id = k.org_id))",
        id,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Forgets and counts at most `limit` projects that are no longer restorable by both `now` and the clock of Postgres.
pub async fn forget_expired(db: impl PgExecutor<'_>, now: Timestamp, limit: i64) -> Result<u64, sqlx::Error> {
    let forgotten = sqlx::query!(
        "DELETE FROM deleted_projects WHERE id IN
             (SELECT id FROM deleted_projects WHERE deleted_at <= least($1, now()) - make_interval(secs => $2)
              ORDER BY deleted_at LIMIT $3 FOR UPDATE SKIP LOCKED)",
        now,
        PROJECT_RESTORABLE.as_secs_f64(),
        limit,
    )
    .execute(db)
    .await?;
    Ok(forgotten.rows_affected())
}
