//! A world of its own for a test: a real Postgres database, a real Redis, a real admin and real edges, with their own
//! folder store, certificate and master key. It ends with the test.
//!
//! Start with [`World::start`]. How many worlds there are at once is up to `--test-threads`: one a core by default.

pub mod actor;
pub mod answer;
pub mod browser;
pub mod bucket;
pub mod domain;
pub mod edge;
pub mod form;
pub mod frames;
pub mod mailbox;
pub mod org;
pub mod person;
pub mod ports;
pub mod process;
pub mod request;
pub mod site;
pub mod socket;
mod template;
pub mod tools;

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use reqwest::Client;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tempfile::TempDir;
use url::Url;

pub use self::{actor::Actor, bucket::Bucket, edge::Edge, site::Site};
use self::{
    process::{Process, program},
    template::Template,
};

/// What the local code host's sign-in page asks for.
pub const OPERATOR_SECRET: &str = "operator-secret-of-the-tests";
/// How long a program may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(30);

static WORLDS: AtomicU32 = AtomicU32::new(0);

/// Everything a test acts upon.
pub struct World {
    pub admin: Process,
    pub edges: Vec<Edge>,
    pub redis: Process,
    pub redis_port: u16,
    pub admin_port: u16,
    /// The database's URL.
    pub database: Url,
    database_name: String,
    template: &'static Template,
    env: Vec<(String, String)>,
    client: Client,
    bucket: Option<Bucket>,
    redis_kind: RedisKind,
    /// The other nodes, when Redis is a cluster.
    redis_nodes: Vec<(u16, Process)>,
    folder: TempDir,
}

/// How a world differs from the usual one.
pub struct Builder {
    edges: usize,
    bucket: bool,
    lasting_redis: bool,
    redis_nodes: usize,
    env: Vec<(String, String)>,
}

impl Builder {
    /// So many edges; one otherwise.
    pub fn edges(mut self, count: usize) -> Self {
        self.edges = count;
        self
    }

    /// Deployments are kept in an S3 bucket instead of a folder.
    pub fn bucket(mut self) -> Self {
        self.bucket = true;
        self
    }

    /// Redis writes down what it is told, as `make up` has it, and knows it again after [`World::restart_redis`].
    pub fn lasting_redis(mut self) -> Self {
        self.lasting_redis = true;
        self
    }

    /// Redis is a cluster of three nodes.
    pub fn redis_cluster(mut self) -> Self {
        self.redis_nodes = 3;
        self
    }

    /// A configuration key, as its environment variable has it.
    pub fn set(mut self, variable: &str, value: impl std::fmt::Display) -> Self {
        self.env.push((format!("SVC__{variable}"), value.to_string()));
        self
    }

    /// A variable of the programs' environment that is none of ours.
    pub fn variable(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.env.push((name.to_owned(), value.to_string()));
        self
    }

    /// The world, ready.
    pub async fn start(self) -> World {
        let template = Template::shared().await;
        let number = WORLDS.fetch_add(1, Ordering::Relaxed);
        let (database_name, database) = template.database(number).await;
        let folder = TempDir::with_prefix_in(format!("{number}-"), &template.folder).unwrap();
        std::fs::create_dir(folder.path().join("store")).unwrap();

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
            // The program finds out about the others.
            Some(last) => format!("redis+cluster://{},{}", here(redis_port), here(*last)),
            None => format!("redis://{}", here(redis_port)),
        };
        let bucket = self.bucket.then(|| Bucket::start(&folder.path().join("bucket")));
        let mut env: Vec<(String, String)> = [
            ("POSTGRES__URL", database.to_string()),
            // Many worlds share one server.
            ("POSTGRES__MAX_CONNECTIONS", "6".to_owned()),
            ("REDIS__URL", redis_url),
            ("STORE__URL", Url::from_directory_path(folder.path().join("store")).unwrap().to_string()),
            ("ADMIN__LISTEN", here(admin_port)),
            ("EDGE__ADMIN_UPSTREAMS", here(admin_port)),
            ("EDGE__THREADS", "1".to_owned()),
            ("EDGE__SPOOL", folder.path().join("spool").display().to_string()),
            ("SITE__BASE_URL", format!("https://api.svc.localhost:{public_port}")),
            ("SITE__CONSOLE_URL", format!("https://app.svc.localhost:{public_port}")),
            ("SITE__AI_URL", format!("https://ai.svc.localhost:{public_port}")),
            ("CODE_HOST__KIND", "local".to_owned()),
            ("CODE_HOST__CLIENT_SECRET", OPERATOR_SECRET.to_owned()),
            ("SECRETS__MASTER_KEY_FILE", template.master_key.display().to_string()),
            // Tests of one limit must not run into another.
            ("LIMITS__API_PER_MIN", "1000000".to_owned()),
        ]
        .into_iter()
        .chain(bucket.iter().flat_map(Bucket::settings))
        .map(|(key, value)| (format!("SVC__{key}"), value))
        .collect();
        env.extend(
            [("SVC_LOG_FORMAT", "text"), ("NO_COLOR", "1")].map(|(key, value)| (key.to_owned(), value.to_owned())),
        );
        env.extend(self.env);

