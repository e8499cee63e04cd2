//! Dumps of a world's database made with `pg_dump`, and an operator's operations on them.

use std::{
    fs,
    path::PathBuf,
    process::Command,
    time::{Duration, SystemTime},
};

use sqlx::{Connection as _, PgConnection};
use url::Url;

use super::{World, bucket::files_below, process::run, start_admin, template::Template};

/// A database in addition to those of worlds, with the same contents as a new one. Its creator must remove it.
pub struct BareDatabase {
    name: String,
    pub url: Url,
}

impl BareDatabase {
    pub async fn new() -> Self {
        let (name, url) = Template::shared().await.database().await;
        Self { name, url }
    }

    pub async fn remove(self) {
        Template::shared().await.drop_database(&self.name).await;
    }
}

impl World {
    async fn postgres_program(&self, name: &str) -> Command {
        let programs = "SELECT setting FROM pg_config() WHERE name = 'BINDIR'";
        let mut connection = PgConnection::connect(self.database.as_str()).await.unwrap();
        let programs: String = sqlx::query_scalar(programs).fetch_one(&mut connection).await.unwrap();
        Command::new(PathBuf::from(programs).join(name))
    }

    pub async fn dump_to_file(&self) -> PathBuf {
        let file = self.folder().join("database.dump");
        let mut dump = self.postgres_program("pg_dump").await;
        run(dump.args(["--format=custom", "--no-owner", "--file"]).arg(&file).arg(self.database.as_str()));
        file
    }

    pub async fn restore_beside(&self, dump: &PathBuf) -> BareDatabase {
        let database = self.empty_database().await;
        let mut restore = self.postgres_program("pg_restore").await;
        run(restore.args(["--no-owner", "--exit-on-error", "--dbname"]).arg(database.url.as_str()).arg(dump));
        database
    }

    pub async fn empty_database(&self) -> BareDatabase {
        let name = format!("{}_{:08x}", self.database_name, rand::random::<u32>());
        self.server_sql(&format!("CREATE DATABASE {name}")).await;
        let mut url = self.database.clone();
        url.set_path(&name);
        BareDatabase { name, url }
    }

    /// Restarts admin with another database, as if every job had last run long ago.
    pub async fn move_admin_to(&mut self, database: &Url) {
        self.admin.kill();
        self.set("POSTGRES__URL", database);
        self.database = database.clone();
        let has_jobs = self.sql_number("SELECT count(*) FROM pg_class WHERE relname = 'job_leases'").await == 1;
        if has_jobs {
            self.sql("UPDATE job_leases SET last_run_at = last_run_at - interval '1 day', leased_until = NULL").await;
        }
        self.admin = start_admin(self.folder.path(), &self.env, None);
        self.wait_until_ready().await;
    }

    /// Moves the modification time of every pack in the folder store back by `age`.
    pub fn age_packs(&self, age: Duration) {
        let packs = self.folder.path().join("store/deployments");
        let folders = fs::read_dir(&packs).unwrap().map(|entry| entry.unwrap().path());
        for path in folders.chain(files_below(&packs)) {
            let written: SystemTime = fs::metadata(&path).unwrap().modified().unwrap();
            fs::File::open(&path).unwrap().set_modified(written - age).unwrap();
        }
    }

    /// Returns the sorted paths of all files in the trash of the folder store.
    pub fn trashed_files(&self) -> Vec<PathBuf> {
        let trash = self.folder.path().join("store/trash");
        let mut files = if trash.exists() { files_below(&trash) } else { Vec::new() };
        files.retain(|file| file.parent() != Some(&*trash));
        files.sort();
        files
    }
}
