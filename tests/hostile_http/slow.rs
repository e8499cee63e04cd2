//! Visitors who keep a connection and send nothing, or not a whole request.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use super::{API, SITE, assert_alive, connect, world_with_sites};
use crate::world::socket::statuses;

#[tokio::test]
async fn slow_requests_are_ended_and_block_nobody() {
    let world = world_with_sites().await;
    let mut slow = Vec::new();
    for host in [SITE, API] {
        for start in ["", "GET / HTT", "GET / HTTP/1.1\r\nhost: x\r\nx: "] {
            for _ in 0..20 {
                let mut stream = connect(&world, host, "http/1.1").await;
                stream.write_all(start.as_bytes()).await.unwrap();
                stream.flush().await.unwrap();
                slow.push((host, start, stream));
            }
        }
    }
    assert_alive(&world).await;
    for (host, start, mut stream) in slow {
        let mut rest = Vec::new();
        let ended = timeout(Duration::from_secs(100), stream.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "{host}: {start:?} is waited for without end");
        assert!(statuses(&rest).iter().all(|status| *status == 408 || *status == 400), "{:?}", statuses(&rest));
    }
    assert_alive(&world).await;
}
