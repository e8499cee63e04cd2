//! `[backup]`: where backups are kept, and how fast they are made.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use url::Url;

use super::Store;
use crate::ByteSize;

/// `[backup]`: where backups are kept, and how fast they are made.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Backup {
    /// `file:///folder` or `s3://bucket/prefix`, outside the store and on another machine. Commands accept another as
    /// an argument.
    pub url: Option<Url>,
    /// The S3 server's address; that of `[store]` when absent.
    pub endpoint: Option<String>,
    /// The S3 region; that of `[store]` when absent.
    pub region: Option<String>,
    /// The S3 access key; that of `[store]` when absent.
    pub access_key: Option<String>,
    /// The S3 secret key; that of `[store]` when absent.
    pub secret_key: Option<String>,
    /// The maximum copy rate, in bytes per second; 0 for no limit.
    pub bytes_per_second: ByteSize,
    /// The number of packs that are copied concurrently.
    pub packs_at_once: usize,
    /// The folder of `pg_dump` and `pg_restore`; when absent, they are searched for.
    pub postgres_programs: Option<PathBuf>,
}

impl Default for Backup {
    fn default() -> Self {
        Self {
            url: None,
            endpoint: None,
            region: None,
            access_key: None,
            secret_key: None,
            bytes_per_second: ByteSize(64 * 1024 * 1024),
            packs_at_once: 4,
            postgres_programs: None,
        }
    }
}

impl Backup {
    /// Returns `url` as a store configuration. Keys that this section leaves out are those of `[store]`.
    pub fn store_at(&self, url: Url, store: &Store) -> Store {
        let mut place = store.clone();
        place.url = url;
        let own = [
            (&self.endpoint, &mut place.endpoint),
            (&self.region, &mut place.region),
            (&self.access_key, &mut place.access_key),
            (&self.secret_key, &mut place.secret_key),
        ];
        for (own, used) in own {
            if own.is_some() {
                used.clone_from(own);
            }
        }
        place
    }
}
