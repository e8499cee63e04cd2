//! The protocol between the console and the edges about a visitor of a gated site, carried by the visitor's browser.

/// Folder of the platform's own paths on a site's host, in the form of an archive path.
pub const PLATFORM_FOLDER: &str = ".svc/";
/// Path on a site's host that the password form is sent to.
pub const FORM_PATH: &str = "/.svc/gate";
/// Path on a site's host at which a ticket is redeemed.
pub const ENTER_PATH: &str = "/.svc/enter";
/// Parameter of [`ENTER_PATH`] with the ticket.
pub const TICKET: &str = "ticket";
/// Parameter of [`ENTER_PATH`] and [`CONSOLE_PATH`] with the path to return to.
pub const RETURN: &str = "return";
/// Path on the console's host at which a visitor gets a ticket.
pub const CONSOLE_PATH: &str = "/gate";
/// Parameter of [`CONSOLE_PATH`] with the site's host.
pub const HOST: &str = "host";
/// Parameter of [`CONSOLE_PATH`] with the hash of the secret that the visitor's browser keeps for the site.
pub const VISITOR: &str = "visitor";
