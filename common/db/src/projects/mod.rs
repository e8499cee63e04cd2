//! Projects: their rows, and what changes them. The proof that somebody may act on one is in `permit`.

mod permit;

use sqlx::{PgConnection, PgExecutor};

pub(super) use self::permit::permit_linked;
pub use self::permit::{Administer, AtLeast, Deploy, Edit, Level, Party, Permit, PermitError, permit};

use domain::{
    DeploymentId, OrgId, OrgName, ProjectId, ProjectName, ShareName, Timestamp, UserId, access::AccessMode,
    addresses::HostKey, changes::Touched, names::NewProjectName,
};

use super::{domains, orgs::Membership, pack_removals, repo_links};

/// A project's row, with its org's name.
#[derive(Debug, Clone)]
pub struct Project {
    /// Its id.
    pub id: ProjectId,
    /// Its subdomain.
    pub name: ProjectName,
    /// The owning org.
    pub org_id: Option<OrgId>,
    /// The owning org's name.
    pub org: Option<OrgName>,
    /// What it serves.
    pub active_deployment_id: Option<DeploymentId>,
    /// Who may see it.
    pub access_mode: AccessMode,
    /// The three words, when a share is behind it.
    pub share_name: Option<ShareName>,
    /// When it goes away.
    pub expires_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
}

impl Project {
    /// The address under which its active deployment is served.
    pub fn host(&self) -> HostKey {
        self.share_name.clone().map_or_else(|| HostKey::Project(self.name.clone()), HostKey::Share)
    }

    /// The address of one of its deployments; a share has none but its own.
    pub fn deployment_host(&self, id: &DeploymentId) -> Option<HostKey> {
        self.share_name.is_none().then(|| HostKey::Deployment(id.clone(), self.name.clone()))
    }
}

/// The owner's projects, newest first: at most `rows`, older than `before`; shares are not among them.
pub async fn page(
    db: impl PgExecutor<'_>,
    owner: &Party,
    before: Option<&ProjectId>,
    rows: i64,
) -> Result<Vec<Project>, sqlx::Error> {
    let (user, org) = owner.columns();
    sqlx::query_as!(
        Project,
        r#"SELECT p.id AS "id: ProjectId", p.name AS "name: ProjectName", p.org_id AS "org_id: OrgId",
                  o.name AS "org?: OrgName", p.active_deployment_id AS "active_deployment_id: DeploymentId",
                  p.access_mode AS "access_mode: AccessMode", p.share_name AS "share_name: ShareName",
                  p.expires_at AS "expires_at: Timestamp", p.created_at AS "created_at: Timestamp"
           FROM projects p LEFT JOIN orgs o ON o.id = p.org_id
           WHERE (p.user_id = $1 OR p.org_id = $2) AND p.share_name IS NULL AND ($3::text IS NULL OR p.id < $3)
           ORDER BY p.id DESC LIMIT $4"#,
        user,
        org,
        before.map(ProjectId::as_str),
        rows,
    )
    .fetch_all(db)
    .await
}

/// Why a project was not made.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// Somebody has the name.
    #[error("the name is taken")]
    NameTaken,
    /// The owner was deleted meanwhile.
    #[error("the owner is gone")]
    OwnerGone,
    /// The database.
    #[error(transparent)]
    Db(sqlx::Error),
}

impl From<sqlx::Error> for CreateError {
    fn from(error: sqlx::Error) -> Self {
        let owner_gone = error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_foreign_key_violation);
        if owner_gone { Self::OwnerGone } else { Self::Db(error) }
    }
}

