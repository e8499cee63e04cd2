//! A world of its own for a test: a real Postgres database, a real Redis, a real admin and real edges, with their own
//! folder store, certificate and master key. It ends with the test.
//!
//! Start with [`World::start`]. How many worlds there are at once is up to `--test-threads`: one a core by default.

pub mod actor;
pub mod answer;
pub mod browser;
pub mod bucket;
mod builder;
mod contract;
pub mod domain;
pub mod edge;
pub mod form;
pub mod frames;
pub mod mailbox;
pub mod org;
pub mod person;
pub mod ports;
pub mod process;
mod redis_server;
pub mod request;
pub mod site;
pub mod socket;
mod template;
pub mod tools;

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use reqwest::Client;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tempfile::TempDir;
use url::Url;

pub use self::{actor::Actor, bucket::Bucket, builder::Builder, edge::Edge, site::Site};
use self::{
    process::{Process, program},
    redis_server::RedisKind,
    template::Template,
};

/// What the local code host's sign-in page asks for.
pub const OPERATOR_SECRET: &str = "operator-secret-of-the-tests";
/// How long a program may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(30);

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

impl World {
    /// A world with one edge and the usual configuration.
    pub async fn start() -> Self {
        Self::builder().start().await
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
