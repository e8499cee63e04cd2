//! `/sessions`.

use domain::{SessionId, Timestamp};
use serde::{Deserialize, Serialize};

/// A session of the console.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Session {
    /// The session's id. It identifies the session but grants no access.
    pub id: SessionId,
    /// The browser in which the person signed in, such as `Firefox on Linux`.
    pub browser: String,
    /// The time of the sign-in.
    pub created_at: Timestamp,
    /// The time of the last use, accurate to five minutes; null if unknown.
    pub last_used_at: Option<Timestamp>,
    /// Whether this request was made in the session.
    pub current: bool,
}

/// A person's console sessions, newest first; at most 50.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionList {
    /// The sessions.
    pub sessions: Vec<Session>,
}
