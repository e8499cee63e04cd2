//! Stores a certificate that an operator provides.

use db::certificates::{self, NewCertificate};
use domain::{Timestamp, certificates::CertificateSource};
use secrets::MasterKey;
use sqlx::PgPool;

use crate::chain::CertificateChain;

/// The outcome of [`import`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportOutcome {
    /// This chain and key were already stored.
    Before,
    /// The certificate was stored; edges present it from now on.
    Now,
}

/// Stores `chain` with its key sealed. Repeating it changes nothing, so that a renewal hook can call it at every run.
pub async fn import(
    db: &PgPool,
    master_key: &MasterKey,
    chain: &CertificateChain,
    now: Timestamp,
) -> Result<ImportOutcome, sqlx::Error> {
    if let Some(stored) = certificates::find_covering(db, &chain.names, now).await? {
        let opens = stored.open_key(master_key).is_ok_and(|key| key == chain.key_pem.as_bytes());
        if stored.chain_pem == chain.chain_pem && opens {
            return Ok(ImportOutcome::Before);
        }
    }
    let certificate = NewCertificate {
        names: &chain.names,
        chain_pem: &chain.chain_pem,
        key_pem: &chain.key_pem,
        not_before: chain.not_before,
        not_after: chain.not_after,
        source: CertificateSource::Import,
        account: None,
    };
    let mut tx = db.begin().await?;
    certificates::store(&mut tx, master_key, &certificate, now).await?;
    tx.commit().await?;
    Ok(ImportOutcome::Now)
}
