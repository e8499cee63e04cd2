//! How a request to a site came in.

use std::{net::IpAddr, sync::Arc};

use domain::traffic::agents::Agent;

/// In the extensions of an answer that the gate gave, without a look at what the site holds.
#[derive(Debug, Clone, Copy)]
pub struct GateAnswer;

/// The circumstances that a site's answer may depend on beside the request itself.
#[derive(Debug, Clone)]
pub struct Visit {
    /// The client's address, as far as it is believed.
    pub client: IpAddr,
    /// Whether the visitor sees HTTPS.
    pub tls: bool,
    /// The host asked for: lower case, no port.
    pub host: Arc<str>,
    /// The port of our public HTTPS addresses, when it is not 443.
    pub public_port: Option<u16>,
    /// The program that asks, when it says its name.
    pub agent: Option<&'static Agent>,
    /// The client's country, as two capital letters, where it is known.
    pub country: Option<[u8; 2]>,
}
