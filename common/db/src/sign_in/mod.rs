//! People, and what shows that somebody is one of them: tokens, sessions, device grants, sign-ins under way, tickets.
//!
//! What a person may do is in the folder `permits`; an org's own tokens are in `orgs`. Start with [`users`].

pub mod device_grants;
pub mod gate_tickets;
pub mod sessions;
pub mod sign_ins;
pub mod tokens;
pub mod users;
