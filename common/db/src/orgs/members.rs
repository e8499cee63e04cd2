//! The members of an organization and their roles. The last owner can be neither removed nor demoted.

use domain::{OrgId, Timestamp, UserId, limits::ORG_MEMBERS, plans::Plans, role::Role};
use sqlx::{PgConnection, PgExecutor};

use super::{
    invites, membership,
    payer::{self, PayerChange},
};
use crate::permits::{AtLeast, LockedOrg, OrgPermit, Owner, PermitLevel};

/// A member, as shown to other members.
#[derive(Debug, Clone)]
pub struct OrgMember {
    /// The person.
    pub user: UserId,
    /// The code host's login.
    pub login: String,
    /// The member's role.
    pub role: Role,
    /// The time of joining.
    pub joined_at: Timestamp,
}

/// Reads members `m` and their users `u`; the first argument continues the statement.
macro_rules! select_members {
    ($rest:literal, $($argument:expr),* $(,)?) => {
        sqlx::query_as!(
            OrgMember,
            "SELECT u.id AS user, u.vcs_login AS login, m.role, m.joined_at
             FROM org_members m JOIN users u ON u.id = m.user_id
             " + $rest,
            $($argument),*
        )
    };
}

/// Returns the org's members in order of joining.
pub async fn list(db: impl PgExecutor<'_>, org: &OrgPermit<impl PermitLevel>) -> Result<Vec<OrgMember>, sqlx::Error> {
    select_members!("WHERE m.org_id = $1 ORDER BY m.joined_at, u.id LIMIT $2", org.id.as_str(), ORG_MEMBERS,)
        .fetch_all(db)
        .await
}

/// Returns the member with this login, ignoring case. After one account gives up a login and another takes it, both may
/// have it until the first signs in again; the newer account is returned.
pub async fn find(
    db: impl PgExecutor<'_>,
    org: &OrgPermit<impl PermitLevel>,
    login: &str,
) -> Result<Option<OrgMember>, sqlx::Error> {
    select_members!(
        "WHERE m.org_id = $1 AND lower(u.vcs_login) = lower($2) ORDER BY u.id DESC LIMIT 1",
        org.id.as_str(),
        login,
    )
    .fetch_optional(db)
    .await
}

/// The reason a membership was not changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeMemberError {
    /// The org would have no owner.
    #[error("the organization would have no owner")]
    LastOwner,
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Changes a member's role. Returns what became of the org's payer.
pub async fn set_role(
    conn: &mut PgConnection,
    org: &LockedOrg<impl AtLeast<Owner>>,
    member: &OrgMember,
    role: Role,
    plans: &Plans,
    now: Timestamp,
) -> Result<PayerChange, ChangeMemberError> {
    if role != Role::Owner {
        ensure_other_owner(&mut *conn, &org.id, member).await?;
    }
    membership::write_role(&mut *conn, &org.id, &member.user, role).await?;
    if role < Role::Admin {
        invites::revoke_by_sender(&mut *conn, &org.id, &member.user, now).await?;
    }
    if role == Role::Owner {
        return Ok(PayerChange::None);
    }
    Ok(payer::replace_former_owner(conn, org, &member.user, plans, now).await?)
}

/// Ends a membership. The caller checks whether the actor may do so: see `DELETE /orgs/:name/members/:login`.
/// Returns what became of the org's payer.
pub async fn remove(
    conn: &mut PgConnection,
    org: &LockedOrg<impl PermitLevel>,
    member: &OrgMember,
    plans: &Plans,
    now: Timestamp,
) -> Result<PayerChange, ChangeMemberError> {
    ensure_other_owner(&mut *conn, &org.id, member).await?;
    sqlx::query!("DELETE FROM org_members WHERE org_id = $1 AND user_id = $2", org.id.as_str(), member.user.as_str(),)
        .execute(&mut *conn)
        .await?;
    // Otherwise they could come back by an invite of their own.
    invites::revoke_by_sender(&mut *conn, &org.id, &member.user, now).await?;
    Ok(payer::replace_former_owner(conn, org, &member.user, plans, now).await?)
}

/// Fails when `member` is the only owner. The caller holds the org's lock, so that the other owners stay owners.
async fn ensure_other_owner(conn: &mut PgConnection, org: &OrgId, member: &OrgMember) -> Result<(), ChangeMemberError> {
    let others = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM org_members WHERE org_id = $1 AND role = 'owner' AND user_id <> $2"#,
        org.as_str(),
        member.user.as_str(),
    )
    .fetch_one(conn)
    .await?;
    if member.role == Role::Owner && others == 0 { Err(ChangeMemberError::LastOwner) } else { Ok(()) }
}
