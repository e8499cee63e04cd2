//! Sites: a request and what is known of its host go in, the answer comes out.
//!
//! No sockets and no routing here: `listen/` and `route/` do that. Start with [`Sites::respond`]; then [`path`]
//! (which file is meant), [`resolve`] (which file it is), [`answer`] (what is sent of it).

mod body;
mod packs;
pub mod pages;

use std::{net::IpAddr, sync::Arc};

use bytes::Bytes;
use common::{domain::Clock, routes::Site, secrets::MasterKey};
use http::{Request, Response};
use http_body::Body;

pub use body::SiteBody;
pub use packs::{PackError, Packs, RecentDeployments};

/// How a request came in.
#[derive(Debug, Clone)]
pub struct Visit {
    /// The client's address, as far as it is believed.
    pub client: IpAddr,
    /// Whether the visitor sees HTTPS.
    pub tls: bool,
    /// The host asked for: lower case, no port.
    pub host: String,
    /// The port of our public HTTPS addresses, when it is not 443.
    pub public_port: Option<u16>,
}

/// Serves every site of this edge.
pub struct Sites {
    packs: Arc<dyn Packs>,
    recent: Arc<dyn RecentDeployments>,
    clock: Clock,
}

impl Sites {
    /// With empty memories.
    pub fn new(
        packs: Arc<dyn Packs>,
        recent: Arc<dyn RecentDeployments>,
        master_key: &MasterKey,
        clock: Clock,
    ) -> Self {
        let _ = master_key;
        Self { packs, recent, clock }
    }

    /// Answers a request to `site`.
    pub async fn respond<B>(&self, request: Request<B>, visit: &Visit, site: &Site) -> Response<SiteBody>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let _ = (visit, site, &self.packs, &self.recent, &self.clock);
        pages::seen_by(request.method(), pages::unavailable())
    }
}
