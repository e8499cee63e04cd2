//! The figure of a Redis that vanishes in bench/README.md. Nothing is asserted of the time: `bench/run --only gateway` runs this
//! against optimised programs and puts the row that it prints into the table.

use std::time::Instant;

use super::{relay::Relay, silent_redis::redis, *};

/// How often a host vanishes.
const TIMES: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only gateway`"]
#[expect(clippy::print_stdout, reason = "a row of the bench's table")]
async fn a_host_of_redis_vanishes_and_another_takes_its_address() {
    let folder = tempfile::tempdir().unwrap();
    let ((first, _first), (second, _second)) = (redis(folder.path()), redis(folder.path()));
    let relay = Relay::start(first).await;
    let url = format!("redis://127.0.0.1:{}", relay.port);
    let metered =
        Metered::start_with(|builder| builder.set("REDIS__URL", url).set("LIMITS__GATEWAY_PER_MIN", 1_000_000)).await;
    let mut away = Vec::new();
    for time in 0..TIMES {
        let [present, next] = if time % 2 == 0 { [first, second] } else { [second, first] };
        metered.ask(&Completion::of(1, 1)).await.assert_status(200);
        // Whoever has spares is served without Redis.
        only_open_are(0, &Redis::connect(&format!("redis://127.0.0.1:{present}")).unwrap()).await;
        relay.fall_silent();
        relay.lead_to(next);
        let vanished = Instant::now();
        loop {
            let answer = metered.ask(&Completion::of(1, 1)).await;
            if answer.status == 200 {
                break;
            }
            answer.assert_status(503);
            assert!(vanished.elapsed() < BACKGROUND, "it is away for too long");
        }
        away.push(vanished.elapsed());
    }
    away.sort_unstable();
    println!("| {TIMES} | {:.2} | {:.2} |", away[TIMES / 2].as_secs_f64(), away[TIMES - 1].as_secs_f64());
}
