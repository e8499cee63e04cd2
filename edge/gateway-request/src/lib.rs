//! Requests to the AI gateway: bodies are read within bounds, validated, and written for their provider.
//!
//! [`request_body`] reads a body, [`request`] validates it for a model of [`models`] within the key's limits
//! ([`asks`]), and [`error`] has the answers to those that are refused. Start with [`request::validate_chat`].

pub mod asks;
pub mod endpoints;
pub mod error;
pub mod models;
pub mod request;
pub mod request_body;
