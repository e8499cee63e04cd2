//! Sites: a request and what is known of its host go in, the answer comes out.
//!
//! No sockets and no routing here: `listen/` and `memory/` do that. Start with [`Sites::respond`]; then [`serve`] (from
//! the path to the file), [`answer`] (what is sent of it), [`cache`] (what is kept of packs).

mod answer;
mod cache;
pub(crate) mod conditional;
mod copies;
mod decoded;
mod faults;
mod guards;
mod header_rules;
mod pack;
mod packs;
mod path;
mod pieces;
mod preferences;
mod ranges;
mod resolve;
mod routes;
mod rules;
mod serve;
mod spellings;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use domain::{
    Clock, Timestamp,
    site::{Gate, Site, SiteKind},
};
use fairness::budget::Budget;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, header::CACHE_CONTROL, request::Parts};
use http_body::Body;

pub use packs::{PackError, Packs};

use self::{cache::PackCache, copies::Copies};
use crate::{
    gate::Gatekeeper,
    http::{GateAnswer, Incidents, SiteBody, Visit, pages, reserved},
    limits::Shares,
    memory::RecentDeployments,
};

const ROBOTS: HeaderName = HeaderName::from_static("x-robots-tag");

/// Serves every site of this edge.
pub struct Sites {
    packs: PackCache,
    recent: Arc<dyn RecentDeployments>,
    gatekeeper: Gatekeeper,
    clock: Clock,
    incidents: Incidents,
}

impl Sites {
    /// With empty memories, as large as their `shares`. What is read is charged to `budget` while it is. What `packs` has lost
    /// is read from `replica`, if there is one.
    pub fn new(
        packs: Arc<dyn Packs>,
        replica: Option<Arc<dyn Packs>>,
        shares: &Shares,
        budget: &Budget,
        recent: Arc<dyn RecentDeployments>,
        gatekeeper: Gatekeeper,
        clock: Clock,
    ) -> Self {
        let copies = Copies::new(packs, replica, recent.clone(), budget.common_account());
        Self { packs: PackCache::new(copies, shares, budget), recent, gatekeeper, clock, incidents: Incidents::new() }
    }

    /// Bytes of memory that bodies and manifests take.
    pub(crate) fn memory_used(&self) -> [u64; 2] {
        self.packs.used()
    }

    /// What time it is.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Answers a request to `site`. The body is read only when it is the password form's.
    pub async fn respond<B>(&self, head: &Parts, body: B, visit: &Visit, site: &Site) -> Response<SiteBody>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut response = self.answer(head, body, visit, site).await;
        let headers = response.headers_mut();
        if site.gate != Gate::Public {
            forget_caching(headers);
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
        if let Some(reason) = site.suspended {
            return pages::suspended(reason);
        }
        // The gate stands before everything that the site holds, the lack of it included. A preflight carries no credentials: it
        // hears of the methods, which are every site's, and nothing that this one says.
        if site.gate != Gate::Public && head.method == Method::OPTIONS {
            return pages::options();
        }
        if (site.gate != Gate::Public || head.uri.path().starts_with(reserved::PREFIX))
            && let Err(answer) = Box::pin(self.gatekeeper.admit(head, body, visit, site)).await
        {
            let mut answer = *answer;
            answer.extensions_mut().insert(GateAnswer);
            return answer;
        }
        self.admitted(head, visit, site).await
    }
}

/// Removes what a cache could go by, so that nothing but the gate's own word says how long an answer is kept. A site may
/// say `Expires` and `Pragma` in its `_headers`; the others are refused there, and again here.
fn forget_caching(headers: &mut HeaderMap) {
    const BEGINNINGS: [&str; 3] = ["cdn-", "edge-", "surrogate-"];
    let says_so = |name: &str| {
        matches!(name, "expires" | "pragma" | "cache-tag")
            || name.ends_with("-cache-control")
            || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
    };
    let names: Vec<_> = headers.keys().filter(|name| says_so(name.as_str())).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}
