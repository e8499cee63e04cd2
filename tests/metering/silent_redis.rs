//! A Redis whose machine vanishes without a word: connections stand, and nothing comes over them any more.

use std::process::Command;

use super::{
    relay::Relay,
    served::{completions, numbered, without_limits},
    *,
};
use crate::world::{ports, process::Process};

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
    let url = format!("redis://127.0.0.1:{}", relay.port);
    let (metered, mut received) = Metered::after_one(|builder| without_limits(builder).set("REDIS__URL", url)).await;
    let count = completions(1);
    let under_way = metered.hold(0, (0..count).map(|number| numbered(number).at_most(300).held())).await;

    relay.fall_silent();
    let mut others = (count..).map(numbered);
    eventually(BACKGROUND, "nothing is admitted", async || {
        let wanted = others.next().unwrap();
        let status = metered.ask(&wanted).await.status;
        received.extend((status == 200).then_some(wanted));
        status == 503
    })
    .await;
    relay.lead_to(second);
    eventually(BACKGROUND, "the other one is used", async || {
        let wanted = others.next().unwrap();
        let status = metered.ask(&wanted).await.status;
        received.extend((status == 200).then_some(wanted));
        status == 200
    })
    .await;
    metered.provider.release();
    let ended = under_way.end().await;
    assert_eq!(ended.len() as u64, count);
    received.extend(ended);
    let figures = metered.assert_ledger(&received, 0).await;
    assert_eq!(figures.estimated, 0, "admin settled for an edge that lives");
}
