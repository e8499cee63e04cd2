//! The admins, and which of them are healthy.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs as _},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{interval, timeout},
};

use crate::{limits, metrics};

/// The admins, each with its health as it was last seen.
pub(super) struct Upstreams {
    list: Vec<Upstream>,
    next: AtomicUsize,
}

struct Upstream {
    address: SocketAddr,
    is_healthy: AtomicBool,
}

impl Upstreams {
    /// Resolves the configured addresses. Fails when one of them is not an address.
    pub(super) fn resolve(names: &[String]) -> io::Result<Self> {
        let mut list = Vec::new();
        for name in names {
            let address = name.to_socket_addrs()?.next();
            let address = address.ok_or_else(|| io::Error::other(format!("{name} has no address")))?;
            list.push(Upstream { address, is_healthy: AtomicBool::new(true) });
        }
        Ok(Self { list, next: AtomicUsize::new(0) })
    }

    /// The number of admins.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// The address of an admin that [`Self::choose`] returned.
    pub(super) fn address(&self, at: usize) -> SocketAddr {
        self.list[at].address
    }

    /// Whether any admin was healthy when it was last looked at.
    pub(super) fn any_healthy(&self) -> bool {
        self.list.iter().any(|upstream| upstream.is_healthy.load(Ordering::Relaxed))
    }

    /// Notes that an admin could not be reached.
    pub(super) fn mark_unhealthy(&self, at: usize) {
        self.list[at].is_healthy.store(false, Ordering::Relaxed);
    }

    /// The next admin that is not in `tried`: a healthy one, else any, because health may be wrong.
    pub(super) fn choose(&self, tried: &[usize]) -> Option<usize> {
        let start = self.next.fetch_add(1, Ordering::Relaxed);
        let untried =
            || (0..self.list.len()).map(|n| start.wrapping_add(n) % self.list.len()).filter(|at| !tried.contains(at));
        untried().find(|&at| self.list[at].is_healthy.load(Ordering::Relaxed)).or_else(|| untried().next())
    }
}

/// Looks at the admins' health, again and again, for as long as it is polled.
pub(super) async fn watch_health(upstreams: Arc<Upstreams>) {
    let mut every = interval(limits::HEALTH_EVERY);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        for upstream in &upstreams.list {
            let is_healthy = matches!(timeout(limits::HEALTH_WAIT, is_healthy(upstream.address)).await, Ok(Ok(true)));
            metrics::admin_is_up(&upstream.address.to_string(), is_healthy);
            if upstream.is_healthy.swap(is_healthy, Ordering::Relaxed) != is_healthy {
                let state = if is_healthy { "healthy" } else { "unhealthy" };
                tracing::info!(admin = %upstream.address, "admin is {state}");
            }
        }
    }
}

async fn is_healthy(address: SocketAddr) -> io::Result<bool> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: health\r\nConnection: close\r\n\r\n").await?;
    let mut status = [0; b"HTTP/1.1 200".len()];
    stream.read_exact(&mut status).await?;
    Ok(status.ends_with(b" 200"))
}
