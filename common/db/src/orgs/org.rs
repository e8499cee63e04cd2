//! An organization's row.

use domain::{OrgId, OrgName, Timestamp, UserId, orgs::DisplayName, role::Role};
use sqlx::PgExecutor;

/// An organization's row.
#[derive(Debug, Clone)]
pub struct Org {
    /// The id.
    pub id: OrgId,
    /// The name in URLs.
    pub name: OrgName,
    /// The display name.
    pub display_name: Option<DisplayName>,
    /// The version of its uploaded icon.
    pub icon: Option<String>,
    /// The creation time.
    pub created_at: Timestamp,
}

pub(crate) struct OrgAndRole {
    pub(crate) id: OrgId,
    pub(crate) name: OrgName,
    pub(crate) display_name: Option<DisplayName>,
    pub(crate) icon: Option<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) role: Role,
}

impl OrgAndRole {
    pub(crate) fn split(self) -> (Org, Role) {
        let Self { id, name, display_name, icon, created_at, role } = self;
        (Org { id, name, display_name, icon, created_at }, role)
    }
}

/// Reads `orgs o` joined with their members `m`; the first argument continues the statement.
macro_rules! select_orgs {
    ($rest:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            $crate::orgs::org::OrgAndRole,
            r#"SELECT o.id, o.name, o.display_name, i.version AS "icon?", o.created_at, m.role
               FROM org_members m JOIN orgs o ON o.id = m.org_id LEFT JOIN org_icons i ON i.org_id = o.id
            "# + $rest
            $(, $argument)*
        )
    };
}
pub(crate) use select_orgs;

/// Returns the user's orgs with their role in each, newest first: at most `rows`, older than `before`.
pub async fn page(
    db: impl PgExecutor<'_>,
    user: &UserId,
    before: Option<&OrgId>,
    rows: i64,
) -> Result<Vec<(Org, Role)>, sqlx::Error> {
    let rows = select_orgs!(
        "WHERE m.user_id = $1 AND ($2::text IS NULL OR o.id < $2) ORDER BY o.id DESC LIMIT $3",
        user.as_str(),
        before.map(OrgId::as_str),
        rows,
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(OrgAndRole::split).collect())
}

/// Returns the name of an org; `None` once it is deleted.
pub async fn find_name(db: impl PgExecutor<'_>, id: &OrgId) -> Result<Option<OrgName>, sqlx::Error> {
    sqlx::query_scalar!("SELECT name FROM orgs WHERE id = $1", id.as_str()).fetch_optional(db).await
}

/// Returns the id of the org called `name`, for public data.
pub async fn find_id(db: impl PgExecutor<'_>, name: &OrgName) -> Result<Option<OrgId>, sqlx::Error> {
    sqlx::query_scalar!("SELECT id FROM orgs WHERE name = $1", name.as_str()).fetch_optional(db).await
}
