//! Whether this admin is ready for requests, and what is missing (`/readyz` at `admin.metrics_listen`).
//!
//! Admin is ready while Postgres answers, because it can answer hardly any request without it. Without Redis or the
//! store it is only degraded. Start with [`watch_readiness`].

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use app::App;
use packs::DiskSpace;
use telemetry::{health::Health, metrics};
use tokio::{
    net::TcpStream,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};

/// The requirements for being ready.
pub const REQUIREMENTS: [&str; 2] = ["postgres", "listening"];

/// Interval at which Postgres is checked, so that the state is no older than about a second.
const POSTGRES_EVERY: Duration = Duration::from_secs(1);
const REDIS_EVERY: Duration = Duration::from_secs(2);
/// Timeout of a check of Postgres or Redis.
const PATIENCE: Duration = Duration::from_millis(900);
/// Interval at which the store is checked: in a bucket, each request costs money.
const STORE_EVERY: Duration = Duration::from_secs(15);
const STORE_PATIENCE: Duration = Duration::from_secs(5);
/// Interval at which the disks of the spool and the store are checked.
const DISK_EVERY: Duration = Duration::from_secs(15);

/// Checks everything for as long as it is polled.
pub async fn watch_readiness(app: App, health: Health) {
    let (app, health) = (&app, &health);
    tokio::join!(
        watch_postgres(app, health),
        watch_redis(app, health),
        watch_store(app, health),
        watch_disks(app),
        watch_listener(app, health),
        async {
            app.stopping.cancelled().await;
            health.drain();
        },
    );
}

async fn watch_postgres(app: &App, health: &Health) {
    let mut every = interval(POSTGRES_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        let asked = Instant::now();
        let is_there = matches!(timeout(PATIENCE, db::ping(&app.db)).await, Ok(Ok(())));
        metrics::dependency("postgres", is_there.then(|| asked.elapsed()));
        health.set_met("postgres", is_there);
        let (open, most) = (app.db.size(), app.db.options().get_max_connections());
        metrics::postgres_pool("postgres", open as usize, app.db.num_idle(), most as usize);
    }
}

async fn watch_redis(app: &App, health: &Health) {
    let mut every = interval(REDIS_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        let asked = Instant::now();
        let is_there = matches!(timeout(PATIENCE, app.redis.ping()).await, Ok(Ok(())));
        metrics::dependency("redis", is_there.then(|| asked.elapsed()));
        health.set_degraded("redis", !is_there);
    }
}

async fn watch_store(app: &App, health: &Health) {
    loop {
        let asked = Instant::now();
        let is_there = matches!(timeout(STORE_PATIENCE, app.store.ping()).await, Ok(Ok(())));
        metrics::dependency("store", is_there.then(|| asked.elapsed()));
        health.set_degraded("store", !is_there);
        sleep(STORE_EVERY).await;
    }
}

async fn watch_disks(app: &App) {
    loop {
        let spool = app.spool_folder();
        if let Ok(Ok(DiskSpace { free, total })) =
            tokio::task::spawn_blocking(move || DiskSpace::for_folder(&spool)).await
        {
            metrics::disk("spool", free, total);
        }
        if !app.store.is_remote()
            && let Ok(DiskSpace { free, total }) = app.store.space().await
        {
            metrics::disk("store", free, total);
        }
        sleep(DISK_EVERY).await;
    }
}

/// Checks the listener, which starts last, after the migrations: an admin that accepts connections has the rest.
async fn watch_listener(app: &App, health: &Health) {
    let address = connect_address(app.config.admin.listen);
    while !matches!(timeout(PATIENCE, TcpStream::connect(address)).await, Ok(Ok(_))) {
        sleep(POSTGRES_EVERY).await;
    }
    health.set_met("listening", true);
}

/// Returns the address to connect to for a listen address.
fn connect_address(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_every_address_is_found_on_this_machine() {
        let of = |text: &str| connect_address(text.parse().unwrap()).to_string();
        assert_eq!(["0.0.0.0:80", "[::]:80", "10.0.0.1:80"].map(of), ["127.0.0.1:80", "[::1]:80", "10.0.0.1:80"]);
    }
}
