//! Checks the health of every admin, each in its own task: a slow admin delays no check of another.

use std::{collections::HashMap, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use telemetry::{Line, Outage};
use tokio::{
    net::TcpStream,
    task::JoinSet,
    time::{MissedTickBehavior, interval, timeout},
};

use super::admins::{Admin, Admins, State};
use crate::{limits, metrics};

/// Resolves the admins' names and checks their health, for as long as it is polled.
pub(super) async fn watch(admins: Arc<Admins>) {
    let mut looking = JoinSet::new();
    let mut watched = HashMap::new();
    let (mut known, mut upstreams) = (HashMap::new(), admins.upstreams());
    let mut every = interval(limits::RESOLVE_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let list = admins.all();
        watched.retain(|address, task: &mut tokio::task::AbortHandle| {
            let stays = list.iter().any(|admin| admin.address() == *address);
            if !stays {
                task.abort();
            }
            stays
        });
        for admin in list.iter() {
            watched.entry(admin.address()).or_insert_with(|| looking.spawn(look_at(admin.clone())));
        }
        tokio::select! {
            _ = every.tick() => {}
            // The sender is in `admins`, so it is not dropped.
            _ = upstreams.changed() => {}
        }
        admins.resolve(&mut known).await;
    }
}

async fn look_at(admin: Arc<Admin>) {
    let mut every = interval(limits::HEALTH_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut check, mut unanswered, outage) = (Check::default(), 0_u32, Outage::new());
    loop {
        every.tick().await;
        let state = match timeout(limits::HEALTH_WAIT, check.ask(admin.address())).await {
            Ok(Ok(state)) => state,
            Ok(Err(_)) => State::Unreachable,
            Err(_) if unanswered + 1 >= limits::HUNG_AFTER => State::Hung,
            Err(_) => State::Silent,
        };
        if state < State::Silent {
            unanswered = 0;
        } else {
            unanswered = unanswered.saturating_add(1);
            // A late response to this check must not be taken as one to the next.
            check = Check::default();
        }
        admin.set_state(state);
        metrics::admin_is_up(&admin.address().to_string(), state == State::Healthy);
        say(&outage, admin.address(), state);
    }
}

fn say(outage: &Outage, admin: SocketAddr, state: State) {
    if state == State::Healthy {
        if let Some(lasted) = outage.ends() {
            tracing::info!(%admin, seconds = lasted.as_secs(), "an admin is healthy again");
        }
    } else if let Some(Line { lasted, .. }) = outage.fails() {
        tracing::warn!(%admin, ?state, seconds = lasted.as_secs(), "an admin is not healthy");
    }
}

/// A health check over a kept connection, which stays open however many connections an admin has.
#[derive(Default)]
struct Check {
    connection: Option<SendRequest<Empty<Bytes>>>,
}

impl Check {
    async fn ask(&mut self, address: SocketAddr) -> anyhow::Result<State> {
        if let Some(mut connection) = self.connection.take()
            && let Ok(state) = ask_over(&mut connection).await
        {
            self.connection = Some(connection);
            return Ok(state);
        }
        // The program behind a kept connection may have been replaced.
        let stream = TcpStream::connect(address).await?;
        let (mut connection, work) = handshake(TokioIo::new(stream)).await?;
        // Ends with the connection, or once its sender is dropped.
        tokio::spawn(work);
        let state = ask_over(&mut connection).await?;
        self.connection = Some(connection);
        Ok(state)
    }
}

async fn ask_over(connection: &mut SendRequest<Empty<Bytes>>) -> anyhow::Result<State> {
    connection.ready().await?;
    let question = Request::get("/health").header(header::HOST, "health").body(Empty::new())?;
    let answer = connection.send_request(question).await?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), limits::HEALTH_BYTES).collect().await;
    let body = body.map_err(|_| anyhow::anyhow!("the answer to a health check cannot be read"))?.to_bytes();
    Ok(judge(status, &body))
}

fn judge(status: StatusCode, body: &[u8]) -> State {
    if status == StatusCode::OK {
        return State::Healthy;
    }
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    if body["draining"] == true { State::Draining } else { State::Unwell }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    #[test]
    fn an_admin_that_stops_says_so() {
        for (status, body, state) in [
            (200, "", State::Healthy),
            (503, r#"{"ok":false,"draining":true}"#, State::Draining),
            (503, r#"{"ok":false,"postgres":false}"#, State::Unwell),
            (503, "no JSON", State::Unwell),
            (404, "{}", State::Unwell),
        ] {
            assert_eq!(judge(StatusCode::from_u16(status).unwrap(), body.as_bytes()), state, "{body}");
        }
    }

    #[tokio::test]
    async fn a_connection_is_kept_and_made_anew_when_it_has_ended() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            for answers in [2, 1] {
                let (mut stream, _) = listener.accept().await.unwrap();
                for _ in 0..answers {
                    let mut question = Vec::new();
                    while !question.ends_with(b"\r\n\r\n") {
                        question.push(stream.read_u8().await.unwrap());
                    }
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
                }
            }
        });
        let mut check = Check::default();
        for _ in 0..3 {
            assert_eq!(check.ask(address).await.unwrap(), State::Healthy);
        }
        serving.await.unwrap();
        assert!(check.ask(address).await.is_err());
    }
}