/// Makes a project that serves nothing yet.
pub async fn create(
    conn: &mut PgConnection,
    owner: &Party,
    name: NewProjectName,
    now: Timestamp,
) -> Result<Project, CreateError> {
    let (user, org) = owner.columns();
    let name = ProjectName::from(name);
    let id = ProjectId::new(now);
    sqlx::query_as!(
        Project,
        r#"INSERT INTO projects (id, name, user_id, org_id, created_at) VALUES ($1, $2, $3, $4, $5)
           ON CONFLICT (name) DO NOTHING
           RETURNING id AS "id: ProjectId", name AS "name: ProjectName", org_id AS "org_id: OrgId",
                  (SELECT o.name FROM orgs o WHERE o.id = org_id) AS "org: OrgName",
                  active_deployment_id AS "active_deployment_id: DeploymentId",
                  access_mode AS "access_mode: AccessMode", share_name AS "share_name: ShareName",
                  expires_at AS "expires_at: Timestamp", created_at AS "created_at: Timestamp""#,
        id.as_str(),
        name.as_str(),
        user,
        org,
        now as Timestamp,
    )
    .fetch_optional(conn)
    .await?
    .ok_or(CreateError::NameTaken)
}

/// Who is to see a site from now on.
#[derive(Debug, Clone)]
pub enum NewAccess {
    /// Everybody; a stored password is kept for later.
    Public,
    /// Everybody, and the stored password is forgotten.
    WithoutPassword,
    /// Who knows the password: this one's hash, or the stored one.
    Password(Option<String>),
    /// The members of the owning org.
    Org,
}

