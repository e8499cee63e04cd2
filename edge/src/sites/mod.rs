//! Sites: a request and what is known of its host go in, the answer comes out.
//!
//! No sockets and no routing here: `listen/` and `route/` do that. Start with [`Sites::respond`]; then [`serve`] (from
//! the path to the file), [`answer`] (what is sent of it), [`memory`] (what is kept of packs).

mod answer;
mod body;
mod conditional;
mod header_rules;
mod memory;
mod negotiate;
mod pack;
mod packs;
pub mod pages;
mod path;
mod ranges;
mod resolve;
mod rules;
mod serve;
#[cfg(test)]
mod tests;

use std::{net::IpAddr, sync::Arc};

use bytes::Bytes;
use domain::{
    Clock,
    site::{Gate, Site, SiteKind},
};
use http::{HeaderName, HeaderValue, Request, Response, header::CACHE_CONTROL, request::Parts};
use http_body::Body;

pub use body::SiteBody;
pub(crate) use negotiate::accepts_html;
pub use packs::{PackError, Packs, RecentDeployments};

use self::{answer::Asked, memory::Memory};
use crate::gate::{self, Gatekeeper};

const ROBOTS: HeaderName = HeaderName::from_static("x-robots-tag");

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
    memory: Memory,
    recent: Arc<dyn RecentDeployments>,
    gatekeeper: Gatekeeper,
    clock: Clock,
}

impl Sites {
    /// With empty memories.
    pub fn new(
        packs: Arc<dyn Packs>,
        recent: Arc<dyn RecentDeployments>,
        gatekeeper: Gatekeeper,
        clock: Clock,
    ) -> Self {
        Self { memory: Memory::new(packs), recent, gatekeeper, clock }
    }

    /// Answers a request to `site`. The body is read only when it is the password form's.
    pub async fn respond<B>(&self, request: Request<B>, visit: &Visit, site: &Site) -> Response<SiteBody>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        let mut response = self.answer(&head, body, visit, site).await;
        let headers = response.headers_mut();
        if site.gate != Gate::Public {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
        }
        if site.kind != SiteKind::Live {
            headers.insert(ROBOTS, HeaderValue::from_static("noindex"));
        }
        pages::seen_by(&head.method, response)
    }

    async fn answer<B>(&self, head: &Parts, body: B, visit: &Visit, site: &Site) -> Response<SiteBody>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if site.expires_at.is_some_and(|end| end <= self.clock.now()) {
            return pages::gone();
        }
        if site.suspended {
            return pages::suspended();
        }
        // The gate stands before everything that the site holds, the lack of it included.
        if (site.gate != Gate::Public || head.uri.path().starts_with(gate::RESERVED))
            && let Some(turned_away) = Box::pin(self.gatekeeper.turned_away(head, body, visit, site)).await
        {
            return turned_away;
        }
        let asked = Asked { method: &head.method, headers: &head.headers, host: &visit.host, path: "" };
        self.serve(&head.method, &head.uri, asked, site).await
    }
}
