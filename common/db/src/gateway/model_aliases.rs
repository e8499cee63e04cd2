//! The names that accounts have given to models of the AI gateway.

use domain::{UserId, gateway::ModelAliases};
use sqlx::{PgConnection, PgExecutor, types::Json};

use crate::permits::{Admin, AtLeast, LockedOrg, Member, OrgPermit};

/// Returns the names that a person has given.
pub async fn of_user(db: impl PgExecutor<'_>, user: &UserId) -> Result<ModelAliases, sqlx::Error> {
    let found = sqlx::query_scalar!(
        r#"SELECT ai_aliases AS "aliases?: Json<ModelAliases>" FROM users WHERE id = $1"#,
        user.as_str()
    );
    Ok(found.fetch_optional(db).await?.flatten().map(|Json(aliases)| aliases).unwrap_or_default())
}

/// Returns the names that an org has given.
pub async fn of_org(
    db: impl PgExecutor<'_>,
    org: &OrgPermit<impl AtLeast<Member>>,
) -> Result<ModelAliases, sqlx::Error> {
    let found = sqlx::query_scalar!(
        r#"SELECT ai_aliases AS "aliases?: Json<ModelAliases>" FROM orgs WHERE id = $1"#,
        org.id.as_str()
    );
    Ok(found.fetch_optional(db).await?.flatten().map(|Json(aliases)| aliases).unwrap_or_default())
}

/// Sets the names that a person gives, in the place of those before.
pub async fn set_of_user(conn: &mut PgConnection, user: &UserId, aliases: &ModelAliases) -> Result<(), sqlx::Error> {
    let stored = stored(aliases);
    sqlx::query!("UPDATE users SET ai_aliases = $2 WHERE id = $1", user.as_str(), stored as _)
        .execute(conn)
        .await
        .map(drop)
}

/// Sets the names that an org gives, in the place of those before.
pub async fn set_of_org(
    conn: &mut PgConnection,
    org: &LockedOrg<impl AtLeast<Admin>>,
    aliases: &ModelAliases,
) -> Result<(), sqlx::Error> {
    let stored = stored(aliases);
    sqlx::query!("UPDATE orgs SET ai_aliases = $2 WHERE id = $1", org.id.as_str(), stored as _)
        .execute(conn)
        .await
        .map(drop)
}

/// None are no value: most accounts have none.
fn stored(aliases: &ModelAliases) -> Option<Json<&ModelAliases>> {
    (!aliases.is_empty()).then_some(Json(aliases))
}
