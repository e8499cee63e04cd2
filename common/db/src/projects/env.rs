//! Environment variables: sealed at rest, each for its own row.

use domain::{
    ProjectId, Timestamp,
    env::{EnvKey, EnvScope, EnvValue},
    limits::{ENV_TOTAL_BYTES, ENV_VARS},
};
use secrets::{KeyPurpose, MasterKey, master_key::OpenError};
use sqlx::{PgConnection, PgExecutor};

use crate::permits::{AtLeast, Member, ProjectPermit};

/// A stored variable.
#[derive(Debug, Clone)]
pub struct StoredVariable {
    /// The name.
    pub key: EnvKey,
    /// The sealed value.
    pub sealed_value: Vec<u8>,
    /// The scope in which the variable is visible.
    pub scope: EnvScope,
}

impl StoredVariable {
    /// Opens the value. Fails when the stored bytes are damaged.
    pub fn open(&self, master: &MasterKey, project: &ProjectId) -> Result<EnvValue, OpenError> {
        let plain = master.open(KeyPurpose::EnvValues, &identity(project, &self.key), &self.sealed_value)?;
        String::from_utf8(plain).ok().and_then(|text| EnvValue::try_from(text).ok()).ok_or(OpenError)
    }
}

/// Returns the project's variables, newest first.
pub async fn list(
    db: impl PgExecutor<'_>,
    project: &ProjectPermit<impl AtLeast<Member>>,
) -> Result<Vec<StoredVariable>, sqlx::Error> {
    sqlx::query_as!(
        StoredVariable,
        "SELECT key, sealed_value, scope
           FROM env_vars WHERE project_id = $1 ORDER BY created_at DESC, key",
        project.id.as_str(),
    )
    .fetch_all(db)
    .await
}

/// The reason a variable was not set.
#[derive(Debug, thiserror::Error)]
pub enum SetVariableError {
    /// The project was deleted meanwhile.
    #[error("the project is gone")]
    Gone,
    /// The project has reached the maximum number of variables.
    #[error("the project has {ENV_VARS} variables already")]
    TooMany,
    /// The project's values would exceed their maximum size.
    #[error("the values together would be larger than {ENV_TOTAL_BYTES} bytes")]
    TooLarge,
    /// A database error.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Sets a variable, and returns its scope: the given one, otherwise the stored one, otherwise the default.
pub async fn set(
    conn: &mut PgConnection,
    master: &MasterKey,
    project: &ProjectPermit<impl AtLeast<Member>>,
    (key, value, scope): (&EnvKey, &EnvValue, Option<EnvScope>),
    now: Timestamp,
) -> Result<EnvScope, SetVariableError> {
    // Lock before counting: two concurrent calls could exceed the limits.
    let found = sqlx::query_scalar!("SELECT true FROM projects WHERE id = $1 FOR NO KEY UPDATE", project.id.as_str());
    found.fetch_optional(&mut *conn).await?.ok_or(SetVariableError::Gone)?;
    let others = sqlx::query!(
        r#"SELECT count(*) AS "count!", coalesce(sum(value_bytes), 0) AS "bytes!" FROM env_vars
           WHERE project_id = $1 AND key <> $2"#,
        project.id.as_str(),
        key.as_str(),
    )
    .fetch_one(&mut *conn)
    .await?;
    let bytes = i32::try_from(value.expose().len()).map_err(|_| SetVariableError::TooLarge)?;
    if others.count >= ENV_VARS {
        return Err(SetVariableError::TooMany);
    }
    if others.bytes + i64::from(bytes) > ENV_TOTAL_BYTES {
        return Err(SetVariableError::TooLarge);
    }
    let sealed = master.seal(KeyPurpose::EnvValues, &identity(&project.id, key), value.expose().as_bytes());
    let scope = sqlx::query_scalar!(
        "INSERT INTO env_vars AS e (project_id, key, sealed_value, value_bytes, scope, created_at, updated_at)
           VALUES ($1, $2, $3, $4, coalesce($5, 'runtime'), $6, $6)
           ON CONFLICT (project_id, key) DO UPDATE
               SET sealed_value = excluded.sealed_value, value_bytes = excluded.value_bytes,
                   scope = coalesce($5, e.scope), updated_at = excluded.updated_at
           RETURNING scope",
        project.id.as_str(),
        key.as_str(),
        sealed,
        bytes,
        scope as Option<EnvScope>,
        now,
    )
    .fetch_one(conn)
    .await?;
    Ok(scope)
}

/// Removes a variable. Returns false when there is none.
pub async fn remove(
    conn: &mut PgConnection,
    project: &ProjectPermit<impl AtLeast<Member>>,
    key: &EnvKey,
) -> Result<bool, sqlx::Error> {
    let removed =
        sqlx::query!("DELETE FROM env_vars WHERE project_id = $1 AND key = $2", project.id.as_str(), key.as_str())
            .execute(conn)
            .await?;
    Ok(removed.rows_affected() == 1)
}

/// Returns the associated data of a row, which is also its name in [`crate::upkeep::sealed`]. It is unique, because ids
/// have a fixed length and keys no slash.
fn identity(project: &ProjectId, key: &EnvKey) -> Vec<u8> {
    format!("{project}/{key}").into_bytes()
}
