//! Organizations from their creation to their deletion.

use domain::{Account, OrgId, OrgName, Timestamp, orgs::DisplayName, role::Role};
use sqlx::{PgConnection, PgExecutor};

use super::{membership, org::Org};
use crate::{
    permits::{Admin, AtLeast, Level, LockedOrg, OrgPermit, Owner},
    quotas,
    sign_in::users::User,
};

/// Returns the number of the org's projects.
pub async fn count_projects(db: impl PgExecutor<'_>, org: &OrgPermit<impl Level>) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(r#"SELECT count(*) AS "count!" FROM projects WHERE org_id = $1"#, org.id.as_str())
        .fetch_one(db)
        .await
}

/// Why an org was not made.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The name is taken.
    #[error("the name is taken")]
    NameTaken,
    /// The creator's plan allows no more.
    #[error("the creator has as many organizations as the plan allows")]
    PlanLimit,
    /// The database.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

/// Makes an org, with `creator` as its owner. They may have created `most` that still exist, this one included.
pub async fn create(
    conn: &mut PgConnection,
    creator: &User,
    name: &OrgName,
    display_name: Option<&DisplayName>,
    most: u32,
    now: Timestamp,
) -> Result<Org, CreateError> {
    // Locked before counting: creations at once could all pass the limit.
    quotas::lock(conn, &Account::User(creator.id.clone())).await?;
    let created =
        sqlx::query_scalar!(r#"SELECT count(*) AS "count!" FROM orgs WHERE created_by = $1"#, creator.id.as_str())
            .fetch_one(&mut *conn)
            .await?;
    if created >= i64::from(most) {
        return Err(CreateError::PlanLimit);
    }
    let org = Org {
        id: OrgId::new(now),
        name: name.clone(),
        display_name: display_name.cloned(),
        icon: None,
        created_at: now,
    };
    let inserted = sqlx::query!(
        "INSERT INTO orgs (id, name, display_name, created_at, created_by) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (name) DO NOTHING",
        org.id.as_str(),
        org.name.as_str(),
        org.display_name.as_ref().map(DisplayName::as_str),
        now,
        creator.id.as_str(),
    )
    .execute(&mut *conn)
    .await?;
    if inserted.rows_affected() == 0 {
        return Err(CreateError::NameTaken);
    }
    membership::insert(conn, &org.id, &creator.id, Role::Owner, now).await?;
    Ok(org)
}

/// Changes the org's display name.
pub async fn rename(
    conn: &mut PgConnection,
    org: &LockedOrg<impl AtLeast<Admin>>,
    display_name: Option<&DisplayName>,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE orgs SET display_name = $2 WHERE id = $1",
        org.id.as_str(),
        display_name.map(DisplayName::as_str),
    )
    .execute(conn)
    .await
    .map(drop)
}

/// Why an org was not deleted.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// The org has projects.
    #[error("the organization has projects")]
    NotEmpty,
    /// The database.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

impl DeleteError {
    /// A project that was made after the count stands in the way just as well.
    fn of(error: sqlx::Error) -> Self {
        let by_project = error.as_database_error().is_some_and(|e| e.table() == Some("projects"));
        if by_project { Self::NotEmpty } else { error.into() }
    }
}

/// Deletes the org with its members, invites, tokens and icon.
pub async fn delete(conn: &mut PgConnection, org: &LockedOrg<impl AtLeast<Owner>>) -> Result<(), DeleteError> {
    if count_projects(&mut *conn, org).await? > 0 {
        return Err(DeleteError::NotEmpty);
    }
    sqlx::query!("DELETE FROM orgs WHERE id = $1", org.id.as_str())
        .execute(conn)
        .await
        .map(drop)
        .map_err(DeleteError::of)
}
