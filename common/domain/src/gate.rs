//! What the console and the edges say to each other about a visitor of a gated site, through the visitor's browser.

/// Folder of the paths that belong to the platform on a site's host, as an archive would have it.
pub const PLATFORM_FOLDER: &str = ".svc/";
/// Path on a site's host to which the password form is sent.
pub const FORM_PATH: &str = "/.svc/gate";
/// Path on a site's host at which a ticket is redeemed.
pub const ENTER_PATH: &str = "/.svc/enter";
/// Parameter of [`ENTER_PATH`] that holds the ticket.
pub const TICKET: &str = "ticket";
/// Parameter of [`ENTER_PATH`] and [`CONSOLE_PATH`] that holds the path to return to.
pub const RETURN: &str = "return";
/// Path on the console's host at which a visitor gets a ticket.
pub const CONSOLE_PATH: &str = "/gate";
/// Parameter of [`CONSOLE_PATH`] that holds the site's host.
pub const HOST: &str = "host";
/// Parameter of [`CONSOLE_PATH`] that holds the hash of the secret that the visitor's browser keeps for the site.
pub const VISITOR: &str = "visitor";
