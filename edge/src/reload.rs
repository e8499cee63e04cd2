//! Reloading the configuration on SIGHUP.
//!
//! Every replaceable part is built before any is replaced, so a rejected configuration changes nothing. Work in
//! progress keeps the settings that it started with. Start with [`Reload::run`].

use std::sync::Arc;

use anyhow::Context as _;
use config::{
    Config,
    reload::{Reloader, Settled},
};
use telemetry::reload::{Hangups, TakenOver};

use crate::{
    front::{self, Front},
    gateway,
    limits::Shares,
    listen::{Periods, Stop},
    platform::Upstreams,
};

/// The parts of an edge that adopt a reloaded configuration.
pub struct Reload {
    reloader: Reloader,
    front: Arc<Front>,
    stop: Stop,
    hangups: Hangups,
}

impl Reload {
    /// Listens for SIGHUP from now on, which would otherwise end the process.
    pub fn new(reloader: Reloader, front: Arc<Front>, stop: Stop) -> anyhow::Result<Self> {
        let hangups = Hangups::listen().context("SIGHUP cannot be heard")?;
        Ok(Self { reloader, front, stop, hangups })
    }

    /// Reloads the configuration at each signal, for as long as it is polled.
    pub async fn run(self) {
        let Self { mut reloader, front, stop, hangups } = self;
        let reload = move || {
            let Settled { changed, waiting, .. } =
                reloader.reload(|read, config| take_over(&front, &stop, read, &config))?;
            Ok(TakenOver { changed, waiting })
        };
        hangups.run(reload).await;
    }
}

fn take_over(front: &Front, stop: &Stop, read: &Config, config: &Config) -> anyhow::Result<()> {
    // Only checked: the value applies at the next start, which would refuse it if it is invalid.
    Shares::of(&read.edge)?;
    let settings = front::Settings::of(&config.edge, Some(&front.settings()))?;
    let of_gateway = gateway::Settings::of(config, Some(&front.gateway().settings()))?;
    let upstreams = Upstreams::parse(&config.edge.admin_upstreams).context("edge.admin_upstreams")?;
    // Nothing below fails.
    front.use_settings(settings);
    front.gateway().use_settings(of_gateway);
    front.platform().use_upstreams(upstreams);
    stop.use_periods(Periods::of(&config.edge));
    Ok(())
}
