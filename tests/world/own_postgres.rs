//! A dedicated Postgres with a replica that streams from it over the network and can take over.

use std::{
    os::unix::fs::{MetadataExt as _, chown},
    path::{Path, PathBuf},
    process::Command,
};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tempfile::TempDir;
use url::Url;

use super::{
    READY_WITHIN, World,
    edge_rights::EDGE_ROLE,
    eventually, ports,
    process::{Process, run},
};

/// Postgres refuses to run as root; its package creates this user.
const USER: &str = "postgres";

/// The primary and the replica, which end when this value is dropped.
pub(super) struct OwnPostgres {
    /// The port of the world's database.
    port: u16,
    copy_port: u16,
    primary: Option<Process>,
    copy: Option<Process>,
    /// The primary's data folder.
    primary_folder: String,
    /// The replica's data folder, and how many replicas were created before it.
    copy_folder: String,
    copies: u32,
    servers: Servers,
}

/// The programs and folders that servers are started from.
pub(super) struct Servers {
    programs: PathBuf,
    data: TempDir,
    /// The user and group to run as, if the tests run as root.
    user: Option<(u32, u32)>,
    logs: PathBuf,
}

impl Servers {
    /// Finds the programs and the user for the server version of `database`.
    pub(super) async fn new(database: &Url, logs: &Path) -> Self {
        let programs = "SELECT setting FROM pg_config() WHERE name = 'BINDIR'";
        let mut connection = PgConnection::connect(database.as_str()).await.unwrap();
        let programs: String = sqlx::query_scalar(programs).fetch_one(&mut connection).await.unwrap();
        let data = TempDir::with_prefix("svc-test-postgres-").unwrap();
        let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
        let number = |flag| run(Command::new("id").args([flag, USER])).trim().parse::<u32>().unwrap();
        let user = is_root.then(|| (number("-u"), number("-g")));
        if let Some((user, group)) = user {
            chown(data.path(), Some(user), Some(group)).unwrap();
        }
        Self { programs: programs.into(), data, user, logs: logs.to_owned() }
    }

    /// Returns the command for one of PostgreSQL's programs, run as the owner of the data.
    pub(super) fn program(&self, name: &str) -> Command {
        // Changing the user resets the parent-death signal, so set it again afterwards.
        let bound = ["setpriv", "--pdeathsig", "KILL"];
        let user = self.user.map(|(user, group)| {
            ["setpriv".to_owned(), format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".to_owned()]
        });
        let mut words = user.into_iter().flatten().chain(bound.map(str::to_owned));
        let mut command = Command::new(words.next().unwrap());
        command.args(words).arg(self.programs.join(name)).current_dir(self.data.path());
        command
    }

    pub(super) fn folder(&self, name: &str) -> PathBuf {
        self.data.path().join(name)
    }

    pub(super) fn create_folder(&self, name: &str) {
        std::fs::create_dir(self.folder(name)).unwrap();
        self.give(name);
    }

    pub(super) fn create_file(&self, name: &str) {
        std::fs::write(self.folder(name), "").unwrap();
        self.give(name);
    }

    fn give(&self, name: &str) {
        if let Some((user, group)) = self.user {
            chown(self.folder(name), Some(user), Some(group)).unwrap();
        }
    }

    /// Returns the command that runs a server on existing data.
    pub(super) fn server(&self, name: &str, port: u16, settings: &[&str]) -> Command {
        let mut command = self.program("postgres");
        command.arg("-D").arg(self.folder(name)).args(["-c", &format!("port={port}")]);
        let usual = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "shared_buffers=16MB"];
        for setting in usual.iter().chain(settings) {
            command.args(["-c", setting]);
        }
        command
    }

    /// Starts a server on existing data.
    pub(super) async fn start(&self, name: &str, port: u16, settings: &[&str]) -> Process {
        let server = Process::start(name, &self.logs, &self.server(name, port, settings));
        let answers = async || PgConnection::connect(url(port, "postgres").as_str()).await.is_ok();
        eventually(READY_WITHIN, "a Postgres is ready", answers).await;
        server
    }

    /// Initializes a server's data, and starts it with the contents of `database`.
    pub(super) async fn begin(&self, name: &str, port: u16, database: &Url) -> Process {
        let initialize = ["--username=svc", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"];
        run(self.program("initdb").args(initialize).arg("--pgdata").arg(self.folder(name)));
        let server = self.start(name, port, &[]).await;

        let (dump, own) = (self.logs.join("database.sql"), url(port, "svc"));
        run(Command::new(self.programs.join("createdb"))
            .arg(format!("--maintenance-db={}", url(port, "postgres")))
            .arg("svc"));
        // The dump contains the role's rights, but not the role itself.
        run(Command::new(self.programs.join("psql"))
            .args(["--no-psqlrc", "--quiet", "--command", &format!("CREATE ROLE {EDGE_ROLE} LOGIN")])
            .arg(own.as_str()));
        run(Command::new(self.programs.join("pg_dump"))
            .args(["--no-owner", "--file"])
            .arg(&dump)
            .arg(database.as_str()));
        let restore = ["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file"];
        run(Command::new(self.programs.join("psql")).args(restore).arg(&dump).arg(own.as_str()));
        server
    }
}

fn url(port: u16, database: &str) -> Url {
    format!("postgres://svc@127.0.0.1:{port}/{database}").parse().unwrap()
}

async fn ask(port: u16, database: &str, sql: &str) -> i64 {
    let mut connection = PgConnection::connect(url(port, database).as_str()).await.unwrap();
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut connection).await.unwrap_or_else(|e| panic!("{sql}: {e}"))
}

