//! `[store]`: where deployment packs are kept.

use serde::{Deserialize, Serialize};
use url::Url;

use super::url;
use crate::ByteSize;

/// `[store]`: where deployment packs are kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Store {
    /// `file:///folder` or `s3://bucket/prefix`.
    pub url: Url,
    /// The S3 server's address; AWS when absent.
    pub endpoint: Option<String>,
    /// The S3 region.
    pub region: Option<String>,
    /// The S3 access key.
    pub access_key: Option<String>,
    /// The S3 secret key.
    pub secret_key: Option<String>,
    /// The name of the database that owns the store, when this database is to take it over: admin then names the store
    /// after its own database, once. Every program refuses a store of another database, and its message names that
    /// database; `unnamed` stands for a store that has no name and does not look like this database's. The key has no
    /// effect for any other name, nor after the store was taken over.
    pub take_over_from: Option<String>,
    /// The number of days that a removed pack stays in the store's trash before it is deleted permanently; with 0, what
    /// people delete is gone within minutes. Packs that the sweep found without a record stay for at least 7 days.
    pub trash_days: u32,
    /// A second store, in the same form as `url`. Admin copies each pack to it, edges read from it what the first store
    /// has lost or damaged, and `admin store check --repair` restores that from it. It should be on other disks, or in
    /// another place.
    pub replica_url: Option<Url>,
    /// The address of the replica's S3 server, in the same form as `endpoint`.
    pub replica_endpoint: Option<String>,
    /// The replica's S3 region.
    pub replica_region: Option<String>,
    /// The replica's S3 access key.
    pub replica_access_key: Option<String>,
    /// The replica's S3 secret key.
    pub replica_secret_key: Option<String>,
    /// The number of days in which admin reads every pack once, live sites first, to find damage; never when 0.
    pub check_days: u32,
    /// The maximum rate of this check, in bytes per second. It reads more slowly when `check_days` leaves time for it.
    pub check_bytes_per_second: ByteSize,
}

impl Store {
    /// Returns the configuration of the replica as a store, if there is one.
    pub fn replica(&self) -> Option<Self> {
        Some(Self {
            url: self.replica_url.clone()?,
            endpoint: self.replica_endpoint.clone(),
            region: self.replica_region.clone(),
            access_key: self.replica_access_key.clone(),
            secret_key: self.replica_secret_key.clone(),
            ..Self::default()
        })
    }
}

impl Default for Store {
    fn default() -> Self {
        Self {
            url: url("file:///var/lib/svc/store"),
            endpoint: None,
            region: None,
            access_key: None,
            secret_key: None,
            take_over_from: None,
            trash_days: 7,
            replica_url: None,
            replica_endpoint: None,
            replica_region: None,
            replica_access_key: None,
            replica_secret_key: None,
            check_days: 30,
            check_bytes_per_second: ByteSize(20 << 20),
        }
    }
}
