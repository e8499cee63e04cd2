//! Builds a world: its programs, their configuration, and the servers that they need.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;
use url::Url;

use super::{
    Bucket, OPERATOR_SECRET, World,
    archived_postgres::ArchivedPostgres,
    moved_postgres::MovedPostgres,
    own_postgres::OwnPostgres,
    pooler::Pooler,
    ports,
    process::Process,
    redis_server::{RedisKind, form_cluster, set_clock_ahead, start_redis},
    request, start_admin,
    template::Template,
};
use crate::stubs::mollie::{self, Mollie};

/// The configuration of a world. The default is one edge, a folder store and a Redis without persistence.
#[derive(Default)]
pub struct Builder {
    edges: usize,
    bucket: bool,
    lasting_redis: bool,
    redis_nodes: usize,
    redis_ahead: Option<Duration>,
    postgres: PostgresKind,
    pooler: bool,
    env: Vec<(String, String)>,
    edge_settings: BTreeMap<usize, EdgeSettings>,
    admin_ahead: Option<i64>,
    other_admin: Option<u16>,
    /// Variables that stay unset.
    without: Vec<String>,
}

#[derive(Default)]
enum PostgresKind {
    /// The Postgres that all tests share.
    #[default]
    Shared,
    /// A dedicated one with a replica.
    WithCopy,
    /// One on a machine of its own.
    Moved,
    /// A dedicated one that archives its log.
    Archived,
}

/// The settings of a single edge.
#[derive(Default)]
pub(super) struct EdgeSettings {
    pub env: Vec<(String, String)>,
    /// How many seconds its clock is ahead.
    pub ahead: Option<i64>,
}

impl Builder {
    /// Sets the number of edges, one by default.
    pub fn edges(mut self, count: usize) -> Self {
        self.edges = count;
        self
    }

    /// Stores deployments in an S3 bucket instead of a folder.
    pub fn bucket(mut self) -> Self {
        self.bucket = true;
        self
    }

    /// Gives Redis an append-only file, as `make up` does, so that its data survive [`World::restart_redis`].
    pub fn lasting_redis(mut self) -> Self {
        self.lasting_redis = true;
        self
    }

    /// Sets Redis's clock ahead of the real one.
    pub fn redis_ahead(mut self, by: Duration) -> Self {
        self.redis_ahead = Some(by);
        self
    }

    pub fn redis_cluster(mut self) -> Self {
        self.redis_nodes = 3;
        self
    }

    /// Makes Redis a cluster of three nodes, each with a replica that takes over.
    pub fn redis_cluster_with_copies(mut self) -> Self {
        self.redis_nodes = 6;
        self
    }

    /// Gives the world a dedicated Postgres with a replica for [`World::fail_over`].
    pub fn own_postgres(mut self) -> Self {
        self.postgres = PostgresKind::WithCopy;
        self
    }

    /// Gives the world a Postgres on a machine of its own, for [`World::silence_postgres`] and
    /// [`World::move_postgres`].
    pub fn moved_postgres(mut self) -> Self {
        self.postgres = PostgresKind::Moved;
        self
    }

    /// Gives the world a dedicated Postgres that archives its log, for [`World::recover_postgres`].
    pub fn archived_postgres(mut self) -> Self {
        self.postgres = PostgresKind::Archived;
        self
    }

    /// Connects the programs to Postgres through a pooler in transaction mode.
    pub fn pooler(mut self) -> Self {
        self.pooler = true;
        self
    }

    /// Sets a configuration key, named like its environment variable without the leading `SVC__`.
    pub fn set(mut self, variable: &str, value: impl std::fmt::Display) -> Self {
        self.env.push((format!("SVC__{variable}"), value.to_string()));
        self
    }

    /// Leaves a default variable unset, for older programs that do not know it.
    #[must_use]
    pub fn without(mut self, variable: &str) -> Self {
        self.without.push(format!("SVC__{variable}"));
        self
    }

    /// Sets a configuration key of one edge, as [`Self::set`] does for all programs.
    pub fn set_at_edge(mut self, edge: usize, variable: &str, value: impl std::fmt::Display) -> Self {
        let settings = self.edge_settings.entry(edge).or_default();
        settings.env.push((format!("SVC__{variable}"), value.to_string()));
        self
    }

    /// Sets an edge's clock some seconds ahead of the real one.
    pub fn edge_ahead(mut self, edge: usize, seconds: i64) -> Self {
        self.edge_settings.entry(edge).or_default().ahead = Some(seconds);
        self
    }