        let redis = start_redis(redis_port, folder.path(), redis_kind);
        let redis_nodes: Vec<(u16, Process)> =
            more_nodes.into_iter().map(|port| (port, start_redis(port, folder.path(), redis_kind))).collect();
        if !redis_nodes.is_empty() {
            form_cluster(std::iter::once(redis_port).chain(redis_nodes.iter().map(|(port, _)| *port))).await;
        }
        let admin = start_admin(folder.path(), &env);
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
            client,
            bucket,
            redis_kind,
            redis_nodes,
            folder,
        };
        for (http_port, https_port) in listeners {
            let edge = world.start_edge(http_port, https_port);
            world.edges.push(edge);
        }
        world.wait_until_ready().await;
        world
    }
}

impl World {
    /// A world with one edge and the usual configuration.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// A world to be described.
    pub fn builder() -> Builder {
        Builder { edges: 1, bucket: false, lasting_redis: false, redis_nodes: 1, env: Vec::new() }
    }

    /// Someone without a token, at the API.
    pub fn nobody(&self) -> Actor {
        let base = format!("http://api.svc.localhost:{}", self.admin_port);
        Actor { client: self.client.clone(), base, token: None }
    }

    /// A person with a `cli` token of theirs.
    pub async fn user(&self, login: &str) -> Actor {
        let mut command = tokio::process::Command::new(program("admin"));
        command.args(["issue-token", "--login", login]).envs(self.env.iter().cloned());
        let output = command.output().await.unwrap();
        let token = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "issue-token: {}", String::from_utf8_lossy(&output.stderr));
        self.nobody().with_token(token.trim())
    }

    /// The key file that worlds share.
    pub async fn master_key() -> &'static Path {
        &Template::shared().await.master_key
    }

    /// The first edge.
    pub fn edge(&self) -> &Edge {
        &self.edges[0]
    }

    /// The port that public URLs carry.
    pub fn public_port(&self) -> u16 {
        self.edges[0].https_port
    }

    /// A project's address.
    pub fn site_url(&self, project: &str) -> String {
        format!("https://{project}.svc.localhost:{}", self.public_port())
    }

    /// The local CA's certificate.
    pub fn ca(&self) -> &Path {
        &self.template.ca
    }

    /// A folder of this world's own.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The bucket of a world that has one.
    pub fn bucket(&self) -> &Bucket {
        self.bucket.as_ref().unwrap()
    }

    /// The same, to take it away.
    pub fn bucket_mut(&mut self) -> &mut Bucket {
        self.bucket.as_mut().unwrap()
    }

    /// Every file of the store, sorted.
    pub fn stored_files(&self) -> Vec<PathBuf> {
        let mut files = bucket::files_below(&self.folder.path().join("store"));
        files.sort();
        files
    }

    /// Runs SQL behind the program's back: what time, an operator or a later part would have done.
    pub async fn sql(&self, sql: &str) {
        let mut connection = PgConnection::connect(self.database.as_str()).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    /// The same, where the database may refuse it: what it says then.
    pub async fn try_sql(&self, sql: &str) -> Result<(), String> {
        let mut connection = PgConnection::connect(self.database.as_str()).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.map(drop).map_err(|e| e.to_string())
    }

    /// The number a query gives.
    pub async fn sql_number(&self, sql: &str) -> i64 {
        let mut connection = PgConnection::connect(self.database.as_str()).await.unwrap();
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut connection).await.unwrap_or_else(|e| panic!("{sql}: {e}"))
    }

    /// The text a query gives.
    pub async fn sql_text(&self, sql: &str) -> String {
        let mut connection = PgConnection::connect(self.database.as_str()).await.unwrap();
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut connection).await.unwrap_or_else(|e| panic!("{sql}: {e}"))
    }

    /// The number a Redis command gives; none while Redis is away.
    pub async fn redis_number(&self, name: &str, arguments: &[&str]) -> Option<i64> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.redis_port)).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.ok()?;
        redis::cmd(name).arg(arguments).query_async(&mut connection).await.ok()
    }

    /// A Redis command.
    pub async fn redis_command(&self, name: &str) {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.redis_port)).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        redis::cmd(name).query_async::<redis::Value>(&mut connection).await.unwrap();
    }

    /// Starts Redis again after it was killed, empty unless it is a lasting one.
    pub fn restart_redis(&mut self) {
        self.redis = start_redis(self.redis_port, self.folder.path(), self.redis_kind);
    }

    /// Kills a node of a Redis that is a cluster, and starts it again, empty. The first is [`Self::redis`].
    pub async fn restart_redis_node(&mut self, index: usize, after: Duration) {
        let (port, process) = &mut self.redis_nodes[index - 1];
        process.kill();
        tokio::time::sleep(after).await;
        *process = start_redis(*port, self.folder.path(), self.redis_kind);
    }

    /// What Redis saves is here.
    pub fn redis_folder(&self) -> PathBuf {
        self.folder.path().join(format!("redis-{}", self.redis_port))
    }

    /// The ports of all nodes of a Redis that is a cluster.
    pub fn redis_ports(&self) -> impl Iterator<Item = u16> {
        std::iter::once(self.redis_port).chain(self.redis_nodes.iter().map(|(port, _)| *port))
    }

    /// Takes Postgres away: no connection to this world's database is possible any more.
    pub async fn stop_postgres(&self) {
        self.server_sql(&format!(
            "ALTER DATABASE {0} ALLOW_CONNECTIONS false; \
             SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{0}'",
            self.database_name
        ))
        .await;
    }

    /// Gives it back.
    pub async fn start_postgres(&self) {
        self.server_sql(&format!("ALTER DATABASE {} ALLOW_CONNECTIONS true", self.database_name)).await;
    }

    async fn server_sql(&self, sql: &str) {
        self.template.server_sql(sql).await;
    }

    fn start_edge(&self, http_port: u16, https_port: u16) -> Edge {
        let mut command = Command::new(program("edge"));
        command
            .envs(self.env.iter().cloned())
            .env("SVC__EDGE__LISTEN_HTTP", format!("127.0.0.1:{http_port}"))
            .env("SVC__EDGE__LISTEN_HTTPS", format!("127.0.0.1:{https_port}"));
        let name = format!("edge-{}", self.edges.len());
        let ca = reqwest::Certificate::from_pem(&std::fs::read(self.ca()).unwrap()).unwrap();
        let browser = || request::client().tls_certs_only([ca.clone()]);
        Edge {
            process: Process::start(&name, self.folder.path(), &command),
            http_port,
            https_port,
            browser: browser().build().unwrap(),
            old_browser: browser().http1_only().build().unwrap(),
            ca: ca.clone(),
        }
    }

    /// Starts admin again after a crash a day ago: every background job is due.
    pub async fn restart_admin_later(&mut self) {
        self.admin.kill();
        self.sql("UPDATE job_leases SET last_run_at = last_run_at - interval '1 day'").await;
        self.admin = start_admin(self.folder.path(), &self.env);
        self.wait_until_ready().await;
    }

    /// Starts an edge again that was killed, at the same ports.
    pub async fn restart_edge(&mut self, index: usize) {
        let (http_port, https_port) = (self.edges[index].http_port, self.edges[index].https_port);
        self.edges[index] = self.start_edge(http_port, https_port);
        self.wait_until_ready().await;
    }

    /// Until admin answers, and answers through every edge.
    pub async fn wait_until_ready(&mut self) {
        let api = self.nobody();
        eventually(READY_WITHIN, "admin is ready", async || {
            api.get("/health").attempt().await.is_ok_and(|answer| answer.status == 200)
        })
        .await;
        for edge in &self.edges {
            eventually(READY_WITHIN, "an edge is ready", async || {
                let visit = edge.get("https://api.svc.localhost/health").attempt().await;
                visit.is_ok_and(|answer| answer.status == 200)
            })
            .await;
        }
    }
}

