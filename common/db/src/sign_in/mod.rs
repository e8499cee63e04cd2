//! People and their credentials: tokens, sessions, device grants, pending sign-ins, gate tickets.
//!
//! Permissions are in the folder `permits`; an org's own tokens are in `orgs`. Start with [`users`].

pub mod device_grants;
pub mod gate_tickets;
pub mod sessions;
pub mod sign_ins;
pub mod tokens;
pub mod users;
