//! The server, from startup to graceful shutdown.
//!
//! It shuts down in steps, so that no request is lost: it announces the shutdown (`GET /health`) and keeps accepting
//! connections until every edge has seen that; accepts connections already in the kernel's queue; then finishes running
//! requests, and uploads for as long as they make progress.

use std::{net::SocketAddr, pin::pin, time::Duration};

use anyhow::Context as _;
use app::{App, AppTasks, bounds::ConcurrencyLimits};
use axum::serve::ListenerExt as _;
use config::reload::Reloader;
use db::billing::plan;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    listener::{self, BoundedListener, ConnectionCount},
    reload::ConfigReload,
};

/// Maximum wait for Postgres and Redis before the first connection is accepted.
const START_WAIT: Duration = Duration::from_secs(5);
/// The time for which connections are still accepted during shutdown: edges check our health every second.
const LEAVE: Duration = Duration::from_secs(3);
/// Maximum time to accept what is then in the kernel's queue.
const BACKLOG_WAIT: Duration = Duration::from_secs(2);
/// The time without a new connection after which the listener is closed.
const QUIET: Duration = Duration::from_millis(50);
/// Timeout of running requests and tasks, other than uploads, after that.
const STOP_WAIT: Duration = Duration::from_secs(20);
/// Time to send the responses to the last uploads.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// Polling interval during shutdown.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Serves until SIGTERM or SIGINT, then waits for running requests and tasks. SIGHUP reloads the configuration.
pub async fn serve(app: App, tasks: AppTasks, reloader: Reloader) -> anyhow::Result<()> {
    let reload = ConfigReload::new(reloader, app.clone())?;
    db::bring_up_to_date(&app.config.postgres).await.context("the database could not be brought up to date")?;
    let mut watch = app.ownership_watch();
    watch.start().await?;
    warn_of_retired_plans(&app).await.context("the plans of subscriptions could not be read")?;
    // Cancelled after the last request, which may still wait for the edges.
    let tasks_stopping = CancellationToken::new();
    let watching = {
        let (app, stop) = (app.clone(), tasks_stopping.clone());
        tokio::spawn(async move { stop.run_until_cancelled(app.vitals.watch(&app.db, &app.redis)).await })
    };
    // An edge that checks too early would consider us unhealthy.
    app.vitals.wait_until_well(START_WAIT).await;
    let listen = app.config.admin.listen;
    let listener = listener::listen(listen).with_context(|| format!("admin.listen: cannot listen on {listen}"))?;
    let service = reload.service().into_make_service_with_connect_info::<SocketAddr>();
    tracing::info!(address = %listen, "serving the control plane");

    let tasks = tokio::spawn(tasks.run(tasks_stopping.clone()));
    let live = reload.live();
    jobs::start(&live);
    let reloading = tokio::spawn(reload.run());
    let listener = BoundedListener::new(listener, app.config.admin.connections);
    let closing = wait_to_close(app.stopping.clone(), listener.connections());
    // Without it, the kernel delays small responses. Serve even if it cannot be set.
    let listener = listener.tap_io(|connection| drop(connection.tcp().set_nodelay(true)));
    let server = axum::serve(listener, service).with_graceful_shutdown(closing);
    let mut server = tokio::spawn(server.into_future());
    let mut signals = StopSignals::new()?;
    let mut refusal = None;
    tokio::select! {
        ended = &mut server => ended?.context("the server ended by itself")?,
        found = watch.run() => refusal = Some(found),
        signal = signals.next() => tracing::info!("stopping on {signal}"),
    }
    reloading.abort();
    app.stopping.cancel();
    app.tasks.close();
    let ended = async {
        let _ = server.await;
        app.tasks.wait().await;
    };
    let longest =
        Duration::from_secs(live.now().config.admin.drain_seconds.into()).max(LEAVE + BACKLOG_WAIT + STOP_WAIT);
    tokio::select! {
        is_over = drain(ended, &app.bounds) => if !is_over {
            tracing::warn!("gave up on requests that did not end within {} s", STOP_WAIT.as_secs());
        },
        () = sleep(longest) => tracing::warn!("gave up on uploads that did not end within {} s", longest.as_secs()),
        signal = signals.next() => tracing::warn!("giving up on what is under way, on another {signal}"),
    }
    tasks_stopping.cancel();
    watching.await?;
    tasks.await?;
    refusal.map_or(Ok(()), |refusal| Err(refusal.into()))
}

/// Waits until the listener should close: health checks have seen that it is `stopping`, and no connection is waiting.
async fn wait_to_close(stopping: CancellationToken, connections: ConnectionCount) {
    stopping.cancelled().await;
    // Without connections, there is no client to notify.
    let left_alone = async {
        while !connections.is_empty() {
            sleep(LOOK_EVERY).await;
        }
    };
    let _ = timeout(LEAVE, left_alone).await;
    let quiet = async {
        loop {
            sleep(QUIET).await;
            if connections.is_backlog_empty() {
                return;
            }
        }
    };
    let _ = timeout(BACKLOG_WAIT, quiet).await;
}

/// Waits until everything has `ended`, beyond [`STOP_WAIT`] only while there are uploads; stalled ones are refused
/// before that. Returns whether everything has ended.
async fn drain(ended: impl Future<Output = ()>, bounds: &ConcurrencyLimits) -> bool {
    let mut ended = pin!(ended);
    let uploads = async {
        sleep(LEAVE + BACKLOG_WAIT + STOP_WAIT).await;
        let waited_for = bounds.uploads_under_way();
        if waited_for > 0 {
            tracing::info!(uploads = waited_for, "uploads are under way still");
        }
        while bounds.uploads_under_way() > 0 {
            sleep(LOOK_EVERY).await;
        }
        waited_for > 0
    };
    tokio::select! {
        () = &mut ended => true,
        waited = uploads => waited && timeout(LAST_ANSWERS, ended).await.is_ok(),
    }
}

/// Logs the plans that accounts are subscribed to and that are no longer configured. Until they are configured again,
/// these accounts have the limits of the most expensive plan and cannot be charged.
async fn warn_of_retired_plans(app: &App) -> Result<(), sqlx::Error> {
    for (plan, subscriptions) in plan::subscriptions_by_plan(&app.db).await? {
        if app.plans().find(&plan).is_none() {
            tracing::warn!(plan, subscriptions, "subscriptions are to a plan that `billing.plans` lacks; put it back");
        }
    }
    Ok(())
}

struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_waits_until_uploads_have_ended() {
        let unit = include_str!("../../deploy/systemd/svc-admin.service");
        let wait = unit.lines().find_map(|line| line.strip_prefix("TimeoutStopSec=")).unwrap();
        let wait = Duration::from_secs(wait.parse().unwrap());
        // Some seconds for a busy machine.
        let needed = Duration::from_secs(config::Admin::default().drain_seconds.into()) + Duration::from_secs(10);
        assert!(needed <= wait, "an admin may take {needed:?} to stop, and systemd kills it after {wait:?}");
    }
}
