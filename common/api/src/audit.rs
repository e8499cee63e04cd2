//! `/orgs/:name/audit`, `/projects/:name/audit` and `/activity`.

use domain::{AuditId, OrgName, ProjectName, Timestamp, TokenId, audit::ActorKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An entry of the audit log: a change and its author.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    /// The entry's id.
    pub id: AuditId,
    /// The time of the change.
    pub created_at: Timestamp,
    /// The change: a noun and a verb, such as `project.create` or `member.role`. More may be added.
    #[cfg_attr(feature = "openapi", schema(example = "project.create"))]
    pub action: String,
    /// The party that made the change.
    pub actor: AuditActor,
    /// The organization that was changed, or that owned the changed project, by its name at that time.
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
    /// The login of a person, the label of a deploy token or an account at the code host, as it was at that time.
    pub name: Option<String>,
    /// The token that was used; null if there was none, as in the console.
    pub token: Option<TokenId>,
}

/// A page of the audit log, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditLog {
    /// The entries of this page.
    pub entries: Vec<AuditEntry>,
    /// The `cursor` of the next page; null on the last page.
    pub next_cursor: Option<String>,
}
