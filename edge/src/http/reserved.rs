//! The paths that are ours on every site's host.

/// Prefix of the paths that belong to the platform on a site's host. No visitor is led back to one of them.
pub(crate) const PREFIX: &str = "/.svc/";
/// Path to which the password form is sent, on the site's own host.
pub(crate) use domain::gate::FORM_PATH;
