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
use tokio::{signal::unix::SignalKind, task::spawn_blocking};

use crate::{
    front::{self, Front},
    gateway,
    limits::Shares,
    listen::{Periods, Signals, Stop},
    platform::Upstreams,
};

/// The parts of an edge that take over a configuration.
pub struct Reload {
    reloader: Reloader,
    front: Arc<Front>,
    stop: Stop,
    hangups: Signals,
}

impl Reload {
    /// Hears of SIGHUP from now on, which would end the process otherwise.
    pub fn new(reloader: Reloader, front: Arc<Front>, stop: Stop) -> Self {
        Self { reloader, front, stop, hangups: Signals::of(SignalKind::hangup()) }
    }

    /// Reads the configuration at each signal, for as long as it is polled.
    pub async fn run(mut self) {
        loop {
            self.hangups.next().await;
            // Files are read.
            let reading = spawn_blocking(move || {
                let settled = self.reload();
                (self, settled)
            });
            let Ok((this, settled)) = reading.await else { return };
            self = this;
            match settled {
                Ok(Settled { changed, waiting, .. }) => telemetry::reload::taken_over(&changed, &waiting),
                Err(error) => telemetry::reload::refused(&error),
            }
        }
    }

    fn reload(&mut self) -> anyhow::Result<Settled> {
        let Self { reloader, front, stop, .. } = self;
        reloader.reload(|read, config| take_over(front, stop, read, &config))
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
