//! The front's configuration that can be reloaded.

use anyhow::Context as _;
use config::HttpMode;
use domain::networks::Networks;

use crate::http::Paces;

/// The front's reloadable settings: replaced as a whole, and read once for each request or connection.
pub struct Settings {
    /// Proxies whose `X-Forwarded-For` is trusted.
    pub(crate) trusted: Networks,
    /// Load balancers, whose connections start with a PROXY protocol header that names the client.
    pub(crate) balancers: Networks,
    pub(super) http_mode: HttpMode,
    pub(super) paces: Paces,
}

impl Settings {
    /// Creates the settings in `config`. Keeps the state of the paces from `before` if their rate is unchanged.
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
