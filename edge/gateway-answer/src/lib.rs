//! Answers of the model providers: whole ones ([`json_answer`]) and streams ([`sse`]), whose usage is read while they
//! pass.

pub mod answer_memory;
pub mod json_answer;
pub mod sse;
