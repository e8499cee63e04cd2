//! Names of deleted projects and organizations, and detached domains, reserved for their former owners for a while.
//!
//! A name is retired in the transaction that deletes its holder, if something was published under it: reserving unseen
//! names would let an account take names without end. An account keeps a bounded number of its newest retired names of
//! each kind. A name is reclaimed after the row that takes it was inserted: by then the unique index has waited for a
//! concurrent deletion, whose retired name is visible.

use domain::{
    Account, Hostname, OrgId, OrgName, ProjectId, ProjectName, Timestamp, UserId,
    limits::NAME_RETIREMENT,
    plans::{PlanLimits, Plans},
};
use sqlx::{PgConnection, PgExecutor};

use crate::billing::plan;

/// The retired domains kept per account. A plan limits attached domains, but not how often one is detached.
const KEPT_DOMAINS: i64 = 100;

/// A name, in one of the separate namespaces.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ReservedName<'a> {
    /// The name of a project.
    Project(&'a ProjectName),
    /// The name of an organization.
    Org(&'a OrgName),
    /// A custom domain.
    Domain(&'a Hostname),
}

impl ReservedName<'_> {
    fn kind(&self) -> &'static str {
        match self {
            Self::Project(_) => "project",
            Self::Org(_) => "org",
            Self::Domain(_) => "domain",
        }
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Project(name) => name.as_str(),
            Self::Org(name) => name.as_str(),
            Self::Domain(name) => name.as_str(),
        }
    }
}

/// Retires the name of a project that is being deleted for its owner, whose plan allows `limits`. The name of a project
/// that never served anything is released; an existing retirement of a reclaimed name continues for its remaining time.
pub(crate) async fn retire_project_name(
    conn: &mut PgConnection,
    id: &ProjectId,
    name: &ProjectName,
    owner: &Account,
    limits: &PlanLimits,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    let was_published = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM deployments WHERE project_id = $1 AND status IN ('live', 'superseded')) AS "was!""#,
        id.as_str(),
    );
    if !was_published.fetch_one(&mut *conn).await? {
        return Ok(());
    }
    let owners = [owner.to_string()];
    retire(&mut *conn, ReservedName::Project(name), &owners, now).await?;
    trim(conn, "project", &owners, limits.projects.into()).await
}

/// Retires `domain`, or all domains of a project being deleted, for the owner, who keeps the last [`KEPT_DOMAINS`].
pub(crate) async fn retire_domains(
    conn: &mut PgConnection,
    project: &ProjectId,
    domain: Option<&Hostname>,
    owner: &Account,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO retired_names (kind, name, former_owners, retired_at)
         SELECT 'domain', domain, ARRAY[$2::text], $3 FROM custom_domains
         WHERE project_id = $1 AND ($4::text IS NULL OR domain = $4) ORDER BY domain
         ON CONFLICT (kind, name) DO UPDATE
             SET former_owners = excluded.former_owners, retired_at = excluded.retired_at",
        project.as_str(),
        owner.as_str(),
        now,
        domain.map(Hostname::as_str),
    )
    .execute(&mut *conn)
    .await?;
    trim(conn, "domain", &[owner.to_string()], KEPT_DOMAINS).await
}

/// Returns the time since which a domain is kept for an account other than `accounts`.
pub(crate) async fn domain_kept_since(
    db: impl PgExecutor<'_>,
    domain: &Hostname,
    accounts: &[String],
    now: Timestamp,
) -> Result<Option<Timestamp>, sqlx::Error> {
    sqlx::query_scalar!(
        "SELECT retired_at FROM retired_names
         WHERE kind = 'domain' AND name = $1 AND retired_at > $2 AND NOT former_owners && $3::text[]",
        domain.as_str(),
        now - NAME_RETIREMENT,
        accounts,
    )
    .fetch_optional(db)
    .await
}

/// Ends the retirement of a domain that is attached again.
pub(crate) async fn end_retirement(conn: &mut PgConnection, name: ReservedName<'_>) -> Result<(), sqlx::Error> {
    sqlx::query!("DELETE FROM retired_names WHERE kind = $1 AND name = $2", name.kind(), name.as_str())
        .execute(conn)
        .await
        .map(drop)
}

