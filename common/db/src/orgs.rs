//! Organizations, and the proof that somebody may act on one.

use std::{marker::PhantomData, ops::Deref};

use domain::{OrgId, OrgName, Timestamp, UserId, orgs::DisplayName, role::Role};
use sqlx::{PgConnection, PgExecutor};

use super::users::User;

/// An organization's row.
#[derive(Debug, Clone)]
pub struct Org {
    /// Its id.
    pub id: OrgId,
    /// What it is called in addresses.
    pub name: OrgName,
    /// What it is called in sentences.
    pub display_name: Option<DisplayName>,
    /// The version of its own icon.
    pub icon: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Works in the org: any member.
#[derive(Debug)]
pub enum Member {}
/// Manages members, invites and tokens: admins and owners.
#[derive(Debug)]
pub enum Admin {}
/// Changes roles, and deletes the org: owners.
#[derive(Debug)]
pub enum Owner {}

/// A level of permission in an org.
pub trait Level: Send + Sync + 'static {
    /// The role it takes.
    const ROLE: Role;
}

impl Level for Member {
    const ROLE: Role = Role::Member;
}
impl Level for Admin {
    const ROLE: Role = Role::Admin;
}
impl Level for Owner {
    const ROLE: Role = Role::Owner;
}

/// `A: AtLeast<B>`: who was permitted `A` was permitted `B`.
pub trait AtLeast<L>: Level {}
impl<L: Level> AtLeast<L> for L {}
impl AtLeast<Member> for Admin {}
impl AtLeast<Member> for Owner {}
impl AtLeast<Admin> for Owner {}

/// Proof that a user may act on this org at level `L`, with its row. Only [`permit`] and [`lock`] make one.
#[derive(Debug)]
pub struct Permit<L> {
    org: Org,
    user: UserId,
    role: Role,
    level: PhantomData<L>,
}

impl<L> Permit<L> {
    /// Who acts.
    pub fn user(&self) -> &UserId {
        &self.user
    }

    /// The actor's role: the level's, or more.
    pub fn role(&self) -> Role {
        self.role
    }
}

impl<L> Deref for Permit<L> {
    type Target = Org;
    fn deref(&self) -> &Org {
        &self.org
    }
}

/// A permit that was checked again under the org's lock: until the transaction ends, nobody else changes the org, its
/// members, invites or tokens, and the actor's role is what it was. Only [`lock`] makes one.
#[derive(Debug)]
pub struct Locked<L>(Permit<L>);

impl<L> Deref for Locked<L> {
    type Target = Permit<L>;
    fn deref(&self) -> &Permit<L> {
        &self.0
    }
}

/// Why there is no permit.
#[derive(Debug, thiserror::Error)]
pub enum PermitError {
    /// No such org, or none that the user belongs to.
    #[error("no such organization")]
    NotFound,
    /// A member whose role does not suffice: it takes this one.
    #[error("the role in the organization does not suffice")]
    Role(Role),
    /// The database.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Permits `user` to act on the org called `name`.
pub async fn permit<L: Level>(
    db: impl PgExecutor<'_>,
    user: &UserId,
    name: &OrgName,
) -> Result<Permit<L>, PermitError> {
    let row = sqlx::query!(
        r#"SELECT o.id AS "id: OrgId", o.name AS "name: OrgName", o.display_name AS "display_name: DisplayName",
                  i.version AS "icon?", o.created_at AS "created_at: Timestamp", m.role AS "role: Role"
           FROM orgs o JOIN org_members m ON m.org_id = o.id LEFT JOIN org_icons i ON i.org_id = o.id
           WHERE o.name = $2 AND m.user_id = $1"#,
        user.as_str(),
        name.as_str(),
    )
    .fetch_optional(db)
    .await?
    .ok_or(PermitError::NotFound)?;
    let org =
        Org { id: row.id, name: row.name, display_name: row.display_name, icon: row.icon, created_at: row.created_at };
    grant(org, user.clone(), row.role)
}

fn grant<L: Level>(org: Org, user: UserId, role: Role) -> Result<Permit<L>, PermitError> {
    if role < L::ROLE {
        return Err(PermitError::Role(L::ROLE));
    }
    Ok(Permit { org, user, role, level: PhantomData })
}

/// Locks the org until the end of the transaction, and looks again whether the actor may still act: two owners who
/// demote each other at once come one after the other, and the second is an owner no more.
pub async fn lock<L: Level>(conn: &mut PgConnection, permit: Permit<L>) -> Result<Locked<L>, PermitError> {
    lock_row(conn, &permit.id).await?.ok_or(PermitError::NotFound)?;
    // A statement of its own: it sees what was committed while the lock was waited for.
    let role = sqlx::query_scalar!(
        r#"SELECT role AS "role: Role" FROM org_members WHERE org_id = $1 AND user_id = $2"#,
        permit.id.as_str(),
        permit.user.as_str(),
    )
    .fetch_optional(conn)
    .await?
    .ok_or(PermitError::NotFound)?;
    let Permit { org, user, .. } = permit;
    grant(org, user, role).map(Locked)
}

/// Locks the org's row against every other change of the org, but not against new rows that refer to it.
pub(super) async fn lock_row(conn: &mut PgConnection, org: &OrgId) -> Result<Option<()>, sqlx::Error> {
    let found = sqlx::query_scalar!("SELECT id FROM orgs WHERE id = $1 FOR NO KEY UPDATE", org.as_str());
    Ok(found.fetch_optional(conn).await?.map(drop))
}

/// The user's orgs with their role in each, newest first: at most `rows`, older than `before`.
pub async fn page(
    db: impl PgExecutor<'_>,
    user: &UserId,
    before: Option<&OrgId>,
    rows: i64,
) -> Result<Vec<(Org, Role)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"SELECT o.id AS "id: OrgId", o.name AS "name: OrgName", o.display_name AS "display_name: DisplayName",
                  i.version AS "icon?", o.created_at AS "created_at: Timestamp", m.role AS "role: Role"
           FROM org_members m JOIN orgs o ON o.id = m.org_id LEFT JOIN org_icons i ON i.org_id = o.id
           WHERE m.user_id = $1 AND ($2::text IS NULL OR o.id < $2) ORDER BY o.id DESC LIMIT $3"#,
        user.as_str(),
        before.map(OrgId::as_str),
        rows,
    )
    .fetch_all(db)
    .await?;
    let split = rows.into_iter().map(|row| {
        let org = Org {
            id: row.id,
            name: row.name,
            display_name: row.display_name,
            icon: row.icon,
            created_at: row.created_at,
        };
        (org, row.role)
    });
    Ok(split.collect())
}

