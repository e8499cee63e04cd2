//! The [`World`] of a test: its own Postgres database, Redis, admin and edges, all of them the real programs, with a
//! folder store, a certificate and a master key. It ends with the test.
//!
//! Start with [`World::start`]. The test runner decides how many worlds run concurrently: by default one per core.

pub mod actor;
pub mod answer;
mod archived_postgres;
pub mod authority;
pub mod bind;
pub mod browser;
pub mod bucket;
mod builder;
mod contract;
mod disaster;
pub mod domain;
pub mod dump;
pub mod edge;
pub mod edge_rights;
pub mod events;
pub mod form;
pub mod frames;
pub mod machine;
pub mod mailbox;
mod moved_postgres;
pub mod name_server;
pub mod org;
mod own_postgres;
pub mod pebble;
pub mod person;
mod pooler;
pub mod ports;
pub mod process;
mod redis_server;
pub mod request;
pub mod site;
pub mod socket;
mod template;
pub mod tls_server;
pub mod tools;
mod traces;
mod wait;
mod wrong_clock;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use reqwest::Client;
use secrets::EdgeKey;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tempfile::TempDir;
use url::Url;

pub use self::{
    actor::Actor,
    bucket::Bucket,
    builder::Builder,
    edge::Edge,
    site::Site,
    wait::{eventually, holds_within},
};
use self::{
    archived_postgres::ArchivedPostgres,
    builder::EdgeSettings,
    moved_postgres::MovedPostgres,
    own_postgres::OwnPostgres,
    pooler::Pooler,
    process::{Process, program},
    redis_server::RedisKind,
    template::Template,
};

/// The secret that the local code host's sign-in page asks for.
pub const OPERATOR_SECRET: &str = "operator-secret-of-the-tests";
/// The maximum time until a program is ready.
const READY_WITHIN: Duration = Duration::from_secs(30);

pub struct World {
    pub admin: Process,
    pub edges: Vec<Edge>,
    pub redis: Process,
    pub redis_port: u16,
    pub admin_port: u16,
    pub database: Url,
    database_name: String,
    template: &'static Template,
    env: Vec<(String, String)>,
    edge_settings: BTreeMap<usize, EdgeSettings>,
    admin_ahead: Option<i64>,
    client: Client,
    bucket: Option<Bucket>,
    redis_kind: RedisKind,
    /// Redis's URL for admin.
    redis_url: String,
    /// The other nodes, if Redis is a cluster.
    redis_nodes: Vec<(u16, Process)>,
    own_postgres: Option<OwnPostgres>,
    moved_postgres: Option<MovedPostgres>,
    archived_postgres: Option<ArchivedPostgres>,
    _pooler: Option<Pooler>,
    folder: TempDir,
}

impl World {
    /// Starts a world with one edge and the default configuration.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// Returns a caller of the API without a token.
    pub fn nobody(&self) -> Actor {
        let base = format!("http://api.svc.localhost:{}", self.admin_port);
        let template = self.template;
        let key = if template.separates_edges() { &template.edge_key } else { &template.master_key };
        let edge_key = EdgeKey::load(key).unwrap();
        Actor { client: self.client.clone(), base, edge_key, address: None, token: None }
    }

    /// Returns a person with a `cli` token. The account is created if it does not exist yet.
    pub async fn user(&self, login: &str) -> Actor {
        let token = self.admin_prints(&["issue-token", "--login", login]).await;
        self.nobody().with_token(token.trim())
    }

    pub async fn admin_prints(&self, arguments: &[&str]) -> String {
        let output = self.operate(arguments).await;
        assert!(output.status.success(), "admin {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs `admin` with these arguments, as an operator does on the machine.
    pub async fn operate(&self, arguments: &[&str]) -> std::process::Output {
        let mut command = tokio::process::Command::new(program("admin"));
        command.args(arguments).envs(self.env.iter().cloned()).output().await.unwrap()
    }

    /// Returns the master key file that all worlds share unless configured otherwise.
    pub async fn master_key() -> &'static Path {
        &Template::shared().await.master_key
    }

    /// Returns the key file of edges that all worlds share.
    pub fn edge_key(&self) -> &Path {
        &self.template.edge_key
    }

    /// Returns the folder of the local CA that all worlds share.
    pub async fn ca_folder() -> &'static Path {
        Template::shared().await.ca.parent().unwrap()
    }

