//! Names of deleted projects and organizations, and domains of deleted projects, which only their former owners may take again for a while.
//!
//! A name is retired in the transaction that deletes what had it, if something was published under it: whatever nobody saw leads nobody
//! anywhere, and to keep it would be a way of taking names without end. Of an account's retired names of a kind, the newest stay: as
//! many as its plan allows of what is named. A name is reclaimed after the row that takes it was inserted: by then the unique index has
//! waited for a deletion under way, whose retired name is visible.

use domain::{
    Account, Hostname, OrgId, OrgName, ProjectId, ProjectName, Timestamp, UserId,
    limits::NAME_RETIREMENT,
    plans::{PlanLimits, Plans},
};
use sqlx::{PgConnection, PgExecutor};

use crate::billing::plan;

/// Domains that are kept for one account. A plan bounds those that it has, and nothing how often it gives one up.
const KEPT_DOMAINS: i64 = 100;

/// A name, of one of the kinds that have names apart.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Name<'a> {
    /// The name of a project.
    Project(&'a ProjectName),
    /// The name of an organization.
    Org(&'a OrgName),
    /// A custom domain.
    Domain(&'a Hostname),
}

impl Name<'_> {
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

/// Retires the name of a project that is being deleted, for the account that owned it, whose plan allows `limits`. The name of one that
/// never served anything is free; if it was retired before, and reclaimed, it stays so for the rest of its time.
pub(crate) async fn retire_of_project(
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
    retire(&mut *conn, Name::Project(name), &owners, now).await?;
    trim(conn, "project", &owners, limits.projects.into()).await
}

/// Retires a custom domain that a project is about to lose, or all that one has which is being deleted, for the account that owns it. Of
/// those that an account has given up, the last [`KEPT_DOMAINS`] are kept.
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

/// Returns since when a domain is kept for an account that is none of `accounts`.
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

/// Ends the retirement of a domain, which somebody has by now.
pub(crate) async fn end_retirement(conn: &mut PgConnection, name: Name<'_>) -> Result<(), sqlx::Error> {
    sqlx::query!("DELETE FROM retired_names WHERE kind = $1 AND name = $2", name.kind(), name.as_str())
        .execute(conn)
        .await
        .map(drop)
}

/// Retires the name of an org that is being deleted, for its owners, who also get what was retired for the org: no more than the plan of
/// the first of them allows. The name of one that nobody else joined, and that published and paid nothing, is free. The caller holds the
/// org's lock, and has not removed its members yet.
pub(crate) async fn retire_of_org(
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
        None => plans.limits_of(None),
    };
    let was_known = sqlx::query_scalar!(
        r#"SELECT (SELECT count(*) FROM org_members WHERE org_id = $1) > 1
                  OR EXISTS (SELECT FROM invites WHERE org_id = $1 AND accepted_by IS NOT NULL)
                  OR EXISTS (SELECT FROM retired_names WHERE former_owners = ARRAY[$1::text])
                  OR EXISTS (SELECT FROM invoices WHERE account = $1) AS "was!""#,
        id.as_str(),
    );
    if was_known.fetch_one(&mut *conn).await? {
        retire(&mut *conn, Name::Org(name), &owners, now).await?;
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

/// Gives up the oldest names of a kind that are retired for `former_owners`, so that `most` are left.
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
    name: Name<'_>,
    former_owners: &[String],
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    // What is there already is of an owner before, whose time was over or who is this one.
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

/// Takes a name for the first of `accounts`, if any of them may have it. Returns false when it is still kept for somebody else. The name of a former owner's project or
/// org stays retired for the rest of its time, for its new owner alone: were it free, they would lose it by deleting one that published nothing. The caller has
/// inserted the row that takes the name, and gives it up by a rollback.
pub(crate) async fn reclaim(
    conn: &mut PgConnection,
    name: Name<'_>,
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
        Some(true) if !matches!(name, Name::Domain(_)) => {
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
