//! The circumstances of a request to a site.

use std::{net::IpAddr, sync::Arc};

use domain::traffic::agents::KnownAgent;

/// A response extension that marks a response of the gate, which did not consult the site's content.
#[derive(Debug, Clone, Copy)]
pub struct GateAnswer;

/// The circumstances that a site's response may depend on in addition to the request itself.
#[derive(Debug, Clone)]
pub struct Visit {
    /// The client's address, taken from forwarding headers only of trusted proxies.
    pub client: IpAddr,
    /// Whether the visitor uses HTTPS.
    pub tls: bool,
    /// The requested host: lower case, no port.
    pub host: Arc<str>,
    /// The port of our public HTTPS addresses, if it is not 443.
    pub public_port: Option<u16>,
    /// The requesting program, if it identifies itself.
    pub agent: Option<&'static KnownAgent>,
    /// The client's country, as two capital letters, if known.
    pub country: Option<[u8; 2]>,
}
