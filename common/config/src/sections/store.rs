//! `[store]`: where deployment packs are kept.

use serde::{Deserialize, Serialize};
use url::Url;

use super::url;

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
    /// The name of the database that the store belongs to, when this one is to take it over: admin then names the store after its own
    /// database, once. Every program refuses a store of another database, and its message says that one's name; `unnamed` stands for
    /// a store without a name that does not look like this database's. The key has no effect for any other name, nor afterwards.
    pub take_over_from: Option<String>,
    /// The days for which a removed pack stays in the store's trash before it is deleted for good; 0 deletes what people have
    /// deleted within minutes. Packs that the sweep has found without a record stay for 7 days at least.
    pub trash_days: u32,
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
        }
    }
}
