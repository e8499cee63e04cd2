//! The server, from its start to its graceful stop.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context as _;
use axum::serve::ListenerExt as _;
use db::billing::plan;
use domain::networks::Networks;
use tokio::{net::TcpListener, signal::unix::SignalKind};
use tokio_util::sync::CancellationToken;

use crate::{
    app::{App, AppTasks},
    jobs,
    listener::BoundedListener,
    router,
};

/// Longest time for running requests and tasks to end once the program was told to stop.
const STOP_WAIT: Duration = Duration::from_secs(20);

/// Serves until SIGTERM or SIGINT, then waits for running requests and tasks.
pub async fn serve(app: App, tasks: AppTasks) -> anyhow::Result<()> {
    db::migrate(&app.db).await.context("the database could not be brought up to date")?;
    let mut watch = app.watch();
    watch.start().await?;
    warn_of_retired_plans(&app).await.context("the plans of subscriptions could not be read")?;
    let listen = app.config.admin.listen;
    let listener =
        TcpListener::bind(listen).await.with_context(|| format!("admin.listen: cannot listen on {listen}"))?;
    let trusted = Networks::parse(&app.config.edge.trusted_proxies).context("edge.trusted_proxies")?;
    let service = router::router(&app, trusted)?.into_make_service_with_connect_info::<SocketAddr>();
    tracing::info!(address = %listen, "serving the control plane");

    // Stopped after the last request, which still waits for the edges.
    let tasks_stopping = CancellationToken::new();
    let tasks = tokio::spawn(tasks.run(tasks_stopping.clone()));
    jobs::start(&app);
    let stopping = app.stopping.clone();
    // Without it the kernel holds small answers back; that it cannot be set is no reason not to serve.
    let listener = BoundedListener::new(listener, app.config.admin.connections)
        .tap_io(|connection| drop(connection.tcp().set_nodelay(true)));
    let server = axum::serve(listener, service).with_graceful_shutdown(async move { stopping.cancelled().await });
    let mut server = tokio::spawn(server.into_future());
    let mut refusal = None;
    tokio::select! {
        ended = &mut server => ended?.context("the server ended by itself")?,
        found = watch.run() => refusal = Some(found),
        signal = stop_signal() => tracing::info!("stopping on {}", signal?),
    }
    app.stopping.cancel();
    app.tasks.close();
    let finished = tokio::time::timeout(STOP_WAIT, async {
        let _ = server.await;
        app.tasks.wait().await;
    });
    if finished.await.is_err() {
        tracing::warn!("gave up on requests that did not end within {} s", STOP_WAIT.as_secs());
    }
    tasks_stopping.cancel();
    tasks.await?;
    refusal.map_or(Ok(()), |refusal| Err(refusal.into()))
}

/// Names the plans that accounts are subscribed to and that the configuration has no more. Until it has, they have the limits
/// of the dearest plan, and cannot be charged.
async fn warn_of_retired_plans(app: &App) -> Result<(), sqlx::Error> {
    for (plan, subscriptions) in plan::subscriptions_by_plan(&app.db).await? {
        if app.plans().find(&plan).is_none() {
            tracing::warn!(plan, subscriptions, "subscriptions are to a plan that `billing.plans` lacks; put it back");
        }
    }
    Ok(())
}

async fn stop_signal() -> std::io::Result<&'static str> {
    let mut terminate = tokio::signal::unix::signal(SignalKind::terminate())?;
    let mut interrupt = tokio::signal::unix::signal(SignalKind::interrupt())?;
    Ok(tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    })
}