    /// Sets admin's clock some seconds ahead of the real one.
    pub fn admin_ahead(mut self, seconds: i64) -> Self {
        self.admin_ahead = Some(seconds);
        self
    }

    /// Gives the edges a second admin, which [`World::start_admin_at`] starts.
    pub fn other_admin(mut self, port: u16) -> Self {
        self.other_admin = Some(port);
        self
    }

    /// Puts every account on one plan, generous except for these limits.
    pub fn plan(self, limits: &Value) -> Self {
        let mut all = json!({
            "orgs": 1_000_000, "members": 1_000_000, "projects": 1_000_000, "domains": 1_000_000, "ready_apps": 0,
            "bandwidth_bytes": 1_000_000_000_000_u64,
            "ai_credit_cents": 1_000, "storage_bytes": 1_000_000_000_000_u64, "deployments": 1_000, "shares": 1_000_000,
        });
        all.as_object_mut().unwrap().extend(limits.as_object().unwrap().clone());
        self.set("BILLING__PLANS", json!({ "free": { "name": "Free", "price_cents": 0, "limits": all } }))
    }

    /// Uses `mollie` for payments, with signed webhooks in addition to the classic ones.
    pub fn mollie(self, mollie: &Mollie) -> Self {
        self.mollie_at(&mollie.url).set("BILLING__MOLLIE_WEBHOOK_SECRET", mollie::WEBHOOK_SECRET)
    }

    /// Uses a payment provider that implements Mollie's API.
    pub fn mollie_at(self, url: &str) -> Self {
        self.seller()
            .set("BILLING__PROVIDER", "mollie")
            .set("BILLING__MOLLIE_URL", url)
            .set("BILLING__MOLLIE_API_KEY", mollie::API_KEY)
    }

    pub fn play_money(self) -> Self {
        self.seller().set("BILLING__PROVIDER", "play")
    }

    fn seller(self) -> Self {
        let seller = json!({
            "name": "Sites B.V.", "address": ["Keizersgracht 1"], "postcode": "1015 AA", "city": "Amsterdam",
            "vat_number": "NL123456789B01", "registration": "12345678", "email": "billing@sites.example",
        });
        self.set("BILLING__SELLER", seller)
    }

    /// Sets any other environment variable of the programs.
    pub fn variable(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.env.push((name.to_owned(), value.to_string()));
        self
    }

