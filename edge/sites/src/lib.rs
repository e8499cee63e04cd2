//! Serves sites: turns a request and the site of its host into a response.
//!
//! Sockets and routing live in `listen/` and `memory/`. Start with [`SiteService::respond`]; then [`serve`] (from the path to
//! the file), [`answer`] (the response for a file) and [`cache`] (cached packs).

mod answer;
mod cache;
pub mod conditional;
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
    site::{Site, SiteGate, SiteKind},
};
use fairness::budget::ByteBudget;
use gate::Gatekeeper;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, header::CACHE_CONTROL, request::Parts};
use http_body::Body;
use http_types::{GateAnswer, IncidentLog, SiteBody, Visit, pages, reserved};
use limits::MemoryShares;
use memory::RecentDeployments;

pub use packs::{PackError, PackSource};

use self::{cache::PackCache, copies::ReplicatedPacks};

const ROBOTS: HeaderName = HeaderName::from_static("x-robots-tag");

/// Serves every site of this edge.
pub struct SiteService {
    packs: PackCache,
    recent: Arc<dyn RecentDeployments>,
    gatekeeper: Gatekeeper,
    clock: Clock,
    incidents: IncidentLog,
}

impl SiteService {
    /// Creates the service with empty caches of the sizes in `shares`. Reads in progress are charged to `budget`. Packs
    /// that `packs` has lost are read from `replica`, if there is one.
    pub fn new(
        packs: Arc<dyn PackSource>,
        replica: Option<Arc<dyn PackSource>>,
        shares: &MemoryShares,
        budget: &ByteBudget,
        recent: Arc<dyn RecentDeployments>,
        gatekeeper: Gatekeeper,
        clock: Clock,
    ) -> Self {
        let copies = ReplicatedPacks::new(packs, replica, recent.clone(), budget.common_account());
        Self {
            packs: PackCache::new(copies, shares, budget),
            recent,
            gatekeeper,
            clock,
            incidents: IncidentLog::default(),
        }
    }

    /// Returns the bytes of memory that cached bodies and cached manifests take, in this order.
    pub fn memory_used(&self) -> [u64; 2] {
        self.packs.memory_used()
    }

    /// Returns the current time by the service's clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Answers a request to `site`. Reads the request body only when it is a submitted password form.
    pub async fn respond<B>(&self, head: &Parts, body: B, visit: &Visit, site: &Site) -> Response<SiteBody>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut response = self.answer(head, body, visit, site).await;
        let headers = response.headers_mut();
        if site.gate != SiteGate::Public {
            remove_cache_headers(headers);
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
            return pages::share_ended();
        }
        if let Some(reason) = site.suspended {
            return pages::suspended(reason);
        }
        // The gate precedes everything about the site, including whether it exists. A preflight carries no credentials:
        // it learns the methods, which are the same for every site, and nothing about this one.
        if site.gate != SiteGate::Public && head.method == Method::OPTIONS {
            return pages::options();
        }
        if (site.gate != SiteGate::Public || head.uri.path().starts_with(reserved::PREFIX))
            && let Err(answer) = Box::pin(self.gatekeeper.admit(head, body, visit, site)).await
        {
            let mut answer = *answer;
            answer.extensions_mut().insert(GateAnswer);
            return answer;
        }
        self.respond_guarded(head, visit, site).await
    }
}

/// Removes every header that a cache could use, so that only the gate's own `Cache-Control` applies. A site may set
/// `Expires` and `Pragma` in its `_headers`; the others are refused at upload and removed here again.
fn remove_cache_headers(headers: &mut HeaderMap) {
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
