//! `certs list`

use anyhow::Context as _;
use certs::listing;
use config::Config;
use domain::Clock;

use super::{CommandOutcome, NO_DATABASE, database};

pub(super) async fn run(config: &Config, expiring: Option<u64>, json: bool) -> anyhow::Result<CommandOutcome> {
    let now = Clock::system().now();
    let rows = listing::rows(&database(config)?, expiring, now).await.context(NO_DATABASE)?;
    let is_good = expiring.is_none() || rows.is_empty();
    CommandOutcome::formatted(&rows, json, || listing::table(&rows, expiring), is_good)
}
