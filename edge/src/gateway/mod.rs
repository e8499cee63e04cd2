//! The AI gateway: `OpenAI`'s wire format in front of the models' providers.
//!
//! A request becomes a response here; connections are accepted in `listen/`, and what a request costs is counted by the
//! meter. Prompts and completions live in memory for as long as they are passed on: nothing here logs, counts or keeps
//! a byte of them.

pub mod keys;
pub mod meter;
