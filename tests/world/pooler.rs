//! The real `PgBouncer` in transaction mode, between a world's programs and Postgres.

use std::{
    net::TcpStream,
    os::unix::fs::{MetadataExt as _, chown},
    path::Path,
    process::Command,
};

use tempfile::TempDir;
use url::Url;

use super::{
    READY_WITHIN, World, eventually, ports,
    process::{Process, run},
    tools,
};

/// `PgBouncer` refuses to run as root; PostgreSQL's package creates this user.
const USER: &str = "postgres";
/// The number of Postgres sessions, far fewer than the programs have connections.
const SESSIONS: usize = 4;

/// A running pooler, which ends when this value is dropped.
pub struct Pooler {
    port: u16,
    database: Url,
    _process: Process,
    _folder: TempDir,
}

impl Pooler {
    /// Starts a pooler for `database`. `keeps_statements` is whether prepared statements outlive a transaction.
    pub(super) async fn start(database: &Url, keeps_statements: bool, logs: &Path) -> Self {
        let folder = TempDir::with_prefix("svc-test-pooler-").unwrap();
        let port = ports::free();
        let password = database.password().unwrap_or_default();
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={} user={} password='{password}'\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = {SESSIONS}\nmax_client_conn = 500\nserver_login_retry = 1\nmax_prepared_statements = {}\n",
            database.port().unwrap_or(5432),
            database.username(),
            if keeps_statements { 500 } else { 0 },
        );
        let file = folder.path().join("pgbouncer.ini");
        std::fs::write(&file, settings).unwrap();
        // The other user may lack access to the installation folder.
        let program = folder.path().join("pgbouncer");
        std::fs::copy(tools::pgbouncer(), &program).unwrap();
        // Changing the user resets the parent-death signal, so set it again afterwards.
        let bound = ["setpriv", "--pdeathsig", "KILL"].map(str::to_owned);
        let mut words = Vec::new();
        if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
            let number = |flag| run(Command::new("id").args([flag, USER])).trim().parse::<u32>().unwrap();
            let (user, group) = (number("-u"), number("-g"));
            for path in [folder.path(), &file, &program] {
                chown(path, Some(user), Some(group)).unwrap();
            }
            let change = [format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".to_owned()];
            words.extend(["setpriv".to_owned()].into_iter().chain(change));
        }
        words.extend(bound);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(&program).arg(&file);
        let process = Process::start("pooler", logs, &command);
        let answers = async || TcpStream::connect(("127.0.0.1", port)).is_ok();
        eventually(READY_WITHIN, "the pooler answers", answers).await;
        Self { port, database: database.clone(), _process: process, _folder: folder }
    }

    /// Returns the URL of the database through the pooler.
    pub fn url(&self) -> Url {
        let mut url = self.database.clone();
        url.set_port(Some(self.port)).unwrap();
        url
    }
}

impl World {
    /// Starts a pooler for the world's database, which is unused until it is configured.
    pub async fn start_pooler(&self, keeps_statements: bool) -> Pooler {
        Pooler::start(&self.database, keeps_statements, self.folder()).await
    }
}
