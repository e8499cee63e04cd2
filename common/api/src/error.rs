//! The error envelope of the control plane.

use serde::{Deserialize, Serialize};

/// `{"error": {"code": …, "message": …}}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorEnvelope {
    /// What went wrong.
    pub error: ErrorBody,
}

/// A stable code for programs and a sentence for people.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorBody {
    /// One of the contract's codes.
    pub code: String,
    /// What is wrong and what to do about it.
    pub message: String,
}
