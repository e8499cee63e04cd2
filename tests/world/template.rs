//! What every world is copied from: a migrated database with a certificate in it, a master key and a local CA.
//! Made once by each test process; what dead processes left behind is swept away first.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::sync::OnceCell;
use url::Url;

use super::process::{program, run};

const PREFIX: &str = "svc_test";

/// The makings of a world.
pub struct Template {
    server: Url,
    database: String,
    /// This process's own folder.
    pub folder: PathBuf,
    /// The operator's key file.
    pub master_key: PathBuf,
    /// The certificate of the local CA.
    pub ca: PathBuf,
}

static TEMPLATE: OnceCell<Template> = OnceCell::const_new();

impl Template {
    /// The template of this process.
    pub async fn shared() -> &'static Self {
        TEMPLATE.get_or_init(Self::make).await
    }

    async fn make() -> Self {
        let server = std::env::var("SVC_TEST_POSTGRES_URL").unwrap_or_else(|_| {
            panic!("SVC_TEST_POSTGRES_URL is not set: these tests need a Postgres to work on; run `make test`")
        });
        let server: Url = server.parse().expect("SVC_TEST_POSTGRES_URL is not a URL");
        let worlds = Path::new(env!("CARGO_TARGET_TMPDIR")).join("worlds");
        sweep(&server, &worlds).await;

        let folder = worlds.join(std::process::id().to_string());
        std::fs::create_dir_all(&folder).unwrap();
        let database = format!("{PREFIX}_{}_template", std::process::id());
        let master_key = folder.join("master.key");
        let ca_folder = folder.join("ca");
        std::fs::create_dir_all(&ca_folder).unwrap();
        let mut template = Self { server, database, folder, master_key, ca: ca_folder.clone() };
        template.server_sql(&format!("CREATE DATABASE {}", template.database)).await;

        let config = template.folder.join("template.toml");
        let database_url = template.url_of(&template.database);
        let text = format!(
            "[postgres]\nurl = \"{database_url}\"\n[secrets]\nmaster_key_file = \"{}\"\n",
            template.master_key.display()
        );
        std::fs::write(&config, text).unwrap();
        run(Command::new(program("certs")).arg("master-key").arg(&template.master_key));
        run(Command::new(program("admin")).arg("migrate").env("SVC_CONFIG", &config));
        run(Command::new(program("certs")).args(["local-ca", "--dir"]).arg(&ca_folder).env("SVC_CONFIG", &config));
        template.ca = ca_folder.join("ca.pem");
        assert!(template.ca.exists(), "certs local-ca wrote no ca.pem");
        template
    }

    /// A new database like the template; its name and URL.
    pub async fn database(&self, number: u32) -> (String, Url) {
        let name = format!("{PREFIX}_{}_{number}", std::process::id());
        self.server_sql(&format!("CREATE DATABASE {name} TEMPLATE {}", self.database)).await;
        let url = self.url_of(&name);
        (name, url)
    }

    /// Removes a world's database.
    pub async fn drop_database(&self, name: &str) {
        self.server_sql(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
    }

    fn url_of(&self, database: &str) -> Url {
        let mut url = self.server.clone();
        url.set_path(database);
        url
    }

    /// Runs SQL on the server's own database.
    pub async fn server_sql(&self, sql: &str) {
        let mut connection = PgConnection::connect(self.server.as_str()).await.expect("SVC_TEST_POSTGRES_URL");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
}

/// Databases and folders of test processes that no longer run.
async fn sweep(server: &Url, worlds: &Path) {
    let is_dead = |pid: &str| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists();
    for entry in std::fs::read_dir(worlds).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_dead) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    let mut connection = PgConnection::connect(server.as_str())
        .await
        .unwrap_or_else(|e| panic!("no Postgres answers at SVC_TEST_POSTGRES_URL ({e}); run `make test`"));
    let names: Vec<String> = sqlx::query_scalar("SELECT datname FROM pg_database WHERE datname LIKE 'svc\\_test\\_%'")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    for name in names {
        if name.split('_').nth(2).is_some_and(is_dead) {
            let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
            let _ = sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut connection).await;
        }
    }
}
