//! Reading the configuration again, when SIGHUP asks for it.
//!
//! Everything that can be replaced is made before anything is: a configuration that is refused changes nothing. What has begun goes on
//! with what it began with. Start with [`Reload::run`].

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

/// The parts of an edge that take over a configuration.
pub struct Reload {
    reloader: Reloader,
    front: Arc<Front>,
    stop: Stop,
    hangups: Hangups,
}

impl Reload {
    /// Hears of SIGHUP from now on, which would end the process otherwise.
    pub fn new(reloader: Reloader, front: Arc<Front>, stop: Stop) -> anyhow::Result<Self> {
        let hangups = Hangups::listen().context("SIGHUP cannot be heard")?;
        Ok(Self { reloader, front, stop, hangups })
    }

    /// Reads the configuration at each signal, for as long as it is polled.
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
    // Waits for the next start, which would refuse it.
    Shares::of(&read.edge)?;
    let settings = front::Settings::of(&config.edge, Some(&front.settings()))?;
    let of_gateway = gateway::Settings::of(config, Some(&front.gateway().settings()))?;
    let upstreams = Upstreams::parse(&config.edge.admin_upstreams).context("edge.admin_upstreams")?;
    // From here on nothing fails.
    front.use_settings(settings);
    front.gateway().use_settings(of_gateway);
    front.platform().use_upstreams(upstreams);
    stop.use_periods(Periods::of(&config.edge));
    Ok(())
}
