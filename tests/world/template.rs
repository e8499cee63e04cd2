//! The template that every world is copied from: a migrated database with a certificate in it, a master key and a local
//! CA.
//!
//! Each test may run in its own process, so the template outlives the process that created it. Its name is a hash of
//! everything it is made from: the first test that looks for that name creates the template under an advisory lock of
//! the Postgres server, and later ones only copy its database.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, UNIX_EPOCH},
};

use sha2::{Digest as _, Sha256};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::sync::OnceCell;
use url::Url;

use super::{
    edge_rights::{EDGE_PASSWORD, EDGE_ROLE},
    process::{program, run},
};

const MIGRATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../migrations");
/// The prefix of databases of worlds: `svc_test_<process id>_<random>`.
const PREFIX: &str = "svc_test";
/// The advisory lock for creating templates.
const MAKING: i64 = 0x5356_435f_5445_5354;
/// The interval of cleaning up after killed test processes.
const SWEEP_EVERY: Duration = Duration::from_mins(10);

/// The template, and the folder for worlds made from it.
pub struct Template {
    server: Url,
    database: String,
    pub worlds: PathBuf,
    pub master_key: PathBuf,
    /// The key file of edges; absent for programs of a version whose edges have no rights of their own.
    pub edge_key: PathBuf,
    pub ca: PathBuf,
}

static TEMPLATE: OnceCell<Template> = OnceCell::const_new();

