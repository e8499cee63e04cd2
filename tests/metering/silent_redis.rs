//! A Redis whose machine vanishes without a word: connections stand, and nothing comes over them any more.

use std::process::Command;

use super::{relay::Relay, *};
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
    let metered = Metered::start_with(|builder| builder.set("REDIS__URL", url)).await;
    metered.ask(&Completion::of(1, 1)).await.assert_status(200);
    let asker = metered.asker(0);
    let under_way = tokio::spawn(async move { asker.is_served(&Completion::of(10, 20).at_most(300).held()).await });
    eventually(BACKGROUND, "the provider is asked", async || metered.provider.asked().len() == 2).await;

    relay.fall_silent();
    eventually(BACKGROUND, "nothing is admitted", async || metered.ask(&Completion::of(2, 2)).await.status == 503)
        .await;
    relay.lead_to(second);
    eventually(BACKGROUND, "the other one is used", async || metered.ask(&Completion::of(3, 3)).await.status == 200)
        .await;
    metered.provider.release();
    assert!(under_way.await.unwrap());
    metered.rows_become(1, "completion_tokens = 20").await;
    assert_eq!(metered.rows("estimated").await, 0, "admin settled for an edge that lives");
    metered.assert_sums().await;
}
