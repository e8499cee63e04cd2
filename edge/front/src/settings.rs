//! The front's configuration that can be reloaded.

use anyhow::Context as _;
use config::HttpMode;
use domain::networks::NetworkSet;
use http_types::AccountPaces;

/// The front's reloadable settings: replaced as a whole, and read once for each request or connection.
pub struct FrontSettings {
    /// Proxies whose `X-Forwarded-For` is trusted.
    pub trusted: NetworkSet,
    /// Load balancers, whose connections start with a PROXY protocol header that names the client.
    pub balancers: NetworkSet,
    pub(super) http_mode: HttpMode,
    pub(super) paces: AccountPaces,
}

impl FrontSettings {
    /// Creates the settings in `config`. Keeps the state of the paces from `before` if their rate is unchanged.
    pub fn from_config(config: &config::Edge, before: Option<&Self>) -> anyhow::Result<Self> {
        let pace = config.over_plan_bytes_per_second;
        Ok(Self {
            trusted: NetworkSet::parse(&config.trusted_proxies).context("edge.trusted_proxies")?,
            balancers: NetworkSet::parse(&config.proxy_protocol_from).context("edge.proxy_protocol_from")?,
            http_mode: config.http_mode,
            paces: before.and_then(|before| before.paces.with_rate(pace)).unwrap_or_else(|| AccountPaces::new(pace)),
        })
    }
}
