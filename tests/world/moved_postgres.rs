//! A Postgres on a machine of its own, which goes silent before another machine takes over its disk and address.

use std::{
    collections::BTreeSet,
    io::Write as _,
    path::{Path, PathBuf},
};

use sqlx::{Connection as _, PgConnection};
use url::Url;

use super::{
    READY_WITHIN, World, eventually,
    machine::{Address, Machine},
    own_postgres::Servers,
    ports,
};

/// The data folder, on the disk that moves.
const DATA: &str = "moved";
const PORT: u16 = 5432;
/// Listen on whatever address the machine has.
const SETTINGS: &[&str] = &["listen_addresses=*"];

/// The server and its machine, which end when this value is dropped.
pub(super) struct MovedPostgres {
    address: Address,
    machine: Machine,
    servers: Servers,
    /// The log folder of the servers.
    logs: PathBuf,
}

impl MovedPostgres {
    /// Starts a server with the contents of `database`, and logs to `logs`.
    pub(super) async fn start(database: &Url, logs: &Path) -> Self {
        let servers = Servers::new(database, logs).await;
        let mut beginner = servers.begin(DATA, ports::free(), database).await;
        beginner.signal("INT");
        beginner.wait();
        let allowed = servers.folder(DATA).join("pg_hba.conf");
        let mut allowed = std::fs::File::options().append(true).open(allowed).unwrap();
        writeln!(allowed, "host all all all trust").unwrap();
        let address = Address::new();
        let machine = address.start("a", logs, &servers.server(DATA, PORT, SETTINGS)).await;
        address.lead_to(&machine);
        let moved = Self { address, machine, servers, logs: logs.to_owned() };
        moved.is_ready().await;
        moved
    }

    pub(super) fn url(&self) -> Url {
        format!("postgres://svc@{}:{PORT}/svc", self.address.there).parse().unwrap()
    }

    async fn is_ready(&self) {
        let url = self.url();
        let answers = async || PgConnection::connect(url.as_str()).await.is_ok();
        eventually(READY_WITHIN, "Postgres is ready", answers).await;
    }
}

impl Drop for MovedPostgres {
    fn drop(&mut self) {
        // If it is killed instead, its child processes still write for a moment.
        self.machine.process.signal("QUIT");
        self.machine.process.wait();
    }
}

impl World {
    fn moved_postgres(&mut self) -> &mut MovedPostgres {
        self.moved_postgres.as_mut().unwrap()
    }

    /// Returns the local ports of established connections to this Postgres.
    pub fn postgres_connections(&self) -> BTreeSet<u16> {
        self.moved_postgres.as_ref().unwrap().address.connections()
    }

    /// Drops everything that the machine of Postgres sends from now on.
    pub fn silence_postgres(&self) {
        self.moved_postgres.as_ref().unwrap().machine.fall_silent();
    }

    /// Simulates a power loss of Postgres's machine, after which another one has its disk and address. The new machine
    /// does not respond on established connections, like a firewall that does not know them.
    pub async fn move_postgres(&mut self) {
        let moved = self.moved_postgres();
        // Unlike a killed server, it ends with its last process.
        moved.machine.process.signal("QUIT");
        moved.machine.process.wait();
        let machine = moved.address.start("b", &moved.logs, &moved.servers.server(DATA, PORT, SETTINGS)).await;
        machine.ignore(&moved.address.connections());
        moved.address.lead_to(&machine);
        moved.machine = machine;
        moved.is_ready().await;
    }
}
