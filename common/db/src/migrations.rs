//! The compiled-in migrations, and the compatibility of programs and schemas.
//!
//! During a rollout, and after a rollback, a program runs against a schema newer than itself. That works until a
//! contract migration removes something that it reads; the table `schema_floor` records the oldest compatible program.

use sqlx::{PgConnection, PgPool, migrate::Migrator};

use crate::{
    connections, edges,
    pooler::{self, PoolerError},
};

/// The reason the database was not brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The database has become too new for this program.
    #[error(
        "this program (svc {program}, migration {newest}) is too old for the database, which needs svc {oldest_version} or later \
         (migration {oldest_migration}): start a newer one"
    )]
    TooOld {
        /// The program's version.
        program: &'static str,
        /// The newest migration that the program has.
        newest: i64,
        /// The migration that a program must have.
        oldest_migration: i64,
        /// The version of the oldest program that has it.
        oldest_version: String,
    },
    /// Migrations need a session, which `postgres.direct_url` (or `postgres.url` if it is unset) does not provide.
    #[error(transparent)]
    Pooler(#[from] PoolerError),
    /// A migration could not be applied.
    #[error(transparent)]
    Migration(#[from] sqlx::migrate::MigrateError),
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

fn migrator() -> Migrator {
    let mut migrator = sqlx::migrate!("../../migrations");
    // Applied migrations of newer programs are unknown here.
    migrator.set_ignore_missing(true);
    migrator
}

/// Returns the number of the newest migration that this program has.
pub fn newest() -> i64 {
    migrator().iter().map(|migration| migration.version).max().unwrap_or_default()
}

/// Applies missing migrations like [`migrate`], in PostgreSQL sessions even if there is a pooler.
pub async fn bring_up_to_date(postgres: &config::Postgres) -> Result<(), MigrateError> {
    let pool = connections::connect_directly(postgres)?;
    pooler::check(config::PoolerMode::None, &pool).await?;
    let migrated = migrate(&pool).await;
    pool.close().await;
    migrated
}

/// Applies missing migrations, and updates the rights of the [roles of edges](edges::roles). Unknown migrations of a
/// newer program are ignored. Many processes may call it concurrently.
pub async fn migrate(pool: &PgPool) -> Result<(), MigrateError> {
    let mut conn = pool.acquire().await?;
    // The connection gets settings of its own, so it must not return to the pool.
    conn.close_on_drop();
    connections::lift_timeouts(&mut conn).await?;
    check_age(&mut conn).await?;
    migrator().run(&mut *conn).await?;
    Ok(edges::roles::refresh_grants(&mut conn).await?)
}

/// Fails when the database has become too new for this program. A database from before there was a floor has none.
pub async fn check_age(conn: &mut PgConnection) -> Result<(), MigrateError> {
    let has_floor = sqlx::query_scalar!(r#"SELECT to_regclass('schema_floor') IS NOT NULL AS "has_floor!""#);
    if !has_floor.fetch_one(&mut *conn).await? {
        return Ok(());
    }
    let floor = sqlx::query!("SELECT oldest_migration, oldest_version FROM schema_floor").fetch_optional(conn).await?;
    let newest = newest();
    match floor {
        Some(floor) if newest < floor.oldest_migration => Err(MigrateError::TooOld {
            program: env!("CARGO_PKG_VERSION"),
            newest,
            oldest_migration: floor.oldest_migration,
            oldest_version: floor.oldest_version,
        }),
        _ => Ok(()),
    }
}
