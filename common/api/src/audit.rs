//! `/orgs/:name/audit` and `/projects/:name/audit`.

use domain::{AuditId, OrgName, ProjectName, Timestamp, TokenId, audit::ActorKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A change that was made, and by whom.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    /// The entry's id.
    pub id: AuditId,
    /// The time of the change.
    pub created_at: Timestamp,
    /// The change: a noun and a verb, such as `project.create` or `member.role`. More may come.
    #[cfg_attr(feature = "openapi", schema(example = "project.create"))]
    pub action: String,
    /// The party that made the change.
    pub actor: AuditActor,
    /// The organization that was changed, or whose project was changed, by its name at that time.
    pub org: Option<OrgName>,
    /// The project that was changed, by its name at that time.
    pub project: Option<ProjectName>,
    /// Further details of the change; never a secret.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub detail: Map<String, Value>,
}

/// The party that made a change.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditActor {
    /// The kind of party.
    pub kind: ActorKind,
    /// A person's login, a deploy token's label or an account at the code host, as it was at that time.
    pub name: Option<String>,
    /// The token that was presented; null when there was none, as in the console.
    pub token: Option<TokenId>,
}

/// A page of the audit log, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditLog {
    /// The entries of this page.
    pub entries: Vec<AuditEntry>,
    /// The `cursor` of the next page; null on the last one.
    pub next_cursor: Option<String>,
}