impl Template {
    /// Returns the template for the current programs and migrations.
    pub async fn shared() -> &'static Self {
        TEMPLATE.get_or_init(Self::find_or_make).await
    }

    async fn find_or_make() -> Self {
        let server = std::env::var("SVC_TEST_POSTGRES_URL").unwrap_or_else(|_| {
            panic!("SVC_TEST_POSTGRES_URL is not set: these tests need a Postgres to work on; run `make test`")
        });
        let server: Url = server.parse().expect("SVC_TEST_POSTGRES_URL is not a URL");
        let mut connection = PgConnection::connect(server.as_str())
            .await
            .unwrap_or_else(|e| panic!("no Postgres answers at SVC_TEST_POSTGRES_URL ({e}); run `make test`"));
        let worlds = Path::new(env!("CARGO_TARGET_TMPDIR")).join("worlds");
        fs::create_dir_all(&worlds).unwrap();
        sweep_now_and_then(&mut connection, &worlds).await;

        let name = format!("template_{}_{}", hash_of_folder(&worlds), hash_of_makings(&mut connection).await);
        let folder = worlds.join(&name);
        let template = Self {
            server,
            database: format!("{PREFIX}_{name}"),
            worlds,
            master_key: folder.join("master.key"),
            edge_key: folder.join("edge.key"),
            ca: folder.join("ca/ca.pem"),
        };
        if !template.exists(&mut connection).await {
            // The lock ends with the connection, so a killed process blocks nobody.
            sqlx::query("SELECT pg_advisory_lock($1)").bind(MAKING).execute(&mut connection).await.unwrap();
            if !template.exists(&mut connection).await {
                template.remove_all_of_this_folder(&mut connection).await;
                template.make(&mut connection, &folder).await;
            }
        }
        template
    }

    async fn exists(&self, connection: &mut PgConnection) -> bool {
        let query = sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)");
        let has_database: bool = query.bind(&self.database).fetch_one(connection).await.unwrap();
        // `cargo clean` removes the folder but not the database.
        has_database && self.ca.exists()
    }

    /// Creates the folder, and then the database, which is renamed when it is complete.
    async fn make(&self, connection: &mut PgConnection, folder: &Path) {
        let ca_folder = self.ca.parent().unwrap();
        fs::create_dir_all(ca_folder).unwrap();
        let unfinished = format!("{}_new", self.database);
        execute(connection, &format!("CREATE DATABASE {unfinished}")).await;

        let config = folder.join("template.toml");
        let text = format!(
            "[postgres]\nurl = \"{}\"\n[secrets]\nmaster_key_file = \"{}\"\n",
            self.url_of(&unfinished),
            self.master_key.display()
        );
        fs::write(&config, text).unwrap();
        run(Command::new(program("certs")).arg("master-key").arg(&self.master_key));
        run(Command::new(program("admin")).arg("migrate").env("SVC_CONFIG", &config));
        let knows_edges = Command::new(program("certs")).args(["edge-key", "--help"]).output().unwrap();
        if knows_edges.status.success() {
            let password = folder.join("edge-password");
            fs::write(&password, EDGE_PASSWORD).unwrap();
            let mut grant = Command::new(program("admin"));
            run(grant.args(["grant-edge", EDGE_ROLE, "--password-file"]).arg(&password).env("SVC_CONFIG", &config));
            run(Command::new(program("certs")).arg("edge-key").arg(&self.edge_key).env("SVC_CONFIG", &config));
        }
        run(Command::new(program("certs")).args(["local-ca", "--dir"]).arg(ca_folder).env("SVC_CONFIG", &config));
        assert!(self.ca.exists(), "certs local-ca wrote no ca.pem");
        // A database with connections cannot be copied.
        execute(connection, &format!("ALTER DATABASE {unfinished} ALLOW_CONNECTIONS false")).await;
        execute(connection, &format!("ALTER DATABASE {unfinished} RENAME TO {}", self.database)).await;
    }

    /// Removes the templates that were created here from other migrations or programs.
    async fn remove_all_of_this_folder(&self, connection: &mut PgConnection) {
        let mine = format!("template_{}_", hash_of_folder(&self.worlds));
        for name in databases(connection, &format!("{PREFIX}_{mine}")).await {
            execute(connection, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
        }
        for (name, folder) in entries(&self.worlds) {
            if name.starts_with(&mine) {
                fs::remove_dir_all(folder).unwrap();
            }
        }
    }

    /// Returns whether edges have rights of their own.
    pub fn separates_edges(&self) -> bool {
        self.edge_key.exists()
    }

    /// Creates a database from the template, and returns its name and URL.
    pub async fn database(&self) -> (String, Url) {
        let name = format!("{PREFIX}_{}_{:08x}", std::process::id(), rand::random::<u32>());
        self.server_sql(&format!("CREATE DATABASE {name} TEMPLATE {}", self.database)).await;
        let url = self.url_of(&name);
        (name, url)
    }

    pub async fn drop_database(&self, name: &str) {
        self.server_sql(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
    }

    fn url_of(&self, database: &str) -> Url {
        let mut url = self.server.clone();
        url.set_path(database);
        url
    }

    pub async fn server_sql(&self, sql: &str) {
        let mut connection = PgConnection::connect(self.server.as_str()).await.expect("SVC_TEST_POSTGRES_URL");
        execute(&mut connection, sql).await;
    }
}

async fn execute(connection: &mut PgConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
}

/// Hashes the folder, because worktrees that share a server have their own templates.
fn hash_of_folder(worlds: &Path) -> String {
    short_hash(Sha256::new_with_prefix(worlds.as_os_str().as_encoded_bytes()))
}

/// Hashes the server, the migrations, and the builds of the two programs that create a template.
async fn hash_of_makings(connection: &mut PgConnection) -> String {
    let mut hash = Sha256::new();
    let server: i64 =
        sqlx::query_scalar("SELECT system_identifier FROM pg_control_system()").fetch_one(connection).await.unwrap();
    hash.update(server.to_be_bytes());
    for (name, file) in entries(Path::new(MIGRATIONS)) {
        hash.update(name);
        hash.update(fs::read(file).unwrap());
    }
    for name in ["admin", "certs"] {
        let file = fs::metadata(program(name)).unwrap();
        let built = file.modified().unwrap().duration_since(UNIX_EPOCH).unwrap();
        hash.update(file.len().to_be_bytes());
        hash.update(built.as_nanos().to_be_bytes());
    }
    short_hash(hash)
}

fn short_hash(hash: Sha256) -> String {
    hex::encode(&hash.finalize()[..6])
}

fn entries(folder: &Path) -> Vec<(String, PathBuf)> {
    let found = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let mut named: Vec<_> =
        found.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path()))).collect();
    named.sort();
    named
}

async fn databases(connection: &mut PgConnection, prefix: &str) -> Vec<String> {
    let query = sqlx::query_scalar("SELECT datname::text FROM pg_database WHERE starts_with(datname::text, $1)");
    query.bind(prefix).fetch_all(connection).await.unwrap()
}

/// Removes the databases and folders of killed test processes, unless that was done recently.
async fn sweep_now_and_then(connection: &mut PgConnection, worlds: &Path) {
    let stamp = worlds.join("swept");
    let is_recent = |file: fs::Metadata| file.modified().unwrap().elapsed().is_ok_and(|age| age < SWEEP_EVERY);
    if fs::metadata(&stamp).is_ok_and(is_recent) {
        return;
    }
    fs::write(&stamp, "").unwrap();
    let is_dead = |pid: &str| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists();
    for (name, folder) in entries(worlds) {
        if name.split('-').next().is_some_and(is_dead) {
            // Another process may be cleaning up at the same time.
            let _ = fs::remove_dir_all(folder);
        }
    }
    for name in databases(connection, &format!("{PREFIX}_")).await {
        if name.split('_').nth(2).is_some_and(is_dead) {
            let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
            let _ = sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut *connection).await;
        }
    }
}
