//! Reloading the configuration on SIGHUP.
//!
//! Every replaceable part is built before any is replaced, so a rejected configuration changes nothing. Work in
//! progress keeps the settings that it started with. Start with [`ConfigReload::run`].

use std::sync::Arc;

use anyhow::Context as _;
use config::{
    Config,
    reload::{ReloadOutcome, Reloader},
};
use front::HostRouter;
use limits::MemoryShares;
use listen::{ShutdownController, ShutdownPeriods};
use platform::AdminUpstreams;
use telemetry::reload::{HangupSignals, ReloadedKeys};

/// The parts of an edge that adopt a reloaded configuration.
pub struct ConfigReload {
    reloader: Reloader,
    front: Arc<HostRouter>,
    stop: ShutdownController,
    hangups: HangupSignals,
}

impl ConfigReload {
    /// Listens for SIGHUP from now on, which would otherwise end the process.
    pub fn new(reloader: Reloader, front: Arc<HostRouter>, stop: ShutdownController) -> anyhow::Result<Self> {
        let hangups = HangupSignals::listen().context("SIGHUP cannot be heard")?;
        Ok(Self { reloader, front, stop, hangups })
    }

    /// Reloads the configuration at each signal, for as long as it is polled.
    pub async fn run(self) {
        let Self { mut reloader, front, stop, hangups } = self;
        let reload = move || {
            let ReloadOutcome { changed, waiting, .. } =
                reloader.reload(|read, config| take_over(&front, &stop, read, &config))?;
            Ok(ReloadedKeys { changed, waiting })
        };
        hangups.run(reload).await;
    }
}

fn take_over(front: &HostRouter, stop: &ShutdownController, read: &Config, config: &Config) -> anyhow::Result<()> {
    // Only checked: the value applies at the next start, which would refuse it if it is invalid.
    MemoryShares::from_config(&read.edge)?;
    let settings = front::FrontSettings::from_config(&config.edge, Some(&front.settings()))?;
    let of_gateway = gateway::GatewaySettings::from_config(config, Some(&front.gateway().settings()))?;
    let upstreams = AdminUpstreams::parse(&config.edge.admin_upstreams).context("edge.admin_upstreams")?;
    // Nothing below fails.
    front.use_settings(settings);
    front.gateway().replace_settings(of_gateway);
    front.platform().use_upstreams(upstreams);
    stop.use_periods(ShutdownPeriods::from_config(&config.edge));
    Ok(())
}