/// Waits for what happens by itself in the background; `within` bounds a hang, it asserts no speed.
#[track_caller]
pub fn eventually(within: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) -> impl Future<Output = ()> {
    let what = what.to_owned();
    let caller = std::panic::Location::caller();
    async move {
        let waiting = async {
            while !holds().await {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let held = tokio::time::timeout(within, waiting).await.is_ok();
        assert!(held, "{caller}: not within {within:?}: {what}");
    }
}

fn start_admin(folder: &Path, env: &[(String, String)]) -> Process {
    Process::start("admin", folder, Command::new(program("admin")).envs(env.iter().cloned()))
}

#[derive(Debug, Clone, Copy)]
enum RedisKind {
    /// Empty after each start.
    Forgetful,
    /// With an append-only file.
    Lasting,
    /// Of a cluster; empty after each start, but for its place in it.
    Node,
}

fn start_redis(port: u16, folder: &Path, kind: RedisKind) -> Process {
    let folder = folder.join(format!("redis-{port}"));
    std::fs::create_dir_all(&folder).unwrap();
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--save", "", "--port"]).arg(port.to_string()).arg("--dir").arg(&folder);
    match kind {
        RedisKind::Forgetful => command.args(["--appendonly", "no"]),
        RedisKind::Lasting => command.args(["--appendonly", "yes", "--appendfsync", "everysec"]),
        RedisKind::Node => {
            // The usual one, ten thousand above, may be somebody else's. The others know the node by it.
            let known = folder.join("bus-port");
            let bus = std::fs::read_to_string(&known).unwrap_or_else(|_| ports::free().to_string());
            std::fs::write(&known, &bus).unwrap();
            command.args(["--appendonly", "no", "--cluster-enabled", "yes", "--cluster-node-timeout", "2000"]);
            command.arg("--cluster-port").arg(bus)
        }
    };
    Process::start("redis", &folder, &command)
}

/// Makes one cluster of the nodes at these ports, without copies.
async fn form_cluster(ports: impl Iterator<Item = u16>) {
    let nodes: Vec<String> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
    let form = || {
        let mut command = Command::new("redis-cli");
        command.args(["--cluster", "create"]).args(&nodes).args(["--cluster-replicas", "0", "--cluster-yes"]);
        command.stdin(std::process::Stdio::null()).output().is_ok_and(|output| output.status.success())
    };
    eventually(READY_WITHIN, "the nodes form a cluster", async || {
        let listens = async |node: &String| tokio::net::TcpStream::connect(node.as_str()).await.is_ok();
        for node in &nodes {
            if !listens(node).await {
                return false;
            }
        }
        form()
    })
    .await;
}

impl Drop for World {
    fn drop(&mut self) {
        let programs = || std::iter::once(&self.admin).chain(self.edges.iter().map(|edge| &edge.process));
        let failed = std::thread::panicking();
        let panics: Vec<_> = programs().filter(|program| program.log().contains("panicked at")).collect();
        if failed || !panics.is_empty() {
            let logs: String = programs().map(Process::log_tail).collect();
            print_logs(&logs);
        }
        let panicked = !panics.is_empty();
        self.admin.kill();
        self.edges.clear();
        let (template, database) = (self.template, self.database_name.clone());
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(template.drop_database(&database));
        });
        let _ = dropping.join();
        assert!(failed || !panicked, "a program panicked; its log is above");
    }
}

#[expect(clippy::print_stderr, reason = "the logs of a failed test belong into its output")]
fn print_logs(logs: &str) {
    eprintln!("{logs}");
}
