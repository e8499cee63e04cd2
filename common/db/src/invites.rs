//! Invites to organizations: found by the hash of their link's secret, which is all that is kept of it.

use domain::{
    EmailAddress, InviteId, OrgId, OrgName, Timestamp, UserId,
    limits::{INVITE_LIFETIME, ORG_MEMBERS, PENDING_INVITES},
    orgs::DisplayName,
    role::{InviteRole, Role},
};
use sqlx::{PgConnection, PgExecutor};

use super::{
    org_members,
    orgs::{self, Admin, AtLeast, Locked, Org, Permit},
    users::User,
};

/// A pending invite as the org's admins see it.
#[derive(Debug, Clone)]
pub struct Invite {
    /// Its id.
    pub id: InviteId,
    /// Who is invited.
    pub email: EmailAddress,
    /// As what.
    pub role: InviteRole,
    /// The login of who invites; none once that account is gone.
    pub invited_by: Option<String>,
    /// When.
    pub created_at: Timestamp,
    /// Until when.
    pub expires_at: Timestamp,
}

/// Why there is no invite.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// As many wait for an answer as may.
    #[error("too many invites are pending")]
    TooMany,
    /// The database.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Invites `email` in the name of `sender`, who holds the permit.
pub async fn create(
    conn: &mut PgConnection,
    org: &Locked<impl AtLeast<Admin>>,
    sender: &User,
    email: &EmailAddress,
    role: InviteRole,
    secret_hash: &[u8; 32],
    now: Timestamp,
) -> Result<Invite, CreateError> {
    let pending = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM invites WHERE org_id = $1 AND ended_at IS NULL AND expires_at > $2"#,
        org.id.as_str(),
        now as Timestamp,
    )
    .fetch_one(&mut *conn)
    .await?;
    if pending >= PENDING_INVITES {
        return Err(CreateError::TooMany);
    }
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
        now as Timestamp,
        invite.expires_at as Timestamp,
    )
    .execute(conn)
    .await?;
    Ok(invite)
}

/// The org's pending invites, newest first: at most `rows`, older than `before`.
pub async fn page(
    db: impl PgExecutor<'_>,
    org: &Permit<impl AtLeast<Admin>>,
    before: Option<&InviteId>,
    rows: i64,
    now: Timestamp,
) -> Result<Vec<Invite>, sqlx::Error> {
    sqlx::query_as!(
        Invite,
        r#"SELECT i.id AS "id: InviteId", i.email AS "email: EmailAddress", i.role AS "role: InviteRole",
                  u.vcs_login AS "invited_by?", i.created_at AS "created_at: Timestamp",
                  i.expires_at AS "expires_at: Timestamp"
           FROM invites i LEFT JOIN users u ON u.id = i.invited_by
           WHERE i.org_id = $1 AND i.ended_at IS NULL AND i.expires_at > $4 AND ($2::text IS NULL OR i.id < $2)
           ORDER BY i.id DESC LIMIT $3"#,
        org.id.as_str(),
        before.map(InviteId::as_str),
        rows,
        now as Timestamp,
    )
    .fetch_all(db)
    .await
}

/// Revokes a pending invite: whom it was for. None when the org has no such invite, or it is over.
pub async fn revoke(
    conn: &mut PgConnection,
    org: &Locked<impl AtLeast<Admin>>,
    id: &InviteId,
    now: Timestamp,
) -> Result<Option<EmailAddress>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"UPDATE invites SET ended_at = $3
           WHERE id = $1 AND org_id = $2 AND ended_at IS NULL AND expires_at > $3
           RETURNING email AS "email: EmailAddress""#,
        id.as_str(),
        org.id.as_str(),
        now as Timestamp,
    )
    .fetch_optional(conn)
    .await
}

/// Revokes what a member has sent who may invite no longer.
pub(super) async fn revoke_of_sender(
    conn: &mut PgConnection,
    org: &OrgId,
    sender: &UserId,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE invites SET ended_at = $3 WHERE org_id = $1 AND invited_by = $2 AND ended_at IS NULL",
        org.as_str(),
        sender.as_str(),
        now as Timestamp,
    )
    .execute(conn)
    .await
    .map(drop)
}

/// What the holder of an invite's link may know.
#[derive(Debug, Clone)]
pub struct Preview {
    /// Which org.
    pub org: OrgName,
    /// What it is called in sentences.
    pub display_name: Option<DisplayName>,
    /// As what.
    pub role: InviteRole,
    /// Who invites.
    pub invited_by: Option<String>,
    /// Until when.
    pub expires_at: Timestamp,
}

