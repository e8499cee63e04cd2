//! `certs local-ca`

use std::path::Path;

use certs::local_ca::{self, LocalCa};
use config::Config;
use domain::Clock;

use super::{CommandOutcome, database, master_key};

pub(super) async fn run(config: &Config, dir: &Path, extra: &[String]) -> anyhow::Result<CommandOutcome> {
    let now = Clock::system().now();
    let master_key = master_key(config)?;
    let (names, extra) = (local_ca::names(&config.site), local_ca::hostnames(extra)?);
    let ca = LocalCa::open_or_create(dir, &names, &extra, now)?;
    let db = database(config)?;
    let mut said = Vec::new();
    // A separate certificate for each of the extra names, so that it does not reveal the others.
    for names in std::iter::once(names.as_slice()).chain(extra.chunks(1)) {
        let shown = names.join(", ");
        said.push(match local_ca::renew(&db, &master_key, &ca, names, now).await? {
            local_ca::RenewOutcome::Kept => format!("the certificate for {shown} is good for longer; kept it"),
            local_ca::RenewOutcome::Issued => {
                format!("stored a new certificate for {shown}; visitors must trust {}/ca.pem", dir.display())
            }
        });
    }
    Ok(CommandOutcome::success(said.join("\n")))
}
