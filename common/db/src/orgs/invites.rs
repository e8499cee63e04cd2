//! Invites to organizations, found by the hash of their link's secret, which itself is not stored.

use domain::{
    Account, EmailAddress, InviteId, OrgId, OrgName, Timestamp, UserId,
    limits::{ENDED_INVITES, INVITE_LIFETIME, ORG_MEMBERS, PENDING_INVITES},
    orgs::DisplayName,
    plans::{LimitReached, Plans},
    role::{InviteRole, Role},
};
use sqlx::{PgConnection, PgExecutor};

use super::{membership, org::Org};
use crate::{
    billing::plan,
    permits::{self, Admin, AtLeast, LockedOrg, OrgPermit},
    quotas::{self, QuotaError},
    sign_in::users::User,
};

/// A pending invite, as shown to the org's admins.
#[derive(Debug, Clone)]
pub struct Invite {
    /// The id.
    pub id: InviteId,
    /// The address of the invitee.
    pub email: EmailAddress,
    /// The role that the invite gives.
    pub role: InviteRole,
    /// The login of the sender; `None` once that account is deleted.
    pub invited_by: Option<String>,
    /// The creation time.
    pub created_at: Timestamp,
    /// The expiry time.
    pub expires_at: Timestamp,
}

/// The reason an invite was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateInviteError {
    /// The org has reached the maximum number of pending invites.
    #[error("too many invites are pending")]
    TooMany,
    /// The org's plan has no free seat.
    #[error(transparent)]
    Quota(#[from] LimitReached),
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

impl From<QuotaError> for CreateInviteError {
    fn from(error: QuotaError) -> Self {
        match error {
            QuotaError::Reached(reached) => Self::Quota(reached),
            QuotaError::Db(error) => Self::Db(error),
        }
    }
}

/// Invites `email` in the name of `sender`, who holds the permit, if the org's plan has a free seat. Deletes the org's
/// oldest ended invites beyond [`ENDED_INVITES`].
#[expect(clippy::too_many_arguments, reason = "the row's columns, and the plans")]
pub async fn create(
    conn: &mut PgConnection,
    org: &LockedOrg<impl AtLeast<Admin>>,
    sender: &User,
    email: &EmailAddress,
    role: InviteRole,
    secret_hash: &[u8; 32],
    plans: &Plans,
    now: Timestamp,
) -> Result<Invite, CreateInviteError> {
    let pending = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM invites WHERE org_id = $1 AND ended_at IS NULL AND expires_at > $2"#,
        org.id.as_str(),
        now,
    )
    .fetch_one(&mut *conn)
    .await?;
    if pending >= PENDING_INVITES {
        return Err(CreateInviteError::TooMany);
    }
    sqlx::query!(
        "DELETE FROM invites WHERE id IN
             (SELECT id FROM invites WHERE org_id = $1 AND ended_at IS NOT NULL ORDER BY id DESC OFFSET $2)",
        org.id.as_str(),
        ENDED_INVITES,
    )
    .execute(&mut *conn)
    .await?;
    // The lock on the org is also its account's lock.
    let allowance = plan::allowance(&mut *conn, plans, &Account::Org(org.id.clone())).await?;
    quotas::seats(&mut *conn, &org.id, &allowance, now).await?;
    let invite = Invite {
        id: InviteId::new(now),
        email: email.clone(),
        role,
        invited_by: Some(sender.vcs_login.clone()),
        created_at: now,
        expires_at: now + INVITE_LIFETIME,
    };
    sqlx::query!(
        "INSERT INTO invites (id, org_id, email, role, secret_hash, invited_by, created_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        invite.id.as_str(),
        org.id.as_str(),
        email.as_str(),
        role as InviteRole,
        secret_hash,
        sender.id.as_str(),
        now,
        invite.expires_at,
    )
    .execute(conn)
    .await?;
    Ok(invite)
}

/// Returns the org's pending invites, newest first: at most `rows`, older than `before`.
pub async fn page(
    db: impl PgExecutor<'_>,
    org: &OrgPermit<impl AtLeast<Admin>>,
    before: Option<&InviteId>,
    rows: i64,
    now: Timestamp,
) -> Result<Vec<Invite>, sqlx::Error> {
    sqlx::query_as!(
        Invite,
        r#"SELECT i.id, i.email, i.role,
                  u.vcs_login AS "invited_by?", i.created_at,
                  i.expires_at
           FROM invites i LEFT JOIN users u ON u.id = i.invited_by
           WHERE i.org_id = $1 AND i.ended_at IS NULL AND i.expires_at > $4 AND ($2::text IS NULL OR i.id < $2)
           ORDER BY i.id DESC LIMIT $3"#,
        org.id.as_str(),
        before.map(InviteId::as_str),
        rows,
        now,
    )
    .fetch_all(db)
    .await
}

/// Revokes a pending invite, and returns its address; `None` when the org has no such pending invite.
pub async fn revoke(
    conn: &mut PgConnection,
    org: &LockedOrg<impl AtLeast<Admin>>,
    id: &InviteId,
    now: Timestamp,
) -> Result<Option<EmailAddress>, sqlx::Error> {
    sqlx::query_scalar!(
        "UPDATE invites SET ended_at = $3
           WHERE id = $1 AND org_id = $2 AND ended_at IS NULL AND expires_at > $3
           RETURNING email",
        id.as_str(),
        org.id.as_str(),
        now,
    )
    .fetch_optional(conn)
    .await
}

