//! A dedicated Postgres that archives its log, so that it can be recovered to a point in time.

use std::{fs, path::Path};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use url::Url;

use super::{
    READY_WITHIN, World, eventually,
    own_postgres::Servers,
    ports,
    process::{Process, run},
};

/// The folders of the data, of the base backup, and of the archive.
const DATA: &str = "primary";
const BASE: &str = "base";
const ARCHIVE: &str = "archive";

/// The server, which ends when this value is dropped.
pub(super) struct ArchivedPostgres {
    port: u16,
    server: Option<Process>,
    servers: Servers,
}

impl ArchivedPostgres {
    /// Starts a server with the contents of `database`, and logs to `logs`.
    pub(super) async fn start(database: &Url, logs: &Path) -> Self {
        let servers = Servers::new(database, logs).await;
        let port = ports::free();
        let mut beginner = servers.begin(DATA, port, database).await;
        beginner.signal("INT");
        beginner.wait();
        servers.create_folder(ARCHIVE);
        let command = format!("archive_command=cp %p {}/%f", servers.folder(ARCHIVE).display());
        let server = servers.start(DATA, port, &["archive_mode=on", &command]).await;
        Self { port, server: Some(server), servers }
    }

    pub(super) fn url(&self) -> Url {
        format!("postgres://svc@127.0.0.1:{}/svc", self.port).parse().unwrap()
    }

    async fn ask(&self, sql: &str) -> String {
        let mut connection = PgConnection::connect(self.url().as_str()).await.unwrap();
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut connection).await.unwrap_or_else(|e| panic!("{sql}: {e}"))
    }
}

impl Drop for ArchivedPostgres {
    fn drop(&mut self) {
        // If it is killed instead, its child processes still write for a moment.
        if let Some(mut server) = self.server.take() {
            server.signal("QUIT");
            server.wait();
        }
    }
}

impl World {
    pub fn make_base_backup(&self) {
        let archived = self.archived_postgres.as_ref().unwrap();
        let how = ["--checkpoint=fast", "--no-sync", "--host=127.0.0.1", "--username=svc"];
        let mut backup = archived.servers.program("pg_basebackup");
        run(backup
            .args(how)
            .arg(format!("--port={}", archived.port))
            .arg("--pgdata")
            .arg(archived.servers.folder(BASE)));
    }

    pub async fn postgres_time(&self) -> String {
        self.archived_postgres.as_ref().unwrap().ask("SELECT clock_timestamp()::text").await
    }

    /// Loses the server's data, and recovers them to `time` from the base backup and the archive.
    pub async fn recover_postgres(&mut self, time: &str) {
        let archived = self.archived_postgres.as_mut().unwrap();
        let segment = archived.ask("SELECT pg_walfile_name(pg_switch_wal())").await;
        // The existence of the file is not enough, because it may be half written.
        let last = "SELECT coalesce(last_archived_wal, '') FROM pg_stat_archiver";
        eventually(READY_WITHIN, "the log is archived", async || archived.ask(last).await >= segment).await;
        let mut lost = archived.server.take().unwrap();
        lost.signal("QUIT");
        lost.wait();
        fs::remove_dir_all(archived.servers.folder(DATA)).unwrap();

        archived.servers.create_file(&format!("{BASE}/recovery.signal"));
        let restore = format!("restore_command=cp {}/%f %p", archived.servers.folder(ARCHIVE).display());
        let target = format!("recovery_target_time={time}");
        let settings = [restore.as_str(), &target, "recovery_target_action=promote"];
        archived.server = Some(archived.servers.start(BASE, archived.port, &settings).await);
        let archived = &*archived;
        let is_promoted = async || archived.ask("SELECT pg_is_in_recovery()::text").await == "false";
        eventually(READY_WITHIN, "the recovered server takes writes", is_promoted).await;
    }
}
