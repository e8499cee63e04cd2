//! Stand-ins for servers on the internet that the platform calls.

pub mod codehost;
pub mod provider;
