//! Public links to a project's statistics.

use domain::{PayingAccount, ProjectId, ProjectName, Timestamp};
use sqlx::{PgConnection, PgExecutor};

use super::report::StatsPermit;
use crate::permits::{Admin, AtLeast, Member, ProjectPermit};

/// Returns the token of the project's link, if it has one.
pub async fn find_token(
    db: impl PgExecutor<'_>,
    project: &ProjectPermit<impl AtLeast<Member>>,
) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar!("SELECT token FROM public_stats WHERE project_id = $1", project.id.as_str())
        .fetch_optional(db)
        .await
}

/// Gives the project a link with this token, unless it has one. Returns the valid token and whether it is new, if the
/// project exists.
pub async fn enable(
    conn: &mut PgConnection,
    project: &ProjectPermit<impl AtLeast<Admin>>,
    token: &str,
    created_by: &str,
    now: Timestamp,
) -> Result<Option<(String, bool)>, sqlx::Error> {
    // Select from the project, so that a concurrent deletion yields no row instead of a foreign key violation. The
    // update changes nothing, but `RETURNING` needs it to return an existing row.
    let row = sqlx::query!(
        r#"INSERT INTO public_stats AS known (project_id, token, created_at, created_by)
           SELECT p.id, $2, $3, $4 FROM projects p WHERE p.id = $1 FOR KEY SHARE
           ON CONFLICT (project_id) DO UPDATE SET token = known.token
           RETURNING token, xmax = 0 AS "is_new!""#,
        project.id.as_str(),
        token,
        now,
        created_by,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| (row.token, row.is_new)))
}

/// Removes the project's link. Returns whether it had one.
pub async fn disable(
    conn: &mut PgConnection,
    project: &ProjectPermit<impl AtLeast<Admin>>,
) -> Result<bool, sqlx::Error> {
    disable_for_transfer(conn, &project.id).await
}

/// Removes the link like [`disable`], because the project gets another owner.
pub(crate) async fn disable_for_transfer(conn: &mut PgConnection, project: &ProjectId) -> Result<bool, sqlx::Error> {
    let gone = sqlx::query!("DELETE FROM public_stats WHERE project_id = $1", project.as_str()).execute(conn).await?;
    Ok(gone.rows_affected() == 1)
}

/// A project as its public link shows it.
#[derive(Debug)]
pub struct LinkedProject {
    /// The name.
    pub name: ProjectName,
    /// The permit to read its statistics.
    pub readable: StatsPermit,
    /// The account that pays for it.
    pub payer: PayingAccount,
}

/// Returns the project whose link has this token. An expired share is not found.
pub async fn find(db: impl PgExecutor<'_>, token: &str, now: Timestamp) -> Result<Option<LinkedProject>, sqlx::Error> {
    let row = sqlx::query!(
        r#"SELECT p.id, p.name, COALESCE(p.org_id, p.user_id) AS "owner!: ::domain::Account",
                  (SELECT o.created_by FROM orgs o WHERE o.id = p.org_id) AS "creator?: ::domain::UserId"
           FROM public_stats link JOIN projects p ON p.id = link.project_id
           WHERE link.token = $1 AND (p.expires_at IS NULL OR p.expires_at > $2)"#,
        token,
        now,
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(|row| LinkedProject {
        name: row.name,
        readable: StatsPermit::by_link(row.id),
        payer: PayingAccount::new(row.owner, row.creator),
    }))
}
