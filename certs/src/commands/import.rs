//! `certs import`

use std::{fs::File, io::Read as _, path::Path};

use anyhow::Context as _;
use certs::{
    chain::CertificateChain,
    import::{self, ImportOutcome},
};
use config::Config;
use domain::Clock;

use super::{CommandOutcome, NO_DATABASE, database, master_key};

/// The limit of a file in bytes: far more than a chain or a key has.
const PEM_BYTES: u64 = 1024 * 1024;

pub(super) async fn run(config: &Config, chain: &Path, key: &Path) -> anyhow::Result<CommandOutcome> {
    let now = Clock::system().now();
    let master_key = master_key(config)?;
    let judged = CertificateChain::judge(&read(chain)?, &read(key)?, now).context("this certificate cannot be used")?;
    let db = database(config)?;
    let names = judged.names.join(", ");
    let said = match import::import(&db, &master_key, &judged, now).await.context(NO_DATABASE)? {
        ImportOutcome::Before => format!("the certificate for {names} was imported before; nothing has changed"),
        ImportOutcome::Now => format!(
            "stored the certificate for {names}, issued by {} and valid until {}; edges present it within half a \
             minute",
            judged.issuer, judged.not_after
        ),
    };
    let notes = judged.notes.iter().map(|note| format!("note: {note}"));
    Ok(CommandOutcome::success(std::iter::once(said).chain(notes).collect::<Vec<_>>().join("\n")))
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let opened = File::open(file).and_then(|opened| opened.take(PEM_BYTES + 1).read_to_end(&mut bytes));
    opened.with_context(|| format!("cannot read {}", file.display()))?;
    anyhow::ensure!(bytes.len() as u64 <= PEM_BYTES, "{} is too large to be a certificate or a key", file.display());
    Ok(bytes)
}
