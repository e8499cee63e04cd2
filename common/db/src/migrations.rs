//! The migrations that are compiled in, and which programs and schemas go together.
//!
//! While a new version is rolled out, and after a step back, a program meets a schema that is newer than itself. That is right as
//! long as no contract has taken away what it reads: the table `schema_floor` says since when.

use sqlx::{PgConnection, PgPool, migrate::Migrator};

use crate::{
    connections, edges,
    pooler::{self, PoolerError},
};

/// Why the database was not brought up to date.
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
        /// The migration that a program has to have.
        oldest_migration: i64,
        /// The version of the oldest program that has it.
        oldest_version: String,
    },
    /// Migrations hold on to a session, which `postgres.direct_url`, or `postgres.url` without it, does not give them.
    #[error(transparent)]
    Pooler(#[from] PoolerError),
    /// A migration could not be applied.
    #[error(transparent)]
    Migration(#[from] sqlx::migrate::MigrateError),
    /// The database.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

fn migrator() -> Migrator {
    let mut migrator = sqlx::migrate!("../../migrations");
    // Those of newer programs, which this one has to get along with.
    migrator.set_ignore_missing(true);
    migrator
}

/// Returns the newest migration that this program has.
pub fn newest() -> i64 {
    migrator().iter().map(|migration| migration.version).max().unwrap_or_default()
}

/// Applies the migrations that the database lacks, as [`migrate`] does, in sessions of PostgreSQL also where there is a pooler.
pub async fn bring_up_to_date(postgres: &config::Postgres) -> Result<(), MigrateError> {
    let pool = connections::connect_directly(postgres)?;
    pooler::check(config::Pooler::None, &pool).await?;
    let migrated = migrate(&pool).await;
    pool.close().await;
    migrated
}

/// Applies the migrations that the database lacks, and grants the [roles of edges](edges::roles) what they need then. Migrations of a
/// newer program, which this one does not know, stay. Many processes may call it concurrently.
pub async fn migrate(pool: &PgPool) -> Result<(), MigrateError> {
    let mut conn = pool.acquire().await?;
    // Its settings are its own from now on.
    conn.close_on_drop();
    connections::take_any_time(&mut conn).await?;
    check_age(&mut conn).await?;
    migrator().run(&mut *conn).await?;
    Ok(edges::roles::grant_anew(&mut conn).await?)
}

/// Fails when the database has become too new for this program. One from before there was a floor has none.
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
