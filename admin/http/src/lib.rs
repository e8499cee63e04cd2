//! HTTP of the control plane: errors and their statuses, parsers of requests, pages, and addresses of the console.

pub mod addresses;
pub mod csv;
pub mod error;
pub mod extract;
pub mod html;
pub mod quotas;
