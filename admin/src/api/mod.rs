//! Handlers, one folder or file per noun, as in the URLs: parse → proof → one transaction → view.

pub mod docs;
pub mod health;
pub mod me;
pub mod tokens;
