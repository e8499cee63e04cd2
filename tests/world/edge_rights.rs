//! What the edges of a world may do: their role in Postgres, their user in Redis, their keys for the bucket, and their key file. They
//! have nothing of admin's, so that whatever an edge lacks shows in the tests of what it does.

use std::collections::BTreeMap;

use live::acl;
use url::Url;

use super::{Bucket, World};

/// The role of edges, which all worlds at a Postgres share.
pub const EDGE_ROLE: &str = "svc_test_edge";
/// The user of edges in a world's Redis.
pub const EDGE_USER: &str = "svc-edge";
/// The password of both.
pub const EDGE_PASSWORD: &str = "password-of-edges-in-the-tests";

/// The arguments of `redis-server` that make the user of edges.
pub(super) fn redis_arguments() -> Vec<String> {
    let user = acl::edge_user(EDGE_USER, EDGE_PASSWORD);
    std::iter::once("--user").chain(user.split(' ')).map(str::to_owned).collect()
}

/// A database's URL for edges.
pub(super) fn postgres_url(of_admin: &str) -> String {
    let mut url: Url = of_admin.parse().unwrap();
    url.set_username(EDGE_ROLE).unwrap();
    url.set_password(Some(EDGE_PASSWORD)).unwrap();
    url.into()
}

/// A Redis's URL for edges; a cluster's as well.
pub fn redis_url(of_admin: &str) -> String {
    of_admin.replacen("://", &format!("://{EDGE_USER}:{EDGE_PASSWORD}@"), 1)
}

impl World {
    /// The URL of this world's database for edges.
    pub fn edge_database(&self) -> Url {
        postgres_url(self.database.as_str()).parse().unwrap()
    }

    /// The variables of this world's edges, without those of a single one.
    pub fn env_of_edges(&self) -> BTreeMap<String, String> {
        self.edge_env(&[])
    }

    /// The variables of an edge, of which `own` are its own. What a test has set to something of its own is left as it is, but for the
    /// role in Postgres.
    pub(super) fn edge_env(&self, own: &[(String, String)]) -> BTreeMap<String, String> {
        let mut env: BTreeMap<String, String> = self.env.iter().chain(own).cloned().collect();
        if !self.template.separates_edges() {
            return env;
        }
        for name in ["SVC__POSTGRES__URL", "SVC__POSTGRES__REPLICA_URL"] {
            if let Some(url) = env.get_mut(name) {
                *url = postgres_url(url);
            }
        }
        if let Some(url) = env.get_mut("SVC__REDIS__URL")
            && *url == self.redis_url
        {
            *url = redis_url(url);
        }
        if self.bucket.is_some() {
            env.extend(Bucket::reader().map(|(key, value)| (format!("SVC__{key}"), value.to_owned())));
        }
        if env["SVC__SECRETS__MASTER_KEY_FILE"] == self.template.master_key.display().to_string() {
            let key = env.entry("SVC__SECRETS__EDGE_KEY_FILE".to_owned());
            key.or_insert_with(|| self.template.edge_key.display().to_string());
            env.insert("SVC__SECRETS__MASTER_KEY_FILE".to_owned(), "/nonexistent/master.key".to_owned());
        }
        env
    }
}