/// The org called `name`, for what everybody may know of it.
pub async fn find_id(db: impl PgExecutor<'_>, name: &OrgName) -> Result<Option<OrgId>, sqlx::Error> {
    sqlx::query_scalar!(r#"SELECT id AS "id: OrgId" FROM orgs WHERE name = $1"#, name.as_str()).fetch_optional(db).await
}

/// How many projects the org has.
pub async fn count_projects(db: impl PgExecutor<'_>, org: &Permit<impl Level>) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(r#"SELECT count(*) AS "count!" FROM projects WHERE org_id = $1"#, org.id.as_str())
        .fetch_one(db)
        .await
}

/// Why an org was not made.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// Somebody has the name.
    #[error("the name is taken")]
    NameTaken,
    /// The creator's plan allows no more.
    #[error("the creator has as many organizations as the plan allows")]
    PlanLimit,
    /// The database.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Makes an org, with `creator` as its owner. They may have created `most` that still exist, this one included.
pub async fn create(
    conn: &mut PgConnection,
    creator: &User,
    name: &OrgName,
    display_name: Option<&DisplayName>,
    most: u32,
    now: Timestamp,
) -> Result<Org, CreateError> {
    // Locked before counting: creations at once could all pass the limit.
    sqlx::query!("SELECT id FROM users WHERE id = $1 FOR NO KEY UPDATE", creator.id.as_str())
        .fetch_one(&mut *conn)
        .await?;
    let created =
        sqlx::query_scalar!(r#"SELECT count(*) AS "count!" FROM orgs WHERE created_by = $1"#, creator.id.as_str())
            .fetch_one(&mut *conn)
            .await?;
    if created >= i64::from(most) {
        return Err(CreateError::PlanLimit);
    }
    let org = Org {
        id: OrgId::new(now),
        name: name.clone(),
        display_name: display_name.cloned(),
        icon: None,
        created_at: now,
    };
    let inserted = sqlx::query!(
        "INSERT INTO orgs (id, name, display_name, created_at, created_by) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (name) DO NOTHING",
        org.id.as_str(),
        org.name.as_str(),
        org.display_name.as_ref().map(DisplayName::as_str),
        now as Timestamp,
        creator.id.as_str(),
    )
    .execute(&mut *conn)
    .await?;
    if inserted.rows_affected() == 0 {
        return Err(CreateError::NameTaken);
    }
    super::org_members::insert(conn, &org.id, &creator.id, Role::Owner, now).await?;
    Ok(org)
}

/// Changes what the org is called in sentences.
pub async fn rename(
    conn: &mut PgConnection,
    org: &Locked<impl AtLeast<Admin>>,
    display_name: Option<&DisplayName>,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE orgs SET display_name = $2 WHERE id = $1",
        org.id.as_str(),
        display_name.map(DisplayName::as_str),
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Why an org was not deleted.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// It has projects.
    #[error("the organization has projects")]
    NotEmpty,
    /// The database.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

impl DeleteError {
    /// A project that was made after the count stands in the way just as well.
    fn of(error: sqlx::Error) -> Self {
        let by_project = error.as_database_error().is_some_and(|e| e.table() == Some("projects"));
        if by_project { Self::NotEmpty } else { error.into() }
    }
}

/// Deletes the org with its members, invites, tokens and icon.
pub async fn delete(conn: &mut PgConnection, org: &Locked<impl AtLeast<Owner>>) -> Result<(), DeleteError> {
    if count_projects(&mut *conn, org).await? > 0 {
        return Err(DeleteError::NotEmpty);
    }
    sqlx::query!("DELETE FROM orgs WHERE id = $1", org.id.as_str())
        .execute(conn)
        .await
        .map(drop)
        .map_err(DeleteError::of)
}

/// A user's place in an organization. Only [`membership`] makes one: holding it is belonging.
#[derive(Debug, Clone)]
pub struct Membership {
    org: OrgId,
    name: OrgName,
    role: Role,
}

impl Membership {
    /// The organization.
    pub fn org(&self) -> &OrgId {
        &self.org
    }

    /// Its name.
    pub fn name(&self) -> &OrgName {
        &self.name
    }

    /// What the user may do there.
    pub fn role(&self) -> Role {
        self.role
    }
}

/// The user's membership of the organization called `name`; none for outsiders and unknown names alike.
pub async fn membership(
    db: impl PgExecutor<'_>,
    user: &UserId,
    name: &OrgName,
) -> Result<Option<Membership>, sqlx::Error> {
    sqlx::query_as!(
        Membership,
        r#"SELECT o.id AS "org: OrgId", o.name AS "name: OrgName", m.role AS "role: Role"
           FROM orgs o JOIN org_members m ON m.org_id = o.id WHERE o.name = $2 AND m.user_id = $1"#,
        user.as_str(),
        name.as_str(),
    )
    .fetch_optional(db)
    .await
}
