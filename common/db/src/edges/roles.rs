//! The database roles of edges, whose rights are in the tables `edge_grants` and `edge_functions`. A test runs edges as
//! one.

use sqlx::{PgConnection, PgExecutor};

/// An error of [`grant`] that an operator can act on.
#[derive(Debug, thiserror::Error)]
pub enum GrantError {
    /// The server has no such role, and this program's role may not create one.
    #[error(
        "there is no role {0}, and the one of postgres.url may not make it: run `CREATE ROLE {0} LOGIN PASSWORD '…'` as one that \
         may, and then this again"
    )]
    MayNotMake(String),
    /// The role has rights that an edge must not have.
    #[error("the role {role} {}, so it may do more than an edge; run {}, or take another role", .excess.what.join(", "), .excess.remedies())]
    MayDoMore {
        /// The role.
        role: String,
        /// The excess rights.
        excess: ExcessRights,
    },
    /// The role is this program's own.
    #[error("the role {0} is admin's own (postgres.url); an edge needs another")]
    IsOwner(String),
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// A role with the rights of an edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeRole {
    /// Its name.
    pub name: String,
    /// Whether the server has it; false after the database was restored on another server.
    pub is_there: bool,
    /// Whether its rights are up to date.
    pub is_current: bool,
}

/// The rights of a role that an edge must not have, and the statements that revoke them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExcessRights {
    /// Its attributes and memberships, such as `SUPERUSER`.
    pub what: Vec<String>,
    /// The statements.
    pub statements: Vec<String>,
}

impl ExcessRights {
    /// Returns the statements as they are typed, one after the other.
    pub fn remedies(&self) -> String {
        self.statements.iter().map(|statement| format!("`{statement}`")).collect::<Vec<_>>().join(" and ")
    }
}

/// Returns the rights of `role` that cannot be granted to an edge; `None` if there are none. They come from its
/// attributes, from owning the database, or from membership of roles that read or write everything, access the server's
/// files or programs, have such attributes, or own the tables.
pub async fn find_excess_rights(conn: &mut PgConnection, role: &str) -> Result<Option<ExcessRights>, sqlx::Error> {
    let found = sqlx::query!(
        r#"WITH edge AS (SELECT * FROM pg_roles WHERE rolname::text = $1),
                mighty AS (
                    SELECT oid FROM pg_roles
                    WHERE rolname = ANY ('{pg_read_all_data, pg_write_all_data, pg_read_server_files, pg_write_server_files,
                                           pg_execute_server_program, pg_signal_backend, pg_maintain, pg_create_subscription}')
                       OR rolsuper OR rolcreaterole OR rolbypassrls OR rolreplication OR rolname = current_user),
                attributes AS (
                    SELECT array_remove(ARRAY[CASE WHEN rolsuper THEN 'SUPERUSER' END, CASE WHEN rolcreaterole THEN 'CREATEROLE' END,
                                              CASE WHEN rolbypassrls THEN 'BYPASSRLS' END,
                                              CASE WHEN rolreplication THEN 'REPLICATION' END], NULL) AS names
                    FROM edge)
           SELECT 'is ' || array_to_string(names, ', ') AS "what!",
                  format('ALTER ROLE %I NO%s', $1, array_to_string(names, ' NO')) AS "statement!"
           FROM attributes WHERE names <> '{}'
           UNION ALL
           SELECT 'owns the database', format('ALTER DATABASE %I OWNER TO %I', datname, current_user)
           FROM pg_database JOIN edge ON edge.oid = datdba WHERE datname = current_database()
           UNION ALL
           SELECT 'belongs to ' || joined.rolname, format('REVOKE %I FROM %I', joined.rolname, $1)
           FROM edge JOIN pg_auth_members AS membership ON membership.member = edge.oid
           JOIN pg_roles AS joined ON joined.oid = membership.roleid
           WHERE EXISTS (SELECT FROM mighty WHERE pg_has_role(joined.oid, mighty.oid, 'MEMBER'))
           ORDER BY 1"#,
        role,
    )
    .fetch_all(conn)
    .await?;
    let (what, statements): (Vec<_>, Vec<_>) = found.into_iter().map(|row| (row.what, row.statement)).unzip();
    Ok((!what.is_empty()).then_some(ExcessRights { what, statements }))
}

/// Returns whether the error says that this connection's role lacks a right.
pub fn is_denied(error: &sqlx::Error) -> bool {
    has_code(error, "42501")
}

/// Returns at most `limit` roles of edges, by name.
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

/// Returns whether the server has a role of this name.
pub async fn exists(conn: &mut PgConnection, role: &str) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(r#"SELECT EXISTS (SELECT FROM pg_roles WHERE rolname::text = $1) AS "exists!""#, role)
        .fetch_one(conn)
        .await
}

/// Creates a role that logs in with a password, or changes the password of an existing edge role. Postgres receives
/// only the `verifier` that it would store, because its log could show the password.
pub async fn create(conn: &mut PgConnection, role: &str, verifier: &str) -> Result<(), GrantError> {
    let made = sqlx::query_scalar!("SELECT make_edge_role($1, $2)", role, verifier).fetch_one(conn).await;
    made.map(drop)
        .map_err(|error| if is_denied(&error) { GrantError::MayNotMake(role.to_owned()) } else { error.into() })
}

/// Grants a role the rights of an edge, and revokes all others in this schema. Fails if the role has further rights.
/// Migrations update the rights from then on.
pub async fn grant(conn: &mut PgConnection, role: &str) -> Result<(), GrantError> {
    if let Some(excess) = find_excess_rights(conn, role).await? {
        return Err(GrantError::MayDoMore { role: role.to_owned(), excess });
    }
    let granted = sqlx::query!("SELECT grant_edge($1)", role).fetch_one(conn).await;
    granted.map(drop).map_err(|error| {
        // invalid_grant_operation
        if has_code(&error, "0LP01") { GrantError::IsOwner(role.to_owned()) } else { error.into() }
    })
}

/// Updates the rights of every edge role.
pub(crate) async fn refresh_grants(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query!("SELECT grant_edges_anew()").fetch_one(conn).await.map(drop)
}

fn has_code(error: &sqlx::Error, code: &str) -> bool {
    error.as_database_error().and_then(sqlx::error::DatabaseError::code).is_some_and(|found| found == code)
}
