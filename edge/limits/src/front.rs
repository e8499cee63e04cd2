//! Limits on what the front reads of a request.

use std::time::Duration;

/// Maximum time for a request's body to reach a site and be answered: only the password form has one, of a few bytes.
pub const SITE_REQUEST_BODY_WAIT: Duration = Duration::from_secs(15);
/// Bytes of the longest host name (RFC 1035).
pub const HOST_BYTES: usize = 253;
/// Bytes of the longest challenge token. RFC 8555 requires at least 22 (8.3); authorities send 43.
pub const CHALLENGE_TOKEN_BYTES: usize = 128;