pub(crate) async fn revoke_by_sender(
    conn: &mut PgConnection,
    org: &OrgId,
    sender: &UserId,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE invites SET ended_at = $3 WHERE org_id = $1 AND invited_by = $2 AND ended_at IS NULL",
        org.as_str(),
        sender.as_str(),
        now,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// An invite, as shown to the holder of its link.
#[derive(Debug, Clone)]
pub struct InviteSummary {
    /// The name of the org.
    pub org: OrgName,
    /// The display name of the org.
    pub display_name: Option<DisplayName>,
    /// The role that the invite gives.
    pub role: InviteRole,
    /// The login of the sender.
    pub invited_by: Option<String>,
    /// The expiry time.
    pub expires_at: Timestamp,
}

/// Returns the pending invite with this secret. A suspended sender's invites are hidden, so that nobody acts through
/// them.
pub async fn preview(
    db: impl PgExecutor<'_>,
    secret_hash: &[u8; 32],
    now: Timestamp,
) -> Result<Option<InviteSummary>, sqlx::Error> {
    sqlx::query_as!(
        InviteSummary,
        r#"SELECT o.name AS org, o.display_name,
                  i.role, u.vcs_login AS "invited_by?", i.expires_at
           FROM invites i JOIN orgs o ON o.id = i.org_id LEFT JOIN users u ON u.id = i.invited_by
           WHERE i.secret_hash = $1 AND i.ended_at IS NULL AND i.expires_at > $2
                 AND NOT EXISTS (SELECT FROM account_suspensions s WHERE s.account = i.invited_by)"#,
        secret_hash,
        now,
    )
    .fetch_optional(db)
    .await
}

/// The result of accepting an invite.
#[derive(Debug)]
pub struct AcceptedInvite {
    /// The org.
    pub org: Org,
    /// The new member's role.
    pub role: Role,
    /// The invite; `None` if the person already has that role or a higher one, and the invite stays valid.
    pub invite: Option<InviteId>,
}

/// The reason an invite was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum AcceptInviteError {
    /// The invite is unknown, accepted, revoked or expired, or its sender is suspended.
    #[error("no such invite")]
    NotFound,
    /// The org has reached the maximum number of members.
    #[error("the organization is full")]
    Full,
    /// The org's plan has no free seat, after a downgrade.
    #[error(transparent)]
    Quota(#[from] LimitReached),
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

impl From<QuotaError> for AcceptInviteError {
    fn from(error: QuotaError) -> Self {
        match error {
            QuotaError::Reached(reached) => Self::Quota(reached),
            QuotaError::Db(error) => Self::Db(error),
        }
    }
}

/// Accepts the pending invite with this secret: `user` joins, or is promoted to the invited role.
pub async fn accept(
    conn: &mut PgConnection,
    secret_hash: &[u8; 32],
    user: &UserId,
    plans: &Plans,
    now: Timestamp,
) -> Result<AcceptedInvite, AcceptInviteError> {
    let found = sqlx::query_scalar!(
        "SELECT org_id FROM invites
           WHERE secret_hash = $1 AND ended_at IS NULL AND expires_at > $2",
        secret_hash,
        now,
    );
    let org_id = found.fetch_optional(&mut *conn).await?.ok_or(AcceptInviteError::NotFound)?;
    // Lock the org before the invite, as everywhere.
    permits::lock_row(&mut *conn, &org_id).await?.ok_or(AcceptInviteError::NotFound)?;
    let row = sqlx::query!(
        r#"SELECT o.name, o.display_name, p.version AS "icon?",
                  o.created_at, i.id AS invite, i.role AS invited,
                  m.role AS "role?", (SELECT count(*) FROM org_members n WHERE n.org_id = o.id) AS "members!"
           FROM invites i JOIN orgs o ON o.id = i.org_id LEFT JOIN org_icons p ON p.org_id = o.id
                LEFT JOIN org_members m ON m.org_id = o.id AND m.user_id = $3
           WHERE i.secret_hash = $1 AND i.ended_at IS NULL AND i.expires_at > $2
                 AND NOT EXISTS (SELECT FROM account_suspensions s WHERE s.account = i.invited_by)"#,
        secret_hash,
        now,
        user.as_str(),
    )
    .fetch_optional(&mut *conn)
    .await?
    .ok_or(AcceptInviteError::NotFound)?;
    let org =
        Org { id: org_id, name: row.name, display_name: row.display_name, icon: row.icon, created_at: row.created_at };
    let invited = Role::from(row.invited);
    match row.role {
        Some(role) if role >= invited => return Ok(AcceptedInvite { org, role, invite: None }),
        Some(_) => membership::write_role(&mut *conn, &org.id, user, invited).await?,
        None if row.members >= ORG_MEMBERS => return Err(AcceptInviteError::Full),
        None => {
            let allowance = plan::allowance(&mut *conn, plans, &Account::Org(org.id.clone())).await?;
            quotas::members(&mut *conn, &org.id, &allowance).await?;
            membership::insert(&mut *conn, &org.id, user, invited, now).await?;
        }
    }
    sqlx::query!(
        "UPDATE invites SET ended_at = $2, accepted_by = $3 WHERE id = $1",
        row.invite.as_str(),
        now,
        user.as_str(),
    )
    .execute(conn)
    .await?;
    Ok(AcceptedInvite { org, role: invited, invite: Some(row.invite) })
}

/// Deletes at most `limit` invites that expired before `before`, and returns their number.
pub async fn delete_expired(db: impl PgExecutor<'_>, before: Timestamp, limit: i64) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query!(
        "DELETE FROM invites WHERE id IN (SELECT id FROM invites WHERE expires_at < $1 LIMIT $2)",
        before,
        limit,
    )
    .execute(db)
    .await?;
    Ok(deleted.rows_affected())
}
