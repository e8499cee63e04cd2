//! The aliases that accounts define for models of the AI gateway.

use domain::{UserId, gateway::ModelAliases};
use sqlx::{PgConnection, PgExecutor, types::Json};

use crate::permits::{Admin, AtLeast, LockedOrg, Member, OrgPermit};

/// Returns a person's aliases.
pub async fn find_for_user(db: impl PgExecutor<'_>, user: &UserId) -> Result<ModelAliases, sqlx::Error> {
    let found = sqlx::query_scalar!(
        r#"SELECT ai_aliases AS "aliases?: Json<ModelAliases>" FROM users WHERE id = $1"#,
        user.as_str()
    );
    Ok(found.fetch_optional(db).await?.flatten().map(|Json(aliases)| aliases).unwrap_or_default())
}

/// Returns an org's aliases.
pub async fn find_for_org(
    db: impl PgExecutor<'_>,
    org: &OrgPermit<impl AtLeast<Member>>,
) -> Result<ModelAliases, sqlx::Error> {
    let found = sqlx::query_scalar!(
        r#"SELECT ai_aliases AS "aliases?: Json<ModelAliases>" FROM orgs WHERE id = $1"#,
        org.id.as_str()
    );
    Ok(found.fetch_optional(db).await?.flatten().map(|Json(aliases)| aliases).unwrap_or_default())
}

/// Replaces a person's aliases.
pub async fn set_for_user(conn: &mut PgConnection, user: &UserId, aliases: &ModelAliases) -> Result<(), sqlx::Error> {
    let stored = stored(aliases);
    sqlx::query!("UPDATE users SET ai_aliases = $2 WHERE id = $1", user.as_str(), stored as _)
        .execute(conn)
        .await
        .map(drop)
}

/// Replaces an org's aliases.
pub async fn set_for_org(
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

/// Stores null for an empty list, which most accounts have.
fn stored(aliases: &ModelAliases) -> Option<Json<&ModelAliases>> {
    (!aliases.is_empty()).then_some(Json(aliases))
}
