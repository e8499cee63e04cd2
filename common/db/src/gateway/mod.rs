//! The AI gateway's part of the database: its keys, and what completions used.
//!
//! Budgets as the edges count them are in Redis, in the crate `live`. Start with [`ai_usage`].

pub mod ai_keys;
pub mod ai_usage;
pub mod usage_months;