    /// Starts everything, and returns when admin and every edge respond.
    #[expect(clippy::too_many_lines, reason = "the settings of the programs, in one place")]
    pub async fn start(self) -> World {
        let template = Template::shared().await;
        let (database_name, database) = template.database().await;
        let folder = TempDir::with_prefix_in(format!("{}-", std::process::id()), &template.worlds).unwrap();
        std::fs::create_dir(folder.path().join("store")).unwrap();
        let (mut own_postgres, mut moved_postgres, mut archived) = (None, None, None);
        match self.postgres {
            PostgresKind::Shared => {}
            PostgresKind::WithCopy => own_postgres = Some(OwnPostgres::start(&database, folder.path()).await),
            PostgresKind::Moved => moved_postgres = Some(MovedPostgres::start(&database, folder.path()).await),
            PostgresKind::Archived => archived = Some(ArchivedPostgres::start(&database, folder.path()).await),
        }
        let database = own_postgres.as_ref().map_or(database, OwnPostgres::url);
        let database = moved_postgres.as_ref().map_or(database, MovedPostgres::url);
        let database = archived.as_ref().map_or(database, ArchivedPostgres::url);

        let pooler = if self.pooler { Some(Pooler::start(&database, true, folder.path()).await) } else { None };

        let (redis_port, admin_port) = (ports::free(), ports::free());
        let listeners: Vec<_> = (0..self.edges).map(|_| (ports::free(), ports::free())).collect();
        let public_port = listeners.first().map_or(8443, |(_, https)| *https);
        let here = |port: u16| format!("127.0.0.1:{port}");
        let redis_kind = match (self.redis_nodes, self.lasting_redis) {
            (1, false) => RedisKind::Forgetful,
            (1, true) => RedisKind::Lasting,
            _ => RedisKind::Node,
        };
        let more_nodes: Vec<u16> = (1..self.redis_nodes).map(|_| ports::free()).collect();
        let redis_url = match more_nodes.last() {
            // The client discovers the other nodes.
            Some(last) => format!("redis+cluster://{},{}", here(redis_port), here(*last)),
            None => format!("redis://{}", here(redis_port)),
        };
        let admins: Vec<String> = std::iter::once(admin_port).chain(self.other_admin).map(here).collect();
        let bucket = self.bucket.then(|| Bucket::start(&folder.path().join("bucket")));
        let mut env: Vec<(String, String)> = [
            ("POSTGRES__URL", database.to_string()),
            // Many worlds share one server.
            ("POSTGRES__MAX_CONNECTIONS", "6".to_owned()),
            ("REDIS__URL", redis_url.clone()),
            ("STORE__URL", Url::from_directory_path(folder.path().join("store")).unwrap().to_string()),
            ("ADMIN__LISTEN", here(admin_port)),
            ("EDGE__ADMIN_UPSTREAMS", admins.join(",")),
            ("EDGE__THREADS", "1".to_owned()),
            ("EDGE__SPOOL", folder.path().join("spool").display().to_string()),
            ("SITE__BASE_URL", format!("https://api.svc.localhost:{public_port}")),
            ("SITE__CONSOLE_URL", format!("https://app.svc.localhost:{public_port}")),
            ("SITE__AI_URL", format!("https://ai.svc.localhost:{public_port}")),
            // Domains are checked at the ports of this world.
            ("ACME__PROBE_HTTP_PORT", listeners.first().map_or(80, |(http, _)| *http).to_string()),
            ("ACME__PROBE_PORT", public_port.to_string()),
            // Do not contact the internet.
            ("STATS__AGENT_NETWORKS", "{}".to_owned()),
            ("STATS__AGENT_DIRECTORIES", "{}".to_owned()),
            // Tests inspect the database; `stats::held` makes edges hold traffic.
            ("STATS__SEND_SECONDS", "0".to_owned()),
            ("BILLING__VIES_URL", format!("http://{}", here(1))),
            ("CODE_HOST__KIND", "local".to_owned()),
            ("CODE_HOST__CLIENT_SECRET", OPERATOR_SECRET.to_owned()),
            ("SECRETS__MASTER_KEY_FILE", template.master_key.display().to_string()),
            // Tests of one limit must not run into another.
            ("LIMITS__API_PER_MIN", "1000000".to_owned()),
            ("LIMITS__API_ACCOUNT_PER_MIN", "1000000".to_owned()),
            // Nor depend on the state of the machine's disk.
            ("ADMIN__FREE_DISK_PERCENT", "0".to_owned()),
        ]
        .into_iter()
        // Edges of this version do not need the fixed proof.
        .chain(template.separates_edges().then(|| ("ADMIN__ACCEPT_FIXED_EDGE_PROOF", "false".to_owned())))
        .chain(bucket.iter().flat_map(Bucket::settings))
        .map(|(key, value)| (format!("SVC__{key}"), value))
        .collect();
        env.extend(
            [("SVC_LOG_FORMAT", "text"), ("NO_COLOR", "1")].map(|(key, value)| (key.to_owned(), value.to_owned())),
        );
        if let Some(pooler) = &pooler {
            let settings =
                [("URL", pooler.url().as_str()), ("POOLER", "transaction"), ("DIRECT_URL", database.as_str())]
                    .map(|(key, value)| (format!("SVC__POSTGRES__{key}"), value.to_owned()));
            env.extend(settings);
        }
        env.retain(|(name, _)| !self.without.contains(name));
        env.extend(self.env);

        if let Some(by) = self.redis_ahead {
            set_clock_ahead(redis_port, folder.path(), by);
        }
        let redis = start_redis(redis_port, folder.path(), redis_kind);
        let redis_nodes: Vec<(u16, Process)> =
            more_nodes.into_iter().map(|port| (port, start_redis(port, folder.path(), redis_kind))).collect();
        if !redis_nodes.is_empty() {
            form_cluster(std::iter::once(redis_port).chain(redis_nodes.iter().map(|(port, _)| *port))).await;
        }
        let admin = start_admin(folder.path(), &env, self.admin_ahead);
        let client = request::client().build().unwrap();
        let mut world = World {
            admin,
            edges: Vec::new(),
            redis,
            redis_port,
            admin_port,
            database,
            database_name,
            template,
            env,
            edge_settings: self.edge_settings,
            admin_ahead: self.admin_ahead,
            client,
            bucket,
            redis_kind,
            redis_url,
            redis_nodes,
            own_postgres,
            moved_postgres,
            archived_postgres: archived,
            _pooler: pooler,
            folder,
        };
        for (index, ports) in listeners.into_iter().enumerate() {
            let edge = world.start_edge(index, ports, &[]);
            world.edges.push(edge);
        }
        world.wait_until_ready().await;
        world
    }
}

impl World {
    pub fn builder() -> Builder {
        Builder { edges: 1, redis_nodes: 1, ..Builder::default() }
    }
}
