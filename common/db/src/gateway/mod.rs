//! The AI gateway's keys, usage, and edges with nothing left to settle.
//!
//! The budgets that edges count against are in Redis, in the crate `live`. Start with [`ai_usage`].

pub mod ai_keys;
pub mod ai_requests;
pub mod ai_usage;
pub mod free_credit;
pub mod model_aliases;
pub mod settled_edges;
pub mod usage_export;
pub mod usage_months;
