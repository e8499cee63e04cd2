//! A Redis whose machine vanishes without a word: connections stand, and nothing comes over them any more.

use std::process::Command;

use super::{
    relay::Relay,
    served::{Held, Received, completions, numbered, without_limits},
    *,
};
use crate::world::{ports, process::Process};

/// Completions that the provider holds while their Redis vanishes, and others that are asked for meanwhile.
pub(super) struct Vanishing {
    pub(super) metered: Metered,
    received: Received,
    under_way: Held,
    /// The number of completions that are held.
    pub(super) held: u64,
    /// The number of the next completion.
    next: u64,
}

impl Vanishing {
    pub(super) async fn start(redis_url: &str) -> Self {
        let configure = |builder| without_limits(builder).set("REDIS__URL", redis_url);
        let (metered, received) = Metered::after_one(configure).await;
        let held = completions(1);
        let under_way = metered.hold(0, (0..held).map(|number| numbered(number).at_most(300).held())).await;
        Self { metered, received, under_way, held, next: held }
    }

    /// Asks for another completion, and returns the status.
    pub(super) async fn ask(&mut self) -> u16 {
        let wanted = numbered(self.next);
        self.next += 1;
        let status = self.metered.ask(&wanted).await.status.as_u16();
        self.received.extend((status == 200).then_some(wanted));
        status
    }

    /// Lets those that are held end: each is received whole, and the ledger has nothing that admin assumed of an edge that lives.
    /// Returns the world, which goes on.
    pub(super) async fn end(mut self) -> Metered {
        self.metered.provider.release();
        let ended = self.under_way.end().await;
        assert_eq!(ended.len() as u64, self.held);
        self.received.extend(ended);
        let figures = self.metered.assert_ledger(&self.received, 0).await;
        assert_eq!(figures.estimated, 0, "admin settled for an edge that lives");
        self.metered
    }
}

/// A Redis at a port of its own.
pub(super) fn redis(folder: &Path) -> (u16, Process) {
    let port = ports::free();
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--save", "", "--port"]).arg(port.to_string()).arg("--dir").arg(folder);
    (port, Process::start(&format!("redis-{port}"), folder, &command))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_vanished_is_given_up_for_the_one_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let ((first, _first), (second, _second)) = (redis(folder.path()), redis(folder.path()));
    let relay = Relay::start(first).await;
    let mut vanishing = Vanishing::start(&format!("redis://127.0.0.1:{}", relay.port)).await;
    relay.fall_silent();
    eventually(BACKGROUND, "nothing is admitted", async || vanishing.ask().await == 503).await;
    relay.lead_to(second);
    eventually(BACKGROUND, "the other one is used", async || vanishing.ask().await == 200).await;
    vanishing.end().await;
}
