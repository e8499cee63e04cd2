//! The error envelope of the control plane.

use serde::{Deserialize, Serialize};

/// The body of every error: `{"error": {"code": …, "message": …}}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Error))]
pub struct ErrorEnvelope {
    /// The error.
    pub error: ErrorBody,
}

/// An error: a stable code for programs and a sentence for people.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorBody {
    /// A stable code for programs.
    pub code: String,
    /// A sentence that says what is wrong and how to fix it. Its wording may change.
    pub message: String,
}
