//! Tickets into gated sites: issued to members by the console, redeemed once by an edge.

use domain::{OrgId, ProjectId, Timestamp, UserId, site::Site};
use sqlx::PgExecutor;

/// A ticket to issue.
#[derive(Debug, Clone, Copy)]
pub struct NewSiteTicket<'a> {
    /// SHA-256 of the ticket.
    pub secret_hash: &'a [u8; 32],
    /// SHA-256 of the secret in the visitor's cookie at the site.
    pub visitor_hash: &'a [u8; 32],
    /// The requested host.
    pub host: &'a str,
    /// The admitted person.
    pub user: &'a UserId,
    /// The expiry time.
    pub expires_at: Timestamp,
}

/// Issues a ticket into `site`, gated by `org`. Returns false if the user is not a member, or the gate has changed.
pub async fn issue(
    db: impl PgExecutor<'_>,
    ticket: NewSiteTicket<'_>,
    site: &Site,
    org: &OrgId,
) -> Result<bool, sqlx::Error> {
    let issued = sqlx::query!(
        "INSERT INTO gate_tickets (secret_hash, visitor_hash, host, project_id, access_version, user_id, expires_at)
         SELECT $1, $2, $3, p.id, p.access_version, m.user_id, $8
         FROM projects p JOIN org_members m ON m.org_id = p.org_id
         WHERE p.id = $4 AND p.access_mode = 'org' AND p.access_version = $5 AND p.org_id = $6 AND m.user_id = $7",
        ticket.secret_hash,
        ticket.visitor_hash,
        ticket.host,
        site.project.as_str(),
        site.access_version,
        org.as_str(),
        ticket.user.as_str(),
        ticket.expires_at,
    )
    .execute(db)
    .await?;
    Ok(issued.rows_affected() == 1)
}

/// A redeemed ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteTicket {
    /// SHA-256 of the secret in the cookie of the visitor that it was issued to.
    pub visitor_hash: Vec<u8>,
    /// The host that it is for.
    pub host: String,
    /// The project that it is for.
    pub project: ProjectId,
    /// The access version of the project when it was issued.
    pub access_version: i64,
    /// The admitted person.
    pub user: UserId,
    /// The number of times that the person has signed out everywhere.
    pub gate_version: i64,
    /// The expiry time.
    pub expires_at: Timestamp,
}

/// Removes and returns a ticket, which nobody can redeem again.
pub async fn take(db: impl PgExecutor<'_>, secret_hash: &[u8; 32]) -> Result<Option<SiteTicket>, sqlx::Error> {
    sqlx::query_as!(
        SiteTicket,
        r#"SELECT visitor_hash AS "visitor_hash!", host AS "host!", project_id AS "project!: ProjectId",
                  access_version AS "access_version!", user_id AS "user!: UserId", gate_version AS "gate_version!",
                  expires_at AS "expires_at!: Timestamp"
           FROM take_gate_ticket($1)"#,
        secret_hash,
    )
    .fetch_optional(db)
    .await
}

/// Deletes at most `limit` expired tickets, and returns their number.
pub async fn delete_expired(db: impl PgExecutor<'_>, now: Timestamp, limit: i64) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query!(
        "DELETE FROM gate_tickets WHERE secret_hash IN
             (SELECT secret_hash FROM gate_tickets WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)",
        now,
        limit,
    )
    .execute(db)
    .await?;
    Ok(deleted.rows_affected())
}
