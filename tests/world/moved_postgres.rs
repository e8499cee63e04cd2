//! A Postgres on a machine of its own, which falls silent, and whose disk and address another machine then has.

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

/// The folder of the data, on the disk that moves.
const DATA: &str = "moved";
const PORT: u16 = 5432;
/// Listens at whatever address its machine has.
const SETTINGS: &[&str] = &["listen_addresses=*"];

/// The server and its machine. They end with the value.
pub(super) struct MovedPostgres {
    address: Address,
    machine: Machine,
    servers: Servers,
    /// The folder of what the servers print.
    logs: PathBuf,
}

impl MovedPostgres {
    /// Starts it, with what is in `database`. What it prints goes to `logs`.
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

    /// The URL of the world's database.
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
        // A killed one leaves processes behind, which still write for a moment.
        self.machine.process.signal("QUIT");
        self.machine.process.wait();
    }
}

impl World {
    fn moved_postgres(&mut self) -> &mut MovedPostgres {
        self.moved_postgres.as_mut().unwrap()
    }

    /// The connections to the Postgres that moves that stand, by their ports here.
    pub fn postgres_connections(&self) -> BTreeSet<u16> {
        self.moved_postgres.as_ref().unwrap().address.connections()
    }

    /// What the machine of Postgres sends is lost from now on.
    pub fn silence_postgres(&self) {
        self.moved_postgres.as_ref().unwrap().machine.fall_silent();
    }

    /// The machine of Postgres loses its power, and another one has its disk and its address. It says nothing over the connections
    /// that stand, as one does behind a firewall that does not know them.
    pub async fn move_postgres(&mut self) {
        let moved = self.moved_postgres();
        // Unlike a server that is killed, it ends with its last process.
        moved.machine.process.signal("QUIT");
        moved.machine.process.wait();
        let machine = moved.address.start("b", &moved.logs, &moved.servers.server(DATA, PORT, SETTINGS)).await;
        machine.ignore(&moved.address.connections());
        moved.address.lead_to(&machine);
        moved.machine = machine;
        moved.is_ready().await;
    }
}
