//! The proof that somebody may act on a project: only the queries here make one.

use std::{marker::PhantomData, ops::Deref};

use domain::{
    DeploymentId, OrgId, OrgName, ProjectId, ProjectName, ShareName, Timestamp, UserId, access::AccessMode, role::Role,
};
use sqlx::PgExecutor;

use super::Project;

/// A user or an org: who acts, and who owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Party {
    /// A signed-in user, who owns personal projects.
    User(UserId),
    /// An org, which acts by its deploy tokens.
    Org(OrgId),
}

impl Party {
    pub(crate) fn columns(&self) -> (Option<&str>, Option<&str>) {
        match self {
            Self::User(user) => (Some(user.as_str()), None),
            Self::Org(org) => (None, Some(org.as_str())),
        }
    }
}

/// Look and publish: what a deploy token may do as well.
#[derive(Debug)]
pub enum Deploy {}
/// Work on the project: any member of the org, the owner of a personal project.
#[derive(Debug)]
pub enum Edit {}
/// Delete the project: an org's admins, the owner of a personal project.
#[derive(Debug)]
pub enum Administer {}

/// A level of permission.
pub trait Level: Send + Sync + 'static {
    /// The role it takes in the owning org.
    const ROLE: Role;
    /// Whether an org's deploy token has it.
    const DEPLOY_TOKENS: bool = false;
}

impl Level for Deploy {
    const ROLE: Role = Role::Member;
    const DEPLOY_TOKENS: bool = true;
}
impl Level for Edit {
    const ROLE: Role = Role::Member;
}
impl Level for Administer {
    const ROLE: Role = Role::Admin;
}

/// `A: AtLeast<B>`: who was permitted `A` was permitted `B`.
pub trait AtLeast<L> {}
impl<L: Level> AtLeast<L> for L {}
impl AtLeast<Deploy> for Edit {}
impl AtLeast<Deploy> for Administer {}
impl AtLeast<Edit> for Administer {}

/// Proof that the actor may act on this project at level `L`, with its row. Only [`permit`] makes one.
#[derive(Debug)]
pub struct Permit<L> {
    project: Project,
    level: PhantomData<L>,
}

impl<L> Deref for Permit<L> {
    type Target = Project;
    fn deref(&self) -> &Project {
        &self.project
    }
}

/// Why there is no permit.
#[derive(Debug, thiserror::Error)]
pub enum PermitError {
    /// No such project, or none that the actor may know of.
    #[error("no such project")]
    NotFound,
    /// A member of the org whose role does not suffice.
    #[error("the role in the organization does not suffice")]
    Role,
    /// The database.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Permits `actor` to act on the project called `name`. What has expired is gone.
pub async fn permit<L: Level>(
    db: impl PgExecutor<'_>,
    actor: &Party,
    name: &ProjectName,
    now: Timestamp,
) -> Result<Permit<L>, PermitError> {
    let (user, org) = actor.columns();
    let row = sqlx::query!(
        r#"SELECT p.id AS "id: ProjectId", p.name AS "name: ProjectName", p.org_id AS "org_id: OrgId",
                  o.name AS "org?: OrgName", p.active_deployment_id AS "active_deployment_id: DeploymentId",
                  p.access_mode AS "access_mode: AccessMode", p.share_name AS "share_name: ShareName",
                  p.expires_at AS "expires_at: Timestamp", p.created_at AS "created_at: Timestamp",
                  m.role AS "role?: Role"
           FROM projects p
           LEFT JOIN orgs o ON o.id = p.org_id
           LEFT JOIN org_members m ON m.org_id = p.org_id AND m.user_id = $2
           WHERE p.name = $1 AND (p.expires_at IS NULL OR p.expires_at > $4)
             AND (p.user_id = $2 OR m.user_id IS NOT NULL OR p.org_id = $3)"#,
        name.as_str(),
        user,
        org,
        now as Timestamp,
    )
    .fetch_optional(db)
    .await?
    .ok_or(PermitError::NotFound)?;
    let allowed = match actor {
        Party::User(_) => row.role.is_none_or(|role| role >= L::ROLE),
        Party::Org(_) => L::DEPLOY_TOKENS,
    };
    if !allowed {
        return Err(PermitError::Role);
    }
    let project = Project {
        id: row.id,
        name: row.name,
        org_id: row.org_id,
        org: row.org,
        active_deployment_id: row.active_deployment_id,
        access_mode: row.access_mode,
        share_name: row.share_name,
        expires_at: row.expires_at,
        created_at: row.created_at,
    };
    Ok(Permit { project, level: PhantomData })
}

/// Permits a push to deploy to the project that its repository is linked to. The caller has seen that the link is alive.
pub(crate) async fn permit_linked(
    db: impl PgExecutor<'_>,
    id: &ProjectId,
) -> Result<Option<Permit<Deploy>>, sqlx::Error> {
    let project = sqlx::query_as!(
        Project,
        r#"SELECT p.id AS "id: ProjectId", p.name AS "name: ProjectName", p.org_id AS "org_id: OrgId",
                  o.name AS "org?: OrgName", p.active_deployment_id AS "active_deployment_id: DeploymentId",
                  p.access_mode AS "access_mode: AccessMode", p.share_name AS "share_name: ShareName",
                  p.expires_at AS "expires_at: Timestamp", p.created_at AS "created_at: Timestamp"
           FROM projects p LEFT JOIN orgs o ON o.id = p.org_id WHERE p.id = $1"#,
        id.as_str(),
    )
    .fetch_optional(db)
    .await?;
    Ok(project.map(|project| Permit { project, level: PhantomData }))
}
