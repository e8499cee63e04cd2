//! The paths that are reserved on every site's host.

/// The prefix of the platform's paths on a site's host. Visitors are never returned to one of them.
pub const PREFIX: &str = "/.svc/";
/// The path that the password form is submitted to, on the site's own host.
pub use domain::gate::FORM_PATH;
