//! The AI gateway's part of the database: its keys, what completions used, and the edges that have recorded all of theirs.
//!
//! Budgets as the edges count them are in Redis, in the crate `live`. Start with [`ai_usage`].

pub mod ai_keys;
pub mod ai_requests;
pub mod ai_usage;
pub mod free_credit;
pub mod model_aliases;
pub mod settled_edges;
pub mod usage_export;
pub mod usage_months;
