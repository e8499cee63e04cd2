//! The roles that edges have in the database. What one may do stands in the tables `edge_grants` and `edge_functions`; a test runs
//! edges under such a role.

use sqlx::{PgConnection, PgExecutor};

/// The error of [`grant`], of which an operator can make something.
#[derive(Debug, thiserror::Error)]
pub enum GrantError {
    /// The server has no such role, and this program's own may not make one.
    #[error(
        "there is no role {0}, and the one of postgres.url may not make it: run `CREATE ROLE {0} LOGIN PASSWORD '…'` as one that \
         may, and then this again"
    )]
    MayNotMake(String),
    /// The role could do what an edge must not.
    #[error(
        "the role {0} is a superuser, may make roles, or belongs to the owner of the tables; an edge needs one of its own"
    )]
    MayDoMore(String),
    /// The database.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// A role that was granted what edges need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeRole {
    /// Its name.
    pub name: String,
    /// Whether the server has it. Not after the database was restored at another server.
    pub is_there: bool,
    /// Whether it has what edges need now.
    pub is_current: bool,
}

/// Returns the roles of edges by name, at most `limit`.
pub async fn list(db: impl PgExecutor<'_>, limit: i64) -> Result<Vec<EdgeRole>, sqlx::Error> {
    sqlx::query_as!(
        EdgeRole,
        r#"SELECT role_name AS name, EXISTS (SELECT FROM pg_roles WHERE rolname = role_name) AS "is_there!",
                  granted = edge_grants_version(role_name) AS "is_current!"
           FROM edge_roles ORDER BY role_name LIMIT $1"#,
        limit,
    )
    .fetch_all(db)
    .await
}

/// Whether the server has a role of this name.
pub async fn exists(conn: &mut PgConnection, role: &str) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(r#"SELECT EXISTS (SELECT FROM pg_roles WHERE rolname::text = $1) AS "exists!""#, role)
        .fetch_one(conn)
        .await
}

/// Makes a role that logs in with `password`, or gives the role of edges that there is this password.
pub async fn make(conn: &mut PgConnection, role: &str, password: &str) -> Result<(), GrantError> {
    let made = sqlx::query_scalar!("SELECT make_edge_role($1, $2)", role, password).fetch_one(conn).await;
    made.map(drop)
        .map_err(|error| if has_code(&error, "42501") { GrantError::MayNotMake(role.to_owned()) } else { error.into() })
}

/// Grants a role what edges need, and takes everything else from it. Migrations grant it anew from then on.
pub async fn grant(conn: &mut PgConnection, role: &str) -> Result<(), GrantError> {
    let granted = sqlx::query!("SELECT grant_edge($1)", role).fetch_one(conn).await;
    granted.map(drop).map_err(|error| {
        // invalid_grant_operation
        if has_code(&error, "0LP01") { GrantError::MayDoMore(role.to_owned()) } else { error.into() }
    })
}

/// Grants every role of edges what has changed since it was granted.
pub(crate) async fn grant_anew(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query!("SELECT grant_edges_anew()").fetch_one(conn).await.map(drop)
}

fn has_code(error: &sqlx::Error, code: &str) -> bool {
    error.as_database_error().and_then(sqlx::error::DatabaseError::code).is_some_and(|found| found == code)
}
