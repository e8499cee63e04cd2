//! The rights of a world's edges: their role in Postgres, their user in Redis, their keys for the bucket, and their key
//! file. They share none of admin's, so that tests reveal any right that an edge lacks.

use std::collections::BTreeMap;

use live::acl;
use url::Url;

use super::{Bucket, World};

/// The Postgres role of edges, which all worlds on a server share.
pub const EDGE_ROLE: &str = "svc_test_edge";
/// The user of edges in a world's Redis.
pub const EDGE_USER: &str = "svc-edge";
/// The password of both.
pub const EDGE_PASSWORD: &str = "password-of-edges-in-the-tests";

/// Returns the arguments of `redis-server` that create the user of edges.
pub(super) fn redis_arguments() -> Vec<String> {
    let user = acl::edge_user(EDGE_USER, EDGE_PASSWORD);
    std::iter::once("--user").chain(user.split(' ')).map(str::to_owned).collect()
}

/// Returns a database's URL for edges.
pub(super) fn postgres_url(of_admin: &str) -> String {
    let mut url: Url = of_admin.parse().unwrap();
    url.set_username(EDGE_ROLE).unwrap();
    url.set_password(Some(EDGE_PASSWORD)).unwrap();
    url.into()
}

/// Returns the URL for edges of a Redis or a Redis cluster.
pub fn redis_url(of_admin: &str) -> String {
    of_admin.replacen("://", &format!("://{EDGE_USER}:{EDGE_PASSWORD}@"), 1)
}

impl World {
    pub fn edge_database(&self) -> Url {
        postgres_url(self.database.as_str()).parse().unwrap()
    }

    /// Returns the variables that all edges of this world share.
    pub fn env_of_edges(&self) -> BTreeMap<String, String> {
        self.edge_env(&[])
    }

    /// Returns the variables of an edge, including its `own`. Values set by a test are kept, except the Postgres role.
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
