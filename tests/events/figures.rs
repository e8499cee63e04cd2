//! The figures of event streams in bench/README.md. Nothing is asserted: `bench/run --only events` runs this against optimised
//! programs and puts the rows that it prints into the table.
//!
//! The clients share the machine with the admin that is measured.

use std::time::{Duration, Instant};

use domain::UserId;
use futures_util::future::join_all;
use sqlx::PgPool;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::world::World;

/// Streams that are open at once, and those of each person: as many as one may have.
const STREAMS: usize = 1_000;
const PER_PERSON: usize = 16;
/// Events, one after the other, each awaited at every stream.
const EVENTS: usize = 50;
/// The longest that anything here is waited for.
const PATIENCE: Duration = Duration::from_mins(1);

/// A stream over a bare socket, so that reading takes as little of the machine as may be.
struct Stream {
    socket: TcpStream,
    bytes: Vec<u8>,
}

impl Stream {
    async fn open(port: u16, token: &str) -> Self {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let request = format!(
            "GET /events HTTP/1.1\r\nhost: api.svc.localhost:{port}\r\nauthorization: Bearer {token}\r\n\
             accept: text/event-stream\r\n\r\n"
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut stream = Self { socket, bytes: Vec::new() };
        stream.read_until(": connected").await;
        assert!(stream.bytes.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&stream.bytes));
        stream
    }

    /// Reads until `text`, and returns when it came.
    async fn read_until(&mut self, text: &str) -> Instant {
        let reading = async {
            loop {
                if self.bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
                    return Instant::now();
                }
                let mut piece = [0; 4_096];
                let count = self.socket.read(&mut piece).await.unwrap();
                assert!(count > 0, "the stream ended: {}", String::from_utf8_lossy(&self.bytes));
                self.bytes.extend_from_slice(&piece[..count]);
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("nothing is told")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only events`"]
async fn many_streams_on_one_admin() {
    let world = World::builder().set("LIMITS__API_PER_MIN", 1_000_000).start().await;
    let owner = world.user("owner").await;
    let org = owner.create_org("acme").await;
    owner.create_project_in(&org, "engine").await;
    let tokens = people(&world, STREAMS.div_ceil(PER_PERSON)).await;
    let port = world.admin_port;
    // What a first stream and the first answers leave behind is not counted.
    drop(Stream::open(port, &tokens[0]).await);
    let before = world.admin.memory("VmRSS");
    let mut streams = Vec::with_capacity(STREAMS);
    for number in 0..STREAMS {
        streams.push(Stream::open(port, &tokens[number / PER_PERSON]).await);
    }
    let opened = world.admin.memory("VmRSS");
    let mut last = Vec::with_capacity(EVENTS);
    for number in 0..EVENTS {
        for stream in &mut streams {
            stream.bytes.clear();
        }
        let mark = format!("\"KEY_{number}\"");
        let (path, body) = (format!("/projects/engine/env/KEY_{number}"), serde_json::json!({ "value": "1" }));
        let start = Instant::now();
        let change = owner.put(&path).json(&body);
        let heard = join_all(streams.iter_mut().map(|stream| stream.read_until(&mark)));
        let (answer, heard) = tokio::join!(change.into_future(), heard);
        answer.ok();
        last.push(heard.into_iter().max().unwrap() - start);
    }
    let after = world.admin.memory("VmRSS");
    last.sort_unstable();
    print(&format!(
        "| {STREAMS} | {:.1} | {:.1} | {EVENTS} | {:.0} | {:.0} |",
        megabytes(opened.saturating_sub(before)),
        megabytes(after.saturating_sub(before)),
        last[EVENTS / 2].as_secs_f64() * 1e3,
        last[EVENTS - 1].as_secs_f64() * 1e3,
    ));
}

/// Members of the org, each with a token.
async fn people(world: &World, count: usize) -> Vec<String> {
    let db = PgPool::connect(world.database.as_str()).await.unwrap();
    let mut tokens = Vec::with_capacity(count);
    for number in 0..count {
        let secret = domain::token::TokenSecret::generate();
        let user = UserId::from_body(&format!("{number:0>20}")).unwrap();
        sqlx::query("INSERT INTO users (id, vcs_id, vcs_login, email, created_at) VALUES ($1, $2, $2, $2, now())")
            .bind(user.as_str())
            .bind(format!("person-{number}"))
            .execute(&db)
            .await
            .unwrap();
        sqlx::query(
            "INSERT INTO tokens (id, kind, user_id, created_by, secret_hash, created_at)
             VALUES ($1, 'cli', $2, $2, $3, now())",
        )
        .bind(format!("tok_{number:0>20}"))
        .bind(user.as_str())
        .bind(secret.hash().as_bytes().to_vec())
        .execute(&db)
        .await
        .unwrap();
        sqlx::query(
            "INSERT INTO org_members (org_id, user_id, role, joined_at) SELECT id, $1, 'member', now() FROM orgs",
        )
        .bind(user.as_str())
        .execute(&db)
        .await
        .unwrap();
        tokens.push(secret.expose().to_owned());
    }
    tokens
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[expect(clippy::print_stdout, reason = "it is read by the bench")]
fn print(row: &str) {
    println!("{row}");
}
