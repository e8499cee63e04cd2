//! `/events`.

use domain::{ProjectName, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The `data` of a `change` event. For `reset` and `signed_out` events it is `{}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChangeEvent {
    /// The kind of event: an audit log `action`, or `receipt`, `domain.state`, `push`, `billing`. More may be added.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "openapi", schema(example = "deployment.activate"))]
    pub kind: String,
    /// The affected account: an organization's name, or your own login.
    pub account: String,
    /// The affected project.
    pub project: Option<ProjectName>,
    /// The affected thing within the project or organization: an id, a hostname or a login.
    pub subject: Option<String>,
    /// The author's login, or a deploy token's label or an account at the code host if the author is not a person.
    pub by: Option<String>,
    /// The time of the change.
    pub at: Timestamp,
    /// Further details: those of the audit log entry that your role may see; for a `receipt`, the `edges` that have
    /// applied the change `of` those that are up, after `ms` milliseconds; for a `domain.state`, its `state` and
    /// `message`. Never a secret.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub detail: Map<String, Value>,
}
