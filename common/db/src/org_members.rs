//! Who belongs to an organization, and in which role. It always has an owner.

use domain::{OrgId, Timestamp, UserId, limits::ORG_MEMBERS, role::Role};
use sqlx::{PgConnection, PgExecutor};

use super::{
    invites,
    orgs::{AtLeast, Level, Locked, Owner, Permit},
};

/// A member as the others see them.
#[derive(Debug, Clone)]
pub struct MemberRow {
    /// Who.
    pub user: UserId,
    /// The code host's login.
    pub login: String,
    /// What they may do.
    pub role: Role,
    /// When they joined.
    pub joined_at: Timestamp,
}

/// The org's members: owners, admins, the others; each by how long they have been there.
pub async fn list(db: impl PgExecutor<'_>, org: &Permit<impl Level>) -> Result<Vec<MemberRow>, sqlx::Error> {
    sqlx::query_as!(
        MemberRow,
        r#"SELECT u.id AS "user: UserId", u.vcs_login AS login, m.role AS "role: Role",
                  m.joined_at AS "joined_at: Timestamp"
           FROM org_members m JOIN users u ON u.id = m.user_id WHERE m.org_id = $1
           ORDER BY array_position(ARRAY['owner', 'admin', 'member'], m.role), m.joined_at, u.id LIMIT $2"#,
        org.id.as_str(),
        ORG_MEMBERS,
    )
    .fetch_all(db)
    .await
}

/// The member with this login. Code hosts do not tell logins apart by case. A login that was given up may stand with
/// an account that has not signed in since: then it is the newer account's.
pub async fn find(
    db: impl PgExecutor<'_>,
    org: &Permit<impl Level>,
    login: &str,
) -> Result<Option<MemberRow>, sqlx::Error> {
    sqlx::query_as!(
        MemberRow,
        r#"SELECT u.id AS "user: UserId", u.vcs_login AS login, m.role AS "role: Role",
                  m.joined_at AS "joined_at: Timestamp"
           FROM org_members m JOIN users u ON u.id = m.user_id
           WHERE m.org_id = $1 AND lower(u.vcs_login) = lower($2) ORDER BY u.id DESC LIMIT 1"#,
        org.id.as_str(),
        login,
    )
    .fetch_optional(db)
    .await
}

/// Why a membership stays as it is.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The org would be without an owner.
    #[error("the organization would have no owner")]
    LastOwner,
    /// The database.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Changes a member's role.
pub async fn set_role(
    conn: &mut PgConnection,
    org: &Locked<impl AtLeast<Owner>>,
    member: &MemberRow,
    role: Role,
    now: Timestamp,
) -> Result<(), ChangeError> {
    if role != Role::Owner {
        keep_an_owner(&mut *conn, &org.id, member).await?;
    }
    write_role(&mut *conn, &org.id, &member.user, role).await?;
    if role < Role::Admin {
        invites::revoke_of_sender(conn, &org.id, &member.user, now).await?;
    }
    Ok(())
}

/// Ends a membership. Who may end whose is the caller's to judge: see `DELETE /orgs/:name/members/:login`.
pub async fn remove(
    conn: &mut PgConnection,
    org: &Locked<impl Level>,
    member: &MemberRow,
    now: Timestamp,
) -> Result<(), ChangeError> {
    keep_an_owner(&mut *conn, &org.id, member).await?;
    sqlx::query!("DELETE FROM org_members WHERE org_id = $1 AND user_id = $2", org.id.as_str(), member.user.as_str(),)
        .execute(&mut *conn)
        .await?;
    // They could come back by a link of their own.
    invites::revoke_of_sender(conn, &org.id, &member.user, now).await?;
    Ok(())
}

/// Refuses when `member` is the only owner. Under the org's lock, so that nobody else ceases to be one meanwhile.
async fn keep_an_owner(conn: &mut PgConnection, org: &OrgId, member: &MemberRow) -> Result<(), ChangeError> {
    let others = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM org_members WHERE org_id = $1 AND role = 'owner' AND user_id <> $2"#,
        org.as_str(),
        member.user.as_str(),
    )
    .fetch_one(conn)
    .await?;
    if member.role == Role::Owner && others == 0 { Err(ChangeError::LastOwner) } else { Ok(()) }
}

/// Adds a member. The caller holds the org's lock, or has just made the org.
pub(super) async fn insert(
    conn: &mut PgConnection,
    org: &OrgId,
    user: &UserId,
    role: Role,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO org_members (org_id, user_id, role, joined_at) VALUES ($1, $2, $3, $4)",
        org.as_str(),
        user.as_str(),
        role as Role,
        now as Timestamp,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Writes a member's role. The caller holds the org's lock, and has judged whether there remains an owner.
pub(super) async fn write_role(
    conn: &mut PgConnection,
    org: &OrgId,
    user: &UserId,
    role: Role,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE org_members SET role = $3 WHERE org_id = $1 AND user_id = $2",
        org.as_str(),
        user.as_str(),
        role as Role,
    )
    .execute(conn)
    .await
    .map(drop)
}
