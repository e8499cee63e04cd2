//! `OpenAI`'s wire format: JSON objects as written in a text, the dialects of providers, error codes, and usage.

pub mod dialect;
pub mod error_code;
pub mod json;
pub mod usage;
pub mod usage_report;
