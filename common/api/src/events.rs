//! `/events`.

use domain::{ProjectName, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The `data` of an event called `change`. Those called `reset` and `signed_out` have none but `{}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChangeEvent {
    /// The kind of event: the `action` of an audit log's entry, or `receipt`, `domain.state`, `push`, `billing`. More may come.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "openapi", schema(example = "deployment.activate"))]
    pub kind: String,
    /// The account that it happened to: an organization's name, or your own login.
    pub account: String,
    /// The project that it happened to.
    pub project: Option<ProjectName>,
    /// The thing within the project or organization: an id, a hostname, a login.
    pub subject: Option<String>,
    /// The login of its author; a deploy token's label, or an account at the code host, if it was no person.
    pub by: Option<String>,
    /// The time of the change.
    pub at: Timestamp,
    /// Further details: those of the audit log's entry that your role may see; of a `receipt` the `edges` that have the change
    /// `of` those that are up, after `ms` milliseconds; of a `domain.state` its `state` and `message`. Never a secret.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub detail: Map<String, Value>,
}