/// Why the access mode stays as it was.
#[derive(Debug, thiserror::Error)]
pub enum SetAccessError {
    /// The project was deleted meanwhile.
    #[error("the project is gone")]
    Gone,
    /// No password was given, and none is stored.
    #[error("there is no password")]
    NoPassword,
    /// A personal project has no members.
    #[error("the project belongs to no organization")]
    Personal,
    /// The database.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Changes who may see the site. Every change ends the visits that a gate has let in.
pub async fn set_access(
    conn: &mut PgConnection,
    project: &Permit<impl AtLeast<Edit>>,
    access: NewAccess,
) -> Result<(AccessMode, Touched), SetAccessError> {
    // Locked, because the new state depends on the stored one.
    let stored = sqlx::query!(
        r#"SELECT access_mode AS "access_mode: AccessMode", password_hash, org_id FROM projects
           WHERE id = $1 FOR UPDATE"#,
        project.id.as_str(),
    )
    .fetch_optional(&mut *conn)
    .await?
    .ok_or(SetAccessError::Gone)?;
    let (mode, password_hash) = match access {
        NewAccess::Public => (AccessMode::Public, stored.password_hash),
        NewAccess::WithoutPassword => (AccessMode::Public, None),
        NewAccess::Password(hash) => {
            let hash = hash.or(stored.password_hash).ok_or(SetAccessError::NoPassword)?;
            (AccessMode::Password, Some(hash))
        }
        NewAccess::Org if stored.org_id.is_none() => return Err(SetAccessError::Personal),
        NewAccess::Org => (AccessMode::Org, stored.password_hash),
    };
    sqlx::query!(
        "UPDATE projects SET access_mode = $2, password_hash = $3, access_version = access_version + 1 WHERE id = $1",
        project.id.as_str(),
        mode as AccessMode,
        password_hash,
    )
    .execute(&mut *conn)
    .await?;
    Ok((mode, Touched::new(&project.id)))
}

/// Whom a project is to belong to.
#[derive(Debug, Clone, Copy)]
pub enum Destination<'a> {
    /// The person who moves it.
    Personal(&'a UserId),
    /// An org, of which the person who moves it is a member.
    Org(&'a Membership),
}

/// Why a project was not moved.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The project was deleted or moved meanwhile.
    #[error("the project is gone")]
    Gone,
    /// The org was deleted meanwhile.
    #[error("the organization is gone")]
    OrgGone,
    /// A share stays with who made it.
    #[error("a share cannot be moved")]
    Share,
    /// Only the org's members may see the site, and a personal project has none: it would have to become public.
    #[error("the site is open to the organization's members only")]
    OrgGated,
    /// The plan of who is to own it has no room for its domains.
    #[error("the new owner's plan does not allow the project's domains")]
    DomainLimit,
    /// The database.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Moves the project, whose custom domains go with it; its new owner may have `most_domains` in all. None when it is
/// there already. Every move ends the visits that a gate has let in.
pub async fn transfer(
    conn: &mut PgConnection,
    project: &Permit<impl AtLeast<Administer>>,
    to: Destination<'_>,
    most_domains: u32,
) -> Result<Option<(Project, Touched)>, TransferError> {
    if project.share_name.is_some() {
        return Err(TransferError::Share);
    }
    // Locked, and read again: who was permitted to move it out of one org may not move it out of the next.
    let stored = sqlx::query!(
        r#"SELECT access_mode AS "access_mode: AccessMode", user_id AS "user_id: UserId" FROM projects
           WHERE id = $1 AND org_id IS NOT DISTINCT FROM $2 FOR UPDATE"#,
        project.id.as_str(),
        project.org_id.as_ref().map(OrgId::as_str),
    )
    .fetch_optional(&mut *conn)
    .await?
    .ok_or(TransferError::Gone)?;
    let (user, org) = match to {
        Destination::Personal(user) => (Some(user), None),
        Destination::Org(membership) => (None, Some(membership)),
    };
    if stored.user_id.as_ref() == user && project.org_id.as_ref() == org.map(Membership::org) {
        return Ok(None);
    }
    if org.is_none() && stored.access_mode == AccessMode::Org {
        return Err(TransferError::OrgGated);
    }
    let owner = match to {
        Destination::Personal(user) => Party::User(user.clone()),
        Destination::Org(membership) => Party::Org(membership.org().clone()),
    };
    if !domains::fit(conn, &project.id, &owner, most_domains).await? {
        return Err(TransferError::DomainLimit);
    }
    let moved = sqlx::query!(
        "UPDATE projects SET user_id = $2, org_id = $3, access_version = access_version + 1 WHERE id = $1",
        project.id.as_str(),
        user.map(UserId::as_str),
        org.map(|membership| membership.org().as_str()),
    )
    .execute(&mut *conn)
    .await;
    match moved {
        Err(sqlx::Error::Database(error)) if error.is_foreign_key_violation() => return Err(TransferError::OrgGone),
        moved => moved?,
    };
    // Whose installation it was read through is not the new owner's business.
    repo_links::end(conn, &project.id).await?;
    let moved = Project {
        org_id: org.map(|membership| membership.org().clone()),
        org: org.map(|membership| membership.name().clone()),
        ..Project::clone(project)
    };
    Ok(Some((moved, Touched::new(&project.id))))
}

/// Deletes the project and all it owns; its packs are queued for removal. None when it is gone already.
pub async fn delete(
    conn: &mut PgConnection,
    project: &Permit<impl AtLeast<Administer>>,
    now: Timestamp,
) -> Result<Option<Touched>, sqlx::Error> {
    // Who was permitted to delete it in one org may not delete it in the next.
    let org = project.org_id.as_ref().map(OrgId::as_str);
    let stays = sqlx::query_scalar!(
        "SELECT true FROM projects WHERE id = $1 AND org_id IS NOT DISTINCT FROM $2 FOR UPDATE",
        project.id.as_str(),
        org,
    );
    if stays.fetch_optional(&mut *conn).await?.is_none() {
        return Ok(None);
    }
    remove(conn, &project.id, &project.host(), now).await
}

/// What [`delete`] does, for those who need no permit: the reaper of expired shares.
pub(super) async fn remove(
    conn: &mut PgConnection,
    id: &ProjectId,
    host: &HostKey,
    now: Timestamp,
) -> Result<Option<Touched>, sqlx::Error> {
    // Locked first: an upload that goes live waits here, then finds nothing to go live in.
    let found = sqlx::query_scalar!("SELECT true FROM projects WHERE id = $1 FOR UPDATE", id.as_str())
        .fetch_optional(&mut *conn)
        .await?;
    if found.is_none() {
        return Ok(None);
    }
    pack_removals::queue_project(conn, id, now).await?;
    let mut hosts = domains::end(conn, id).await?;
    hosts.push(host.clone());
    sqlx::query!("DELETE FROM projects WHERE id = $1", id.as_str()).execute(&mut *conn).await?;
    Ok(Some(Touched::new(id).with_hosts(hosts)))
}