/// The pending invite with this secret.
pub async fn preview(
    db: impl PgExecutor<'_>,
    secret_hash: &[u8; 32],
    now: Timestamp,
) -> Result<Option<Preview>, sqlx::Error> {
    sqlx::query_as!(
        Preview,
        r#"SELECT o.name AS "org: OrgName", o.display_name AS "display_name: DisplayName",
                  i.role AS "role: InviteRole", u.vcs_login AS "invited_by?", i.expires_at AS "expires_at: Timestamp"
           FROM invites i JOIN orgs o ON o.id = i.org_id LEFT JOIN users u ON u.id = i.invited_by
           WHERE i.secret_hash = $1 AND i.ended_at IS NULL AND i.expires_at > $2"#,
        secret_hash,
        now as Timestamp,
    )
    .fetch_optional(db)
    .await
}

/// What became of an invite that somebody accepted.
#[derive(Debug)]
pub struct Joined {
    /// The org.
    pub org: Org,
    /// The acceptor's role there now.
    pub role: Role,
    /// The invite; none when nothing changed, because the acceptor has that role, or a higher one, already. The invite
    /// is still good then.
    pub invite: Option<InviteId>,
}

/// Why an invite was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// Unknown, accepted, revoked or expired.
    #[error("no such invite")]
    NotFound,
    /// The org has as many members as it may.
    #[error("the organization is full")]
    Full,
    /// The database.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Accepts the pending invite with this secret: `user` joins, or rises to the invited role.
pub async fn accept(
    conn: &mut PgConnection,
    secret_hash: &[u8; 32],
    user: &UserId,
    now: Timestamp,
) -> Result<Joined, AcceptError> {
    let found = sqlx::query_scalar!(
        r#"SELECT org_id AS "org_id: OrgId" FROM invites
           WHERE secret_hash = $1 AND ended_at IS NULL AND expires_at > $2"#,
        secret_hash,
        now as Timestamp,
    );
    let org_id = found.fetch_optional(&mut *conn).await?.ok_or(AcceptError::NotFound)?;
    // The org's lock comes before the invite's, here as everywhere.
    orgs::lock_row(&mut *conn, &org_id).await?.ok_or(AcceptError::NotFound)?;
    let row = sqlx::query!(
        r#"SELECT o.name AS "name: OrgName", o.display_name AS "display_name: DisplayName", p.version AS "icon?",
                  o.created_at AS "created_at: Timestamp", i.id AS "invite: InviteId", i.role AS "invited: InviteRole",
                  m.role AS "role?: Role", (SELECT count(*) FROM org_members n WHERE n.org_id = o.id) AS "members!"
           FROM invites i JOIN orgs o ON o.id = i.org_id LEFT JOIN org_icons p ON p.org_id = o.id
                LEFT JOIN org_members m ON m.org_id = o.id AND m.user_id = $3
           WHERE i.secret_hash = $1 AND i.ended_at IS NULL AND i.expires_at > $2"#,
        secret_hash,
        now as Timestamp,
        user.as_str(),
    )
    .fetch_optional(&mut *conn)
    .await?
    .ok_or(AcceptError::NotFound)?;
    let org =
        Org { id: org_id, name: row.name, display_name: row.display_name, icon: row.icon, created_at: row.created_at };
    let invited = Role::from(row.invited);
    match row.role {
        Some(role) if role >= invited => return Ok(Joined { org, role, invite: None }),
        Some(_) => org_members::write_role(&mut *conn, &org.id, user, invited).await?,
        None if row.members >= ORG_MEMBERS => return Err(AcceptError::Full),
        None => org_members::insert(&mut *conn, &org.id, user, invited, now).await?,
    }
    sqlx::query!(
        "UPDATE invites SET ended_at = $2, accepted_by = $3 WHERE id = $1",
        row.invite.as_str(),
        now as Timestamp,
        user.as_str(),
    )
    .execute(conn)
    .await?;
    Ok(Joined { org, role: invited, invite: Some(row.invite) })
}

/// Forgets at most `limit` invites that expired before `before`; says how many.
pub async fn delete_expired(db: impl PgExecutor<'_>, before: Timestamp, limit: i64) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query!(
        "DELETE FROM invites WHERE id IN (SELECT id FROM invites WHERE expires_at < $1 LIMIT $2)",
        before as Timestamp,
        limit,
    )
    .execute(db)
    .await?;
    Ok(deleted.rows_affected())
}