    pub fn edge(&self) -> &Edge {
        &self.edges[0]
    }

    pub fn public_port(&self) -> u16 {
        self.edges[0].https_port
    }

    pub fn site_url(&self, project: &str) -> String {
        format!("https://{project}.svc.localhost:{}", self.public_port())
    }

    pub fn ca(&self) -> &Path {
        &self.template.ca
    }

    /// Returns the folder of this world, which is removed with it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn bucket(&self) -> &Bucket {
        self.bucket.as_ref().unwrap()
    }

    pub fn bucket_mut(&mut self) -> &mut Bucket {
        self.bucket.as_mut().unwrap()
    }

    /// Returns the sorted paths of all pack files in the folder store, except those in the trash.
    pub fn stored_files(&self) -> Vec<PathBuf> {
        let packs = self.folder_of_packs();
        let mut files = if packs.exists() { bucket::files_below(&packs) } else { Vec::new() };
        files.sort();
        files
    }

    /// Returns the folder of the packs, if the store is a folder.
    pub fn folder_of_packs(&self) -> PathBuf {
        self.folder.path().join("store/deployments")
    }

    /// Returns the file with the name of the database that owns the store.
    pub fn store_name_file(&self) -> PathBuf {
        let root = match &self.bucket {
            None => self.folder.path().join("store"),
            Some(_) => self.folder.path().join("bucket/packs/a/prefix"),
        };
        root.join("database.json")
    }

    /// Runs SQL on the world's database, to simulate elapsed time or an operator.
    pub async fn sql(&self, sql: &str) {
        let mut connection = PgConnection::connect(self.database.as_str()).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    /// Runs SQL on the world's database. Returns the database's message if it fails.
    pub async fn try_sql(&self, sql: &str) -> Result<(), String> {
        let mut connection = PgConnection::connect(self.database.as_str()).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.map(drop).map_err(|e| e.to_string())
    }

    pub async fn sql_number(&self, sql: &str) -> i64 {
        let mut connection = PgConnection::connect(self.database.as_str()).await.unwrap();
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut connection).await.unwrap_or_else(|e| panic!("{sql}: {e}"))
    }

    pub async fn sql_text(&self, sql: &str) -> String {
        let mut connection = PgConnection::connect(self.database.as_str()).await.unwrap();
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut connection).await.unwrap_or_else(|e| panic!("{sql}: {e}"))
    }

    /// Makes Postgres unavailable: connections to this world's database fail.
    pub async fn stop_postgres(&self) {
        self.server_sql(&format!(
            "ALTER DATABASE {0} ALLOW_CONNECTIONS false; \
             SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{0}'",
            self.database_name
        ))
        .await;
    }

    /// Ends [`Self::stop_postgres`].
    pub async fn start_postgres(&self) {
        self.server_sql(&format!("ALTER DATABASE {} ALLOW_CONNECTIONS true", self.database_name)).await;
    }

    async fn server_sql(&self, sql: &str) {
        self.template.server_sql(sql).await;
    }

    fn start_edge(&self, index: usize, (http_port, https_port): (u16, u16), arguments: &[&str]) -> Edge {
        let mut command = Command::new(program("edge"));
        let settings = self.edge_settings.get(&index);
        command
            .args(arguments)
            .envs(self.edge_env(settings.map_or(&[][..], |settings| &settings.env[..])))
            .env("SVC__EDGE__LISTEN_HTTP", format!("127.0.0.1:{http_port}"))
            .env("SVC__EDGE__LISTEN_HTTPS", format!("127.0.0.1:{https_port}"));
        if let Some(EdgeSettings { ahead: Some(seconds), .. }) = settings {
            wrong_clock::set_ahead(&mut command, self.folder.path(), *seconds);
        }
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

    /// Kills admin and restarts it as if a day had passed, so that every background job is due.
    pub async fn restart_admin_later(&mut self) {
        self.admin.kill();
        // Killed in the middle of a job, admin leaves the job's lease behind, which also expires within the day.
        self.sql(
            "UPDATE job_leases SET last_run_at = last_run_at - interval '1 day',
                                   leased_until = leased_until - interval '1 day'",
        )
        .await;
        self.admin = start_admin(self.folder.path(), &self.env, self.admin_ahead);
        self.wait_until_ready().await;
    }

    /// Kills admin and restarts it, waiting only for admin because the edges may be stopped.
    pub async fn restart_admin_alone(&mut self) {
        self.admin.kill();
        self.admin = start_admin(self.folder.path(), &self.env, self.admin_ahead);
        let api = self.nobody();
        eventually(READY_WITHIN, "admin is ready", async || {
            api.get("/health").attempt().await.is_ok_and(|answer| answer.status == 200)
        })
        .await;
    }

    /// Starts another admin, at an address that no edge uses.
    pub fn start_another_admin(&self) -> Process {
        self.start_admin_at_a_port().1
    }

    /// Starts another admin, and returns its port.
    pub fn start_admin_at_a_port(&self) -> (u16, Process) {
        let port = ports::free();
        (port, self.start_admin_at(port))
    }

    /// Starts another admin at this port.
    pub fn start_admin_at(&self, port: u16) -> Process {
        let mut command = Command::new(program("admin"));
        command.envs(self.env.iter().cloned()).env("SVC__ADMIN__LISTEN", format!("127.0.0.1:{port}"));
        Process::start("another-admin", self.folder.path(), &command)
    }

    /// Returns the settings of programs started from now on.
    pub fn settings(&self) -> Vec<(String, String)> {
        self.env.clone()
    }

    /// Replaces the settings of programs started from now on.
    pub fn replace_settings(&mut self, settings: Vec<(String, String)>) {
        self.env = settings;
    }

    /// Sets a configuration key, like [`Builder::set`], for programs started from now on.
    pub fn set(&mut self, variable: &str, value: impl std::fmt::Display) {
        self.env.push((format!("SVC__{variable}"), value.to_string()));
    }

    /// Restarts an edge at its former ports once the previous process is gone.
    pub async fn restart_edge(&mut self, index: usize) {
        self.start_edge_again(index);
        self.wait_until_ready().await;
    }

    /// Restarts an edge like [`Self::restart_edge`], without waiting for it.
    pub fn start_edge_again(&mut self, index: usize) {
        self.edges[index].process.kill();
        let Edge { http_port, https_port, .. } = self.edges[index];
        self.edges[index] = self.start_edge(index, (http_port, https_port), &[]);
    }

    /// Restarts an edge at its former ports without waiting until it is ready, because it may refuse to start.
    pub fn restart_edge_unready(&mut self, index: usize) {
        self.edges[index].process.kill();
        let Edge { http_port, https_port, .. } = self.edges[index];
        self.edges[index] = self.start_edge(index, (http_port, https_port), &[]);
    }

    /// Starts an edge that takes over from the running one when that is asked to hand over. Returns the running one.
    pub fn start_upgrade(&mut self, index: usize) -> Process {
        let Edge { http_port, https_port, .. } = self.edges[index];
        let edge = self.start_edge(index, (http_port, https_port), &["--upgrade"]);
        std::mem::replace(&mut self.edges[index], edge).process
    }

    /// Waits until admin responds, directly and through every edge.
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

/// Starts admin, with a clock that is `ahead` by that many seconds if given.
fn start_admin(folder: &Path, env: &[(String, String)], ahead: Option<i64>) -> Process {
    let mut command = Command::new(program("admin"));
    command.envs(env.iter().cloned());
    if let Some(seconds) = ahead {
        wrong_clock::set_ahead(&mut command, folder, seconds);
    }
    Process::start("admin", folder, &command)
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