impl OwnPostgres {
    /// Starts both with the contents of `database`, and logs to `logs`.
    pub(super) async fn start(database: &Url, logs: &Path) -> Self {
        let servers = Servers::new(database, logs).await;
        let (port, copy_port) = (ports::free(), ports::free());
        let primary = servers.begin("primary", port, database).await;
        let mut own = Self {
            port,
            copy_port,
            primary: Some(primary),
            copy: None,
            primary_folder: "primary".to_owned(),
            copy_folder: String::new(),
            copies: 0,
            servers,
        };
        own.make_copy().await;
        own
    }

    /// Starts another replica of the current primary.
    async fn make_copy(&mut self) {
        self.copies += 1;
        self.copy_folder = format!("copy-{}", self.copies);
        let follow = ["--write-recovery-conf", "--checkpoint=fast", "--no-sync", "--host=127.0.0.1", "--username=svc"];
        let mut backup = self.servers.program("pg_basebackup");
        let folder = self.servers.folder(&self.copy_folder);
        run(backup.args(follow).arg(format!("--port={}", self.port)).arg("--pgdata").arg(folder));
        self.copy = Some(self.servers.start(&self.copy_folder, self.copy_port, &[]).await);
        let receivers = "SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'";
        let follows = async || ask(self.copy_port, "postgres", receivers).await == 1;
        eventually(READY_WITHIN, "the copy follows", follows).await;
    }

    pub(super) fn url(&self) -> Url {
        url(self.port, "svc")
    }

    fn dump(&self) -> PathBuf {
        self.servers.logs.join("own.sql")
    }

    fn server_sql(&self, statement: &str) {
        let psql = self.servers.programs.join("psql");
        let server = url(self.port, "postgres");
        run(Command::new(psql).args(["--no-psqlrc", "--quiet", "--command", statement]).arg(server.as_str()));
    }
}

impl Drop for OwnPostgres {
    fn drop(&mut self) {
        // If they are killed instead, their child processes still write for a moment.
        for mut server in self.primary.take().into_iter().chain(self.copy.take()) {
            server.signal("QUIT");
            server.wait();
        }
    }
}

impl World {
    fn own_postgres(&mut self) -> &mut OwnPostgres {
        self.own_postgres.as_mut().unwrap()
    }

    /// Runs a query at the replica, and returns its number.
    pub async fn copy_number(&self, sql: &str) -> i64 {
        ask(self.own_postgres.as_ref().unwrap().copy_port, "svc", sql).await
    }

    /// Disconnects the replica from the primary.
    pub fn cut_copy_off(&mut self) {
        let mut copy = self.own_postgres().copy.take().unwrap();
        copy.signal("INT");
        copy.wait();
    }

    /// Ends the primary, as if its machine were lost, and promotes the replica at the same address.
    pub async fn fail_over(&mut self) {
        let own = self.own_postgres();
        let mut lost = own.primary.take().unwrap();
        lost.signal("QUIT");
        lost.wait();
        own.primary_folder.clone_from(&own.copy_folder);
        own.primary = Some(own.servers.start(&own.primary_folder, own.port, &["primary_conninfo="]).await);
        assert_eq!(ask(own.port, "postgres", "SELECT pg_promote()::int::bigint").await, 1);
    }

    /// Adds a new replica after [`Self::fail_over`].
    pub async fn copy_again(&mut self) {
        self.own_postgres().make_copy().await;
    }

    pub fn stop_own_postgres(&mut self) {
        let mut primary = self.own_postgres().primary.take().unwrap();
        primary.signal("INT");
        primary.wait();
    }

    pub async fn start_own_postgres(&mut self) {
        let own = self.own_postgres();
        own.primary = Some(own.servers.start(&own.primary_folder, own.port, &[]).await);
    }

    /// Dumps the world's database on its own server.
    pub fn dump(&mut self) {
        let own = self.own_postgres();
        run(Command::new(own.servers.programs.join("pg_dump")).arg("--file").arg(own.dump()).arg(own.url().as_str()));
    }

    /// Replaces the world's database with the dump, on the same server.
    pub fn restore_dump(&mut self) {
        let own = self.own_postgres();
        for statement in [
            "ALTER DATABASE svc ALLOW_CONNECTIONS false",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'svc'",
            "DROP DATABASE svc WITH (FORCE)",
            "CREATE DATABASE restored",
        ] {
            own.server_sql(statement);
        }
        let restore = ["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file"];
        let restored = url(own.port, "restored");
        run(Command::new(own.servers.programs.join("psql")).args(restore).arg(own.dump()).arg(restored.as_str()));
        // Renamed last, so that nobody connects before it is complete.
        own.server_sql("ALTER DATABASE restored RENAME TO svc");
    }
}
