//! Checks the health of every admin, each in its own task: a slow admin delays no check of another.

use std::{collections::HashMap, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use edge_metrics as metrics;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use telemetry::{OutageLine, OutageLog};
use tokio::{
    net::TcpStream,
    task::JoinSet,
    time::{MissedTickBehavior, interval, timeout},
};

use super::admins::{AdminEndpoint, AdminPool, AdminState};

/// Resolves the admins' names and checks their health, for as long as it is polled.
pub(super) async fn watch(admins: Arc<AdminPool>) {
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
            watched.entry(admin.address()).or_insert_with(|| looking.spawn(watch_admin(admin.clone())));
        }
        tokio::select! {
            _ = every.tick() => {}
            // The sender is in `admins`, so it is not dropped.
            _ = upstreams.changed() => {}
        }
        admins.resolve(&mut known).await;
    }
}

async fn watch_admin(admin: Arc<AdminEndpoint>) {
    let mut every = interval(limits::HEALTH_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut check, mut unanswered, outage) = (HealthCheck::default(), 0_u32, OutageLog::new());
    loop {
        every.tick().await;
        let state = match timeout(limits::HEALTH_WAIT, check.ask(admin.address())).await {
            Ok(Ok(state)) => state,
            Ok(Err(_)) => AdminState::Unreachable,
            Err(_) if unanswered + 1 >= limits::HUNG_AFTER => AdminState::Hung,
            Err(_) => AdminState::Silent,
        };
        if state < AdminState::Silent {
            unanswered = 0;
        } else {
            unanswered = unanswered.saturating_add(1);
            // A late response to this check must not be taken as one to the next.
            check = HealthCheck::default();
        }
        admin.set_state(state);
        metrics::admin_is_up(&admin.address().to_string(), state == AdminState::Healthy);
        log_state(&outage, admin.address(), state);
    }
}

fn log_state(outage: &OutageLog, admin: SocketAddr, state: AdminState) {
    if state == AdminState::Healthy {
        if let Some(lasted) = outage.record_success() {
            tracing::info!(%admin, seconds = lasted.as_secs(), "an admin is healthy again");
        }
    } else if let Some(OutageLine { lasted, .. }) = outage.record_failure() {
        tracing::warn!(%admin, ?state, seconds = lasted.as_secs(), "an admin is not healthy");
    }
}

/// A health check over a kept connection, which stays open however many connections an admin has.
#[derive(Default)]
struct HealthCheck {
    connection: Option<SendRequest<Empty<Bytes>>>,
}

impl HealthCheck {
    async fn ask(&mut self, address: SocketAddr) -> anyhow::Result<AdminState> {
        if let Some(mut connection) = self.connection.take()
            && let Ok(state) = check_over(&mut connection).await
        {
            self.connection = Some(connection);
            return Ok(state);
        }
        // The program behind a kept connection may have been replaced.
        let stream = TcpStream::connect(address).await?;
        let (mut connection, work) = handshake(TokioIo::new(stream)).await?;
        // Ends with the connection, or once its sender is dropped.
        tokio::spawn(work);
        let state = check_over(&mut connection).await?;
        self.connection = Some(connection);
        Ok(state)
    }
}

async fn check_over(connection: &mut SendRequest<Empty<Bytes>>) -> anyhow::Result<AdminState> {
    connection.ready().await?;
    let question = Request::get("/health").header(header::HOST, "health").body(Empty::new())?;
    let answer = connection.send_request(question).await?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), limits::HEALTH_BYTES).collect().await;
    let body = body.map_err(|_| anyhow::anyhow!("the answer to a health check cannot be read"))?.to_bytes();
    Ok(parse_state(status, &body))
}

fn parse_state(status: StatusCode, body: &[u8]) -> AdminState {
    if status == StatusCode::OK {
        return AdminState::Healthy;
    }
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    if body["draining"] == true { AdminState::Draining } else { AdminState::Unwell }
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
            (200, "", AdminState::Healthy),
            (503, r#"{"ok":false,"draining":true}"#, AdminState::Draining),
            (503, r#"{"ok":false,"postgres":false}"#, AdminState::Unwell),
            (503, "no JSON", AdminState::Unwell),
            (404, "{}", AdminState::Unwell),
        ] {
            assert_eq!(parse_state(StatusCode::from_u16(status).unwrap(), body.as_bytes()), state, "{body}");
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
        let mut check = HealthCheck::default();
        for _ in 0..3 {
            assert_eq!(check.ask(address).await.unwrap(), AdminState::Healthy);
        }
        serving.await.unwrap();
        assert!(check.ask(address).await.is_err());
    }
}
