//! What the console and the edges say to each other about a visitor of a gated site, through the visitor's browser.

/// Where on a site's host a ticket is redeemed.
pub const ENTER_PATH: &str = "/.svc/enter";
/// Its parameter with the ticket.
pub const TICKET: &str = "ticket";
/// Its parameter with the way back; the console's has the same name.
pub const RETURN: &str = "return";
/// Where on the console's host a visitor gets a ticket.
pub const CONSOLE_PATH: &str = "/gate";
/// Its parameter with the site's host.
pub const HOST: &str = "host";
/// Its parameter with the hash of the secret that the visitor's browser keeps for the site.
pub const VISITOR: &str = "visitor";
