//! What the front takes over from the configuration while it runs.

use anyhow::Context as _;
use config::HttpMode;
use domain::networks::Networks;

use crate::http::Paces;

/// The part of the configuration that the front goes by: replaced whole, and read once for each request or connection.
pub struct Settings {
    /// Proxies whose `X-Forwarded-For` is believed.
    pub(crate) trusted: Networks,
    /// Load balancers, whose connections begin with a header of the PROXY protocol that names the client.
    pub(crate) balancers: Networks,
    pub(super) http_mode: HttpMode,
    pub(super) paces: Paces,
}

impl Settings {
    /// The settings in `config`. The pace of accounts over their bandwidth goes on from those that were in use until now.
    pub fn of(config: &config::Edge, before: Option<&Self>) -> anyhow::Result<Self> {
        let pace = config.over_plan_bytes_per_second;
        Ok(Self {
            trusted: Networks::parse(&config.trusted_proxies).context("edge.trusted_proxies")?,
            balancers: Networks::parse(&config.proxy_protocol_from).context("edge.proxy_protocol_from")?,
            http_mode: config.http_mode,
            paces: before.and_then(|before| before.paces.at(pace)).unwrap_or_else(|| Paces::new(pace)),
        })
    }
}