/// Retires the name of an org that is being deleted for its owners, who also inherit the names retired for the org, as
/// far as the first owner's plan allows. The name of an org that nobody else joined, and that published and paid
/// nothing, is released. The caller holds the org's lock, and has not removed its members yet.
pub(crate) async fn retire_org_name(
    conn: &mut PgConnection,
    id: &OrgId,
    name: &OrgName,
    plans: &Plans,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    let owners: Vec<String> = sqlx::query_scalar!(
        "SELECT user_id FROM org_members WHERE org_id = $1 AND role = 'owner' ORDER BY user_id",
        id.as_str(),
    )
    .fetch_all(&mut *conn)
    .await?
    .iter()
    .map(UserId::to_string)
    .collect();
    let limits = match owners.first().and_then(|owner| owner.parse().ok()) {
        Some(owner) => plan::limits(&mut *conn, plans, &owner).await?,
        None => plans.limits_for(None),
    };
    let was_known = sqlx::query_scalar!(
        r#"SELECT (SELECT count(*) FROM org_members WHERE org_id = $1) > 1
                  OR EXISTS (SELECT FROM invites WHERE org_id = $1 AND accepted_by IS NOT NULL)
                  OR EXISTS (SELECT FROM retired_names WHERE former_owners = ARRAY[$1::text])
                  OR EXISTS (SELECT FROM invoices WHERE account = $1) AS "was!""#,
        id.as_str(),
    );
    if was_known.fetch_one(&mut *conn).await? {
        retire(&mut *conn, ReservedName::Org(name), &owners, now).await?;
    }
    sqlx::query!(
        "UPDATE retired_names SET former_owners = $2 WHERE former_owners = ARRAY[$1::text]",
        id.as_str(),
        owners.as_slice(),
    )
    .execute(&mut *conn)
    .await?;
    for (kind, most) in [("org", limits.orgs.into()), ("project", limits.projects.into()), ("domain", KEPT_DOMAINS)] {
        trim(&mut *conn, kind, &owners, most).await?;
    }
    Ok(())
}

/// Deletes the oldest retired names of a kind for `former_owners`, keeping `most`.
async fn trim(conn: &mut PgConnection, kind: &str, former_owners: &[String], most: i64) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "DELETE FROM retired_names WHERE (kind, name) IN
             (SELECT kind, name FROM retired_names WHERE kind = $1 AND former_owners = $2
              ORDER BY retired_at DESC, name OFFSET $3)",
        kind,
        former_owners,
        most,
    )
    .execute(conn)
    .await
    .map(drop)
}

async fn retire(
    conn: &mut PgConnection,
    name: ReservedName<'_>,
    former_owners: &[String],
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    // An existing row is expired, or belongs to the same owner.
    sqlx::query!(
        "INSERT INTO retired_names (kind, name, former_owners, retired_at) VALUES ($1, $2, $3, $4)
         ON CONFLICT (kind, name) DO UPDATE
             SET former_owners = excluded.former_owners, retired_at = excluded.retired_at",
        name.kind(),
        name.as_str(),
        former_owners,
        now,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Takes a name for the first of `accounts`, if any of them may have it. If it returns false, the name is kept for
/// another account, and the caller must roll back the row that takes it. A reclaimed project or org name stays retired
/// for its remaining time, now for its new owner alone, who would otherwise lose it by deleting a holder that published
/// nothing.
pub(crate) async fn reclaim(
    conn: &mut PgConnection,
    name: ReservedName<'_>,
    accounts: &[String],
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    let is_theirs = sqlx::query_scalar!(
        r#"SELECT former_owners && $4::text[] AS "is_theirs!" FROM retired_names
           WHERE kind = $1 AND name = $2 AND retired_at > $3"#,
        name.kind(),
        name.as_str(),
        now - NAME_RETIREMENT,
        accounts,
    );
    match is_theirs.fetch_optional(&mut *conn).await? {
        Some(false) => Ok(false),
        Some(true) if !matches!(name, ReservedName::Domain(_)) => {
            sqlx::query!(
                "UPDATE retired_names SET former_owners = $3::text[] WHERE kind = $1 AND name = $2",
                name.kind(),
                name.as_str(),
                accounts.first().map(std::slice::from_ref).unwrap_or_default(),
            )
            .execute(conn)
            .await?;
            Ok(true)
        }
        Some(true) | None => {
            end_retirement(conn, name).await?;
            Ok(true)
        }
    }
}

/// Deletes at most `limit` names that were retired before `before`, and returns their number.
pub async fn delete_retired(db: impl PgExecutor<'_>, before: Timestamp, limit: i64) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query!(
        "DELETE FROM retired_names WHERE (kind, name) IN
             (SELECT kind, name FROM retired_names WHERE retired_at < $1 ORDER BY retired_at LIMIT $2
              FOR UPDATE SKIP LOCKED)",
        before,
        limit,
    )
    .execute(db)
    .await?;
    Ok(deleted.rows_affected())
}
