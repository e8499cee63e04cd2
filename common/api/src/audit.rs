//! `/orgs/:name/audit` and `/projects/:name/audit`.

use domain::{AuditId, OrgName, ProjectName, Timestamp, TokenId, audit::ActorKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A change that somebody made.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    /// Its id.
    pub id: AuditId,
    /// When.
    pub created_at: Timestamp,
    /// What: a noun and a verb, such as `project.create` or `member.role`. More may come.
    #[cfg_attr(feature = "openapi", schema(example = "project.create"))]
    pub action: String,
    /// Who.
    pub actor: AuditActor,
    /// The org it was done to, or whose project it was done to, as it was called then.
    pub org: Option<OrgName>,
    /// The project it was done to, as it was called then.
    pub project: Option<ProjectName>,
    /// What else there is to say; never a secret.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub detail: Map<String, Value>,
}

/// Who made a change.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditActor {
    /// `user`, `deploy_token`, `code_host` or `platform`.
    pub kind: ActorKind,
    /// A person's login, a deploy token's label or the code host's account, as it was then.
    pub name: Option<String>,
    /// The token that was presented; null in the console and for those without one.
    pub token: Option<TokenId>,
}

/// Changes, newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditLog {
    /// The entries.
    pub entries: Vec<AuditEntry>,
    /// Where the next page starts; null at the end.
    pub next_cursor: Option<String>,
}
