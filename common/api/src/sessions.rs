//! `/sessions`.

use domain::{SessionId, Timestamp};
use serde::{Deserialize, Serialize};

/// A session of the console.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Session {
    /// The session's id. It names the session and opens nothing.
    pub id: SessionId,
    /// The browser in which the person signed in, such as `Firefox on Linux`.
    pub browser: String,
    /// The time of the sign-in.
    pub created_at: Timestamp,
    /// The time of the last use, to within five minutes; null when that is not known.
    pub last_used_at: Option<Timestamp>,
    /// Whether this request was made in the session.
    pub current: bool,
}

/// A person's sessions of the console, newest first: 50 at most.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionList {
    /// The sessions.
    pub sessions: Vec<Session>,
}
